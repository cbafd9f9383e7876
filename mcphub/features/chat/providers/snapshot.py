"""Providers and models as turns see them: one immutable snapshot a process, replaced when the database moves."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.providers.prices import Price, Prices
from tools_catalog import secrets

if TYPE_CHECKING:
    from mcphub.features.chat.models import ChatModel, ChatModelPrice, ChatProvider

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    slug: str
    kind: str
    base_url: str
    headers: dict[str, str]
    sealed_key: str = field(default="", repr=False)
    """Still encrypted."""
    retries: int = 2
    connect_seconds: float = 5
    first_byte_seconds: float = 60
    idle_seconds: float = 30
    total_seconds: float = 300
    breaker_failures: int = 5
    tools_offered: str = "auto"
    """How the tools of a searched toolset are offered; see `engine.offering`."""

    def key(self) -> str:
        """Return the key; raise ChatError where it cannot be read."""
        if not self.sealed_key:
            return ""
        try:
            return secrets.decrypt(self.sealed_key, aad=f"chat.ChatProvider:{self.slug}:key")
        except secrets.SecretError as error:
            logger.error("The key of the provider %s cannot be read: %s", self.slug, error)
            raise ChatError(
                "AUTHENTICATION_FAILED", f"The hub cannot read its key for {self.slug}. Tell the operator."
            ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    provider: Provider
    name: str
    """As the provider knows it."""
    aliases: tuple[str, ...] = ()
    fallbacks: tuple[str, ...] = ()
    is_default: bool = False
    tools: bool = True
    parallel_tools: bool = True
    json_schema: bool = False
    streams: bool = True
    usage_in_stream: bool = True
    created: int = 0

    @property
    def id(self) -> str:
        return f"{self.provider.slug}/{self.name}"


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The model that shall answer, and those that may take over before a tool has run."""

    model: Model
    fallbacks: tuple[Model, ...] = ()
    asked_for: str = ""
    """The client's name for it; returned as the `model` of the answer."""


class Providers:
    """All usable models at one moment. Immutable."""

    def __init__(self, models: Iterable[Model] = ()) -> None:
        self.models = {model.id: model for model in models}
        self.providers = {model.provider.slug: model.provider for model in self.models.values()}
        self.default = next((model for model in self.models.values() if model.is_default), None)
        self.aliases: dict[str, Model] = {}
        for model in self.models.values():
            for alias in model.aliases:
                self.aliases.setdefault(alias, model)
        if self.default is not None:
            self.aliases.setdefault("default", self.default)

    @classmethod
    def load(cls) -> Providers:
        from mcphub.features.chat.models import ChatModel

        rows = ChatModel.objects.filter(enabled=True, provider__enabled=True).select_related("provider")
        providers: dict[int, Provider] = {}
        models = []
        for row in rows.order_by("provider__slug", "name"):
            provider = providers.get(row.provider_id)
            if provider is None:
                provider = providers[row.provider_id] = provider_of(row.provider)
            models.append(model_of(row, provider))
        return cls(models)

    def find(self, name: str) -> Model | None:
        """Return the model of an id, an alias, or of a bare name that only one provider has."""
        found = self.models.get(name) or self.aliases.get(name)
        if found is None:
            alike = [model for model in self.models.values() if model.name == name]
            found = alike[0] if len(alike) == 1 else None
        return found

    def choose(self, name: str | None = None, *, provider: str | None = None) -> ModelChoice:
        """Return the model to use. `name`: a model, or None for the default; `provider`: one that it must be of.

        Raises ChatError for an unknown model or provider, and where nothing is set up.
        """
        if provider is not None and provider not in self.providers:
            known = ", ".join(sorted(self.providers)) or "none"
            raise invalid("provider", f"There is no provider {provider[:60]!r}. Known: {known}.")
        if name is None:
            model = self.default if provider is None else self._first_of(provider)
        else:
            model = self.models.get(f"{provider}/{name}") if provider is not None else None
            model = model or self.find(name)
            if model is not None and provider is not None and model.provider.slug != provider:
                model = None
        if model is None and name is None:
            raise ChatError(
                "PROVIDER_UNAVAILABLE",
                "No model is set up to answer. Ask the hub's operator to add a provider.",
                should_retry=False,
            )
        if model is None:
            assert name is not None
            raise ChatError(
                "MODEL_NOT_FOUND", f"There is no model {name[:100]!r} here. GET /v1/models lists them.", param="model"
            )
        others = (self.find(other) for other in model.fallbacks)
        fallbacks = tuple(other for other in others if other is not None and other is not model)
        return ModelChoice(model, fallbacks, name or model.id)

    def _first_of(self, provider: str) -> Model | None:
        if self.default is not None and self.default.provider.slug == provider:
            return self.default
        return next((model for model in self.models.values() if model.provider.slug == provider), None)


def load_prices() -> Prices:
    """Return the model prices."""
    from mcphub.features.chat.models import ChatModelPrice

    return Prices(map(price_of, ChatModelPrice.objects.select_related("provider")))


def price_of(row: ChatModelPrice) -> Price:
    """Return the value of a ChatModelPrice row."""
    return Price(
        name=row.name,
        provider=row.provider.slug,
        model=row.model,
        read=row.input_millionths,
        cached=row.input_millionths if row.cached_millionths is None else row.cached_millionths,
        written=row.output_millionths,
        valid_from=row.valid_from.timestamp(),
    )


def provider_of(row: ChatProvider) -> Provider:
    """Return the value of a ChatProvider row."""
    return Provider(
        slug=row.slug,
        kind=row.kind,
        base_url=row.base_url.rstrip("/"),
        headers=dict(row.headers),
        sealed_key=row.ciphertext,
        retries=row.retries,
        connect_seconds=row.connect_seconds,
        first_byte_seconds=row.first_byte_seconds,
        idle_seconds=row.idle_seconds,
        total_seconds=row.total_seconds,
        breaker_failures=row.breaker_failures,
        tools_offered=row.tools_offered,
    )


def model_of(row: ChatModel, provider: Provider) -> Model:
    """Return the value of a ChatModel row."""
    return Model(
        provider=provider,
        name=row.name,
        aliases=tuple(row.aliases),
        fallbacks=tuple(row.fallbacks),
        is_default=row.is_default,
        tools=row.tools,
        parallel_tools=row.parallel_tools,
        json_schema=row.json_schema,
        streams=row.streams,
        usage_in_stream=row.usage_in_stream,
        created=int(row.updated_at.timestamp()),
    )


def provider_of_model(model: str) -> str | None:
    """Return the provider of a model's id; None for no such model."""
    found = Providers.load().find(model)
    return None if found is None else found.provider.slug
