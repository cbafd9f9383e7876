"""REST over providers and their models. Keys of providers are written and never given."""

from __future__ import annotations

from typing import Any

from asgiref.sync import async_to_sync
from django.core.exceptions import ValidationError
from django.utils.translation import gettext_lazy as _
from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.permissions import SAFE_METHODS
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.chat.models import ChatModel, ChatProvider, ChatProviderState
from mcphub.features.chat.providers import health, probe
from mcphub.features.chat.providers.snapshot import model_of, provider_of
from sessions_app.kit.entered import parts_of
from sessions_app.kit.lists.filters import ListFilter, OneOf, TextIs, YesOrNo
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.tried import TriedSerializer, tried
from sessions_app.kit.rest.writing import (
    AskedSerializer,
    Named,
    ReasonedSerializer,
    RowSerializer,
    StrictText,
    permissions,
)
from sessions_app.protocol.errors import Forbidden
from tools_catalog.rest.removable import RemovableViewSet, described

_LONGEST_KEY = 4096

PROVIDER_FILTERS: tuple[ListFilter, ...] = (
    YesOrNo(name="enabled", label=""),
    OneOf(name="kind", label="", choices=ChatProvider.Kind.choices),
)
MODEL_FILTERS: tuple[ListFilter, ...] = (
    YesOrNo(name="enabled", label=""),
    TextIs(name="provider", column="provider__slug", help_text="The name of a provider."),
)


class ProviderTestSerializer(AskedSerializer):
    model = StrictText(
        required=False,
        allow_blank=True,
        max_length=200,
        default="",
        help_text="Which of its models is asked, as the provider names it. Left out: the default one, else the first.",
    )


class ProviderStateSerializer(RowSerializer[ChatProviderState]):
    """How a provider did last."""

    is_failing = serializers.BooleanField(read_only=True)

    class Meta:
        model = ChatProviderState
        fields = ["is_failing", "rests_until", "failure_code", "failure", "failed_at", "recovered_at"]
        read_only_fields = fields


class ProviderSerializer(ReasonedSerializer):
    """A provider of models, without its key."""

    key = StrictText(
        write_only=True,
        required=False,
        allow_blank=True,
        max_length=_LONGEST_KEY,
        help_text="What the hub sends as the provider's key. Left out: the stored one stays. Empty: it is forgotten.",
    )
    has_key = serializers.SerializerMethodField(help_text="Whether a key is stored.")
    models = serializers.SerializerMethodField(help_text="Its models, as clients name them.")
    state = ProviderStateSerializer(read_only=True, allow_null=True, help_text="null: no failure is on record.")

    class Meta:
        model = ChatProvider
        fields = [
            "slug",
            "kind",
            "base_url",
            "headers",
            "key",
            "has_key",
            "enabled",
            "tools_offered",
            "retries",
            "connect_seconds",
            "first_byte_seconds",
            "idle_seconds",
            "total_seconds",
            "breaker_failures",
            "models",
            "state",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["updated_at"]

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        found = super().get_fields()
        if self.instance is not None:
            found["slug"].read_only = True  # the key is sealed under it
        return found

    def get_has_key(self, row: ChatProvider) -> bool:
        return bool(row.ciphertext)

    def get_models(self, row: ChatProvider) -> list[str]:
        return sorted(each.public_id for each in row.models.all())

    def _write(self, row: object, values: dict[str, Any]) -> Any:
        assert isinstance(row, ChatProvider)
        key = values.pop("key", None)
        address = values.get("base_url", row.base_url)
        if row.ciphertext and key is None and _host(address) != _host(row.base_url):
            # Else whoever may edit the address, but does not know the key, could have it sent to a host of his own.
            raise ValidationError({"key": _("The address has another host. Enter the key again, or delete it.")})
        if key is not None:
            row.slug = values.get("slug", row.slug)
            row.set_secret(key)
        return super()._write(row, values)


def _host(address: str) -> tuple[str, str]:
    parts = parts_of(address)
    return parts.scheme, parts.netloc


@described(
    "provider", "Providers of models, by name", on_removal="Its models and their prices go with it. Conversations stay."
)
class ProviderViewSet(RemovableViewSet):
    queryset = ChatProvider.objects.select_related("state").prefetch_related("models")
    serializer_class = ProviderSerializer
    filters = PROVIDER_FILTERS
    ordering = ("slug",)
    lookup_field = "slug"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("chat.chatprovider")
    may_conflict = True
    holds_back = True
    missing = "There is no such provider. GET /api/providers/ lists them."

    def check_permissions(self, request: Request) -> None:
        super().check_permissions(request)
        if request.auth is not None and request.method not in SAFE_METHODS:
            raise Forbidden("Providers, whose keys are secrets, are written by people who are logged in, not by keys.")

    @extend_schema(
        summary="Test a provider",
        request=ProviderTestSerializer,
        responses={200: TriedSerializer},
        description="By people who are logged in, not by keys. Asks the model for one token, one in a stream, a call "
        "and JSON: `address`, `key`, `answer`, `stream`, `tools`, `json_schema`. What the model cannot do is a step "
        "that is not good. The provider counts these tokens.",
    )
    @action(detail=True, methods=["post"], required_permission={"write": "chat.test_chatprovider"})
    def test(self, request: Request, slug: str) -> Response:
        asked = ProviderTestSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        row: ChatProvider = self.get_object()
        models = row.models.order_by("-is_default", "name")
        wanted = asked.validated_data["model"]
        chosen = models.filter(name=wanted).first() if wanted else models.first()
        if chosen is None:
            has = ", ".join(each.name for each in models[:20])
            words = f"The provider has no such model. It has: {has}." if has else "The provider has no model yet."
            raise ValidationError({"model": words})
        steps = async_to_sync(probe.probe)(model_of(chosen, provider_of(row)))
        if any(step.kind == probe.ANSWER and step.is_good for step in steps):
            health.answered(row.slug)
        return tried(steps)


class ModelSerializer(ReasonedSerializer):
    """A model of a provider, and its capabilities."""

    id = serializers.IntegerField(read_only=True)
    provider = Named(slug_field="slug", queryset=ChatProvider.objects.all(), help_text="The name of its provider.")
    public_id = serializers.CharField(read_only=True, help_text="As clients name it.")
    aliases = serializers.ListField(child=StrictText(), required=False, help_text="Further names for clients.")
    fallbacks = serializers.ListField(
        child=StrictText(), required=False, help_text="Models that take over while this one cannot be reached."
    )

    class Meta:
        model = ChatModel
        fields = [
            "id",
            "provider",
            "name",
            "public_id",
            "aliases",
            "enabled",
            "is_default",
            "tools",
            "parallel_tools",
            "json_schema",
            "streams",
            "usage_in_stream",
            "fallbacks",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["updated_at"]


@described("model", "Models of providers", on_removal="Conversations and records keep its name.")
class ModelViewSet(RemovableViewSet):
    queryset = ChatModel.objects.select_related("provider")
    serializer_class = ModelSerializer
    filters = MODEL_FILTERS
    ordering = ("provider__slug", "name")
    lookup_value_regex = "[0-9]{1,18}"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("chat.chatmodel")
    may_conflict = True
    holds_back = False
    missing = "There is no such model. GET /api/models/ lists them."
