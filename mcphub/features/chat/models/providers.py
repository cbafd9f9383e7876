"""Tables of the chat: providers and their models. Edited by operators, effective within 250 ms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from sessions_app.history.guarding import GuardedModel
from sessions_app.history.recording import RecordedModel
from sessions_app.kit.entered import parts_of
from sessions_app.kit.fields import JSONText
from sessions_app.models import ApiKey
from sessions_app.protocol.errors import EgressRefused
from sessions_app.protocol.json import Json
from tools_catalog import secrets
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.literals import literal_in

_SECONDS = [MinValueValidator(0.1), MaxValueValidator(3600)]


class ChatProvider(secrets.KeepsOneSecret, GuardedModel):
    """A service that speaks OpenAI's chat completions, with the key that the hub sends it."""

    HIDDEN = ("ciphertext",)
    GUARDED: ClassVar[Mapping[str, Any]] = {"enabled": False}
    """It is sent the questions of others: by default, by its aliases, as a fallback."""
    GUARDED_AS_STORED = ("headers",)
    """Which organization and project over there reads them."""
    JUDGED_BY = ("base_url",)

    class Kind(models.TextChoices):
        OPENAI = "openai", _("OpenAI")
        HUAWEI_MAAS = "huawei_maas", _("Huawei Cloud MaaS")
        COMPATIBLE = "compatible", _("OpenAI-compatible")

    class ToolsOffered(models.TextChoices):
        AUTO = "auto", _("Automatic: as the model's maker documents it, else three tools")
        SEARCH = "search", _("Three tools that search, describe and call")
        EAGER = "eager", _("All tools at once, up to 128")
        RESPONSES = "responses", _("Loaded by the provider: OpenAI Responses, tool_search")
        MESSAGES = "messages", _("Loaded by the provider: Claude Messages, tool_reference")

    slug = models.CharField(
        _("name"),
        max_length=40,
        unique=True,
        validators=[RegexValidator(r"^[a-z0-9][a-z0-9_-]*\Z")],
        help_text=_("Prefix of the model names, as in openai/gpt-5."),
    )
    kind = models.CharField(
        _("kind"),
        max_length=16,
        choices=Kind,
        default=Kind.COMPATIBLE,
        help_text=_("Determines how errors are read and which fields are left out."),
    )
    base_url = models.CharField(
        _("base URL"),
        max_length=500,
        help_text=_("Up to the version, such as https://api.openai.com/v1. The hub appends /chat/completions."),
    )
    headers = JSONText(
        _("further headers"),
        default=dict,
        blank=True,
        help_text=_("Such as OpenAI-Organization. Not for keys: headers are visible and kept in the history."),
    )
    ciphertext = models.TextField(editable=False, blank=True)
    mask = models.CharField(_("key"), max_length=40, editable=False, blank=True)
    fingerprint = models.CharField(_("fingerprint"), max_length=64, editable=False, blank=True)
    enabled = models.BooleanField(_("enabled"), default=True)
    tools_offered = models.CharField(
        _("how tools are offered"),
        max_length=12,
        choices=ToolsOffered,
        default=ToolsOffered.AUTO,
        help_text=_("Tools of a toolset that offers a search. A provider that refuses to load them gets three tools."),
    )
    retries = models.PositiveSmallIntegerField(
        _("retries"),
        default=2,
        validators=[MaxValueValidator(3)],
        help_text=_("Before the first byte of a response, after a failed connection or 429, 502, 503, 504."),
    )
    connect_seconds = models.FloatField(_("connect timeout, seconds"), default=5, validators=_SECONDS)
    first_byte_seconds = models.FloatField(_("seconds to the first byte"), default=60, validators=_SECONDS)
    idle_seconds = models.FloatField(_("seconds between chunks"), default=30, validators=_SECONDS)
    total_seconds = models.FloatField(_("seconds per response"), default=300, validators=_SECONDS)
    breaker_failures = models.PositiveSmallIntegerField(
        _("failures that open the circuit"), default=5, validators=[MinValueValidator(1)]
    )
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("provider")
        verbose_name_plural = _("providers")
        ordering = ["slug"]
        permissions = [("test_chatprovider", _("Can test a provider"))]
        constraints = [
            models.CheckConstraint(condition=~Q(base_url=""), name="chat_provider_has_url"),
            models.CheckConstraint(
                condition=Q(kind__in=["openai", "huawei_maas", "compatible"]), name="chat_provider_kind_known"
            ),
        ]

    def __str__(self) -> str:
        return self.slug

    def clean(self) -> None:
        self.base_url = self.base_url.strip().rstrip("/").removesuffix("/chat/completions").rstrip("/")
        url = parts_of(self.base_url)
        if url.query or url.fragment:
            raise ValidationError({"base_url": _("Remove ? or # and everything after it.")})
        try:
            EgressPolicy.from_settings().check_url(self.base_url)
        except EgressRefused as error:
            raise ValidationError({"base_url": str(error)}) from error
        if not isinstance(self.headers, dict) or not all(isinstance(value, str) for value in self.headers.values()):
            raise ValidationError({"headers": _("Enter an object of header values by name.")})
        if {name.lower() for name in self.headers} & {"authorization", "host", "content-length", "content-type"}:
            raise ValidationError({"headers": _("The hub sets Authorization, Host and the content headers itself.")})
        for name, value in self.headers.items():
            if literal_in(name, value) is not None:
                message = _("%(name)s contains a credential. Enter it as the provider's key: headers are visible.")
                raise ValidationError({"headers": ValidationError(message, params={"name": name[:80]})})

    def set_secret(self, plain: str) -> None:
        super().set_secret(plain)
        self.fingerprint = secrets.fingerprint(plain) if plain else ""

    def encrypt_anew(self) -> list[str]:
        return [*changed, "fingerprint"] if (changed := super().encrypt_anew()) else []

    @property
    def _binding(self) -> str:
        return f"chat.ChatProvider:{self.slug}:key"

    @property
    def host(self) -> str:
        return parts_of(self.base_url).netloc


