"""The admin pages of the chat. Django imports this package; each module registers its pages."""

from mcphub.features.chat.admin import conversations, prices, providers

__all__ = ["conversations", "prices", "providers"]
