from django.utils.translation import gettext_lazy as _

from invocations.parts import EventSubject
from mcphub.features.quotas.apps import CountedModels
from mcphub.parts import (
    ConsoleArea,
    ConsolePage,
    ConsoleSettings,
    DoctorCheck,
    Endpoints,
    HubCommand,
    PaletteAction,
    RecordedSpend,
    RestEndpoint,
    RestResource,
    RolePermissions,
    SchemaHook,
    Verbs,
)
from sessions_app.kit.features import FeatureConfig


class ChatConfig(FeatureConfig):
    name = "mcphub.features.chat"
    label = "chat"
    verbose_name = _("Chat")
    requires = ("approvals", "quotas")
    parts = (
        HubCommand(
            "chat",
            "ask a model that may use the hub's tools, once or in a conversation",
            "mcphub.features.chat.commands.chat",
        ),
        Verbs("quota", "mcphub.features.chat.commands.prices"),
        CountedModels("mcphub.features.chat.providers.snapshot:provider_of_model"),
        RecordedSpend("mcphub.features.chat.spend:spent", "mcphub.features.chat.spend:providers"),
        HubCommand("provider", "add a provider of models for the chat", "mcphub.features.chat.commands.provider"),
        Endpoints("mcphub.features.chat.endpoints.routes"),
        RestResource(
            "providers", "mcphub.features.chat.provider_rest:ProviderViewSet", _("Model providers, without their keys.")
        ),
        RestResource(
            "models",
            "mcphub.features.chat.provider_rest:ModelViewSet",
            _("Models of providers, and their capabilities."),
        ),
        RestResource("model-prices", "mcphub.features.chat.price_rest:ModelPriceViewSet", _("Model prices.")),
        RestEndpoint("query", _("Asks a model that can use the hub's tools."), "chat"),
        RestEndpoint("session", _("Starts a conversation with a model."), "chat"),
        RestEndpoint("tools", _("Tools that the key can use in a chat."), "tools:list"),
        RestEndpoint("health", _("Status of the chat and its providers.")),
        SchemaHook("mcphub.features.chat.endpoints.openapi:add_endpoints"),
        ConsoleArea("chat", _("Chat"), "forum", place=55),
        ConsolePage(
            "chat",
            _("Conversations"),
            "forum",
            "chat_chatsession",
            "v",
            place=10,
            words=_("chat history messages"),
            about=_("A conversation keeps the questions and answers of one caller with a model."),
            docs="integrate/chat#conversations",
            first_step="connect",
        ),
        ConsolePage(
            "chat",
            _("Requests"),
            "contact_support",
            "chat_query",
            place=20,
            words=_("llm usage tokens"),
            about=_(
                "Each question to a model is recorded here with its tokens and outcome. Add a provider and a "
                "model first."
            ),
            docs="integrate/chat#questions-without-openais-wire",
        ),
        ConsolePage(
            "chat",
            _("Providers"),
            "hub",
            "chat_chatprovider",
            "p",
            place=30,
            words=_("llm openai model endpoint"),
            about=_("A provider serves models over an OpenAI-compatible API. Add one to use the chat."),
            docs="integrate/chat#set-it-up",
        ),
        ConsolePage(
            "chat",
            _("Models"),
            "smart_toy",
            "chat_chatmodel",
            place=40,
            about=_("Models answer in the chat. Add a provider first, then its models."),
            docs="integrate/chat#set-it-up",
        ),
        ConsolePage(
            "chat",
            _("Prices"),
            "payments",
            "chat_chatmodelprice",
            place=50,
            words=_("cost spend budget tokens"),
            about=_("A price is the cost of a million tokens of a model, so that quotas and usage show money."),
            docs="secure/quotas#prices",
        ),
        ConsolePage(
            "chat",
            _("Chat settings of keys"),
            "tune",
            "chat_chatkey",
            place=60,
            about=_(
                "Defaults for the chat requests of an API key: its model and its tools. Keys without them use "
                "the hub's default."
            ),
            docs="integrate/chat#which-tools",
        ),
        ConsoleSettings("chat", "chat_chatprovider", _("Services whose models may be asked.")),
        PaletteAction(_("Chat usage"), "bar_chart", "admin:chat_usage", ("chat.view_query",), _("tokens")),
        DoctorCheck(_("prices"), "mcphub.features.chat.doctor:check_prices"),
        RolePermissions(
            (
                "chat.view_chatprovider",
                "chat.view_chatmodel",
                "chat.view_chatmodelprice",
                "chat.view_chatkey",
                "chat.view_chatsession",
                "chat.view_query",
            )
        ),
        RolePermissions(("chat.read_conversations",), ("Auditor",)),
        RolePermissions(
            (
                "chat.add_chatprovider",
                "chat.change_chatprovider",
                "chat.test_chatprovider",
                "chat.add_chatmodel",
                "chat.change_chatmodel",
                "chat.delete_chatmodel",
                "chat.add_chatmodelprice",
                "chat.change_chatmodelprice",
                "chat.delete_chatmodelprice",
                "chat.add_chatkey",
                "chat.change_chatkey",
                "chat.delete_chatkey",
            ),
            ("Operator",),
        ),
        EventSubject("chatprovider", _("providers")),
        EventSubject("chatmodel", _("models")),
        EventSubject("chatkey", _("chat settings of keys")),
    )

    def ready(self) -> None:
        from mcphub.features.chat import price_bundle, renamed_tools
        from mcphub.features.chat.rules import RULES
        from sessions_app.kit.triggers import install_after_migrate

        price_bundle.connect()
        renamed_tools.connect()
        install_after_migrate(self, RULES)
