"""`mcphub.features.chat.library`, at its address of release 1.0."""

from mcphub.features.chat.library import LocalChat, aask, ask

__all__ = ["LocalChat", "aask", "ask"]
