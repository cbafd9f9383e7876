"""The admin pages of the chat. Django imports this package; each module registers its pages."""

from mcphub.chat.admin import approvals, conversations, providers

__all__ = ["approvals", "conversations", "providers"]
