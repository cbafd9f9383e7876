"""`mcphub.features.chat.errors`, at its address of release 1.0."""

from mcphub.features.chat.errors import ERROR_CODES, TOOL_ERROR_CODES, ChatError

__all__ = ["ERROR_CODES", "TOOL_ERROR_CODES", "ChatError"]
