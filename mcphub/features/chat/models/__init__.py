"""The tables of the chat. Django looks for them here, and other modules import them from here."""

from mcphub.features.chat.models.conversations import AIResponse, ChatMessage, ChatSession, Query
from mcphub.features.chat.models.prices import ChatModelPrice
from mcphub.features.chat.models.providers import ChatKey, ChatModel, ChatProvider, ChatProviderState
from mcphub.features.chat.models.responses import ChatResponse

__all__ = [
    "AIResponse",
    "ChatKey",
    "ChatMessage",
    "ChatModel",
    "ChatModelPrice",
    "ChatProvider",
    "ChatProviderState",
    "ChatResponse",
    "ChatSession",
    "Query",
]
