"""The admin pages of the chat."""

from mcphub.chat import admin_approvals, admin_conversations, admin_providers  # noqa: F401 - they register their pages
