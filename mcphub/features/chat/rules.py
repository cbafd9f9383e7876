"""Changes of the chat's tables that the database itself announces."""

from sessions_app.kit.triggers import Announce

RULES = (
    Announce("chat_chatprovider", "chat_providers_changed"),
    Announce("chat_chatmodelprice", "chat_providers_changed"),
    Announce("chat_chatmodel", "chat_providers_changed"),
    Announce("chat_chatproviderstate", "chat_providers_changed"),
    Announce("chat_chatkey", "chat_providers_changed"),
)