class ChatProviderState(models.Model):
    """A provider's recent health, shared by the workers; written when it changes."""

    provider = models.OneToOneField(
        ChatProvider, models.CASCADE, primary_key=True, related_name="state", verbose_name=_("provider")
    )
    rests_until = models.DateTimeField(_("circuit open until"), null=True, blank=True)
    openings = models.PositiveIntegerField(_("consecutive open circuits"), default=0)
    failure_code = models.CharField(_("last failure"), max_length=40, blank=True)
    failure = models.TextField(_("last failure"), blank=True)
    failed_at = models.DateTimeField(_("failed at"), null=True, blank=True)
    recovered_at = models.DateTimeField(_("recovered at"), null=True, blank=True)

    class Meta:
        default_permissions = ()
        verbose_name = _("provider status")
        verbose_name_plural = _("provider statuses")

    def __str__(self) -> str:
        return f"{self.provider}: {self.failure_code or 'answers'}"

    @property
    def is_failing(self) -> bool:
        return self.failed_at is not None and (self.recovered_at is None or self.recovered_at < self.failed_at)


class ChatModel(RecordedModel):
    """One model of a provider, and its capabilities: data, because they differ by region and by month."""

    provider = models.ForeignKey(ChatProvider, models.CASCADE, related_name="models", verbose_name=_("provider"))
    name = models.CharField(_("name"), max_length=200, help_text=_("The provider's model name."))
    aliases = JSONText(
        _("aliases"),
        default=list,
        blank=True,
        help_text=_('Additional names for clients, such as ["default", "fast"].'),
    )
    enabled = models.BooleanField(_("enabled"), default=True)
    is_default = models.BooleanField(
        _("default"), default=False, help_text=_("Used if a request names no model. Only one model can be the default.")
    )
    tools = models.BooleanField(_("calls functions"), default=True)
    parallel_tools = models.BooleanField(
        _("parallel function calls"), default=True, help_text=_("If off, parallel_tool_calls is sent as false.")
    )
    json_schema = models.BooleanField(
        _("follows a JSON schema"),
        default=False,
        help_text=_("Lets a model without function calling use tools: its answer is constrained to the schema."),
    )
    streams = models.BooleanField(_("streams"), default=True)
    usage_in_stream = models.BooleanField(
        _("reports usage in streams"), default=True, help_text=_("If off, stream_options is not sent.")
    )
    fallbacks = JSONText(
        _("fallbacks"),
        default=list,
        blank=True,
        help_text=_('Models that take over while this one can\'t be reached, in order, such as ["openai/gpt-5"].'),
    )
    updated_at = models.DateTimeField(_("changed"), auto_now=True)

    class Meta:
        verbose_name = _("model")
        verbose_name_plural = _("models")
        ordering = ["provider__slug", "name"]
        constraints = [
            models.UniqueConstraint(fields=["provider", "name"], name="chat_model_once"),
            models.UniqueConstraint(fields=["is_default"], condition=Q(is_default=True), name="chat_model_one_default"),
            models.CheckConstraint(condition=~Q(name=""), name="chat_model_has_name"),
        ]

    def __str__(self) -> str:
        return self.public_id

    @property
    def public_id(self) -> str:
        """As clients name it: `openai/gpt-5`."""
        return f"{self.provider.slug}/{self.name}"

    def clean(self) -> None:
        for column in ("aliases", "fallbacks"):
            value: Json = getattr(self, column)
            if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
                raise ValidationError({column: _("Enter a list of names.")})


class ChatKey(RecordedModel):
    """Defaults for the chat requests of one key."""

    class Tools(models.TextChoices):
        NONE = "none", _("None: each request names its tools")
        ALL = "all", _("All that the key can call")
        NAMED = "named", _("Only those named below")

    key = models.OneToOneField(ApiKey, models.CASCADE, related_name="chat", verbose_name=_("API key"))
    model = models.ForeignKey(
        ChatModel,
        models.SET_NULL,
        null=True,
        blank=True,
        verbose_name=_("model"),
        help_text=_("Used if a request names no model. Leave blank for the hub's default."),
    )
    tools = models.CharField(
        _("tools"),
        max_length=5,
        choices=Tools,
        default=Tools.NONE,
        help_text=_("Tools for requests that don't name tools of the hub."),
    )
    tool_names = JSONText(
        _("names of tools"), default=list, blank=True, help_text=_('Such as ["fetch_url", "current_time"].')
    )

    class Meta:
        verbose_name = _("chat settings of a key")
        verbose_name_plural = _("chat settings of keys")
        ordering = ["key__name"]

    def __str__(self) -> str:
        return str(self.key)

    def clean(self) -> None:
        names: Json = self.tool_names
        if not isinstance(names, list) or not all(isinstance(each, str) and each for each in names):
            raise ValidationError({"tool_names": _("Enter a list of names.")})
        if self.tools == self.Tools.NAMED and not names:
            raise ValidationError({"tool_names": _("Enter at least one tool.")})
