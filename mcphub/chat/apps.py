from django.apps import AppConfig
from django.utils.translation import gettext_lazy as _

from sessions_app.kit.triggers import Announce, install_after_migrate

RULES = (
    Announce("chat_chatprovider", "chat_providers_changed"),
    Announce("chat_chatmodelprice", "chat_providers_changed"),
    Announce("chat_chatmodel", "chat_providers_changed"),
    Announce("chat_chatproviderstate", "chat_providers_changed"),
    Announce("chat_chatkey", "chat_providers_changed"),
)


class ChatConfig(AppConfig):
    name = "mcphub.chat"
    label = "chat"
    verbose_name = _("Chat")

    def ready(self) -> None:
        from mcphub.chat import price_bundle, renamed_tools

        price_bundle.connect()
        renamed_tools.connect()
        install_after_migrate(self, RULES)
