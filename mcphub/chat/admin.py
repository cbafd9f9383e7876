"""The admin pages of the chat."""

from mcphub.chat import admin_approvals  # noqa: F401 - registers its pages
