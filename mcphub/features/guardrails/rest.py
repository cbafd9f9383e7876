"""REST over guardrails, and detectors to try."""

from __future__ import annotations

import re
from typing import Any

from rest_framework import serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from mcphub.features.guardrails import trying
from mcphub.features.guardrails.filters import GUARDRAIL_FILTERS
from mcphub.features.guardrails.models import McpGuardrail
from sessions_app.kit.rest.schema import extend_schema
from sessions_app.kit.rest.writing import AskedSerializer, ReasonedSerializer, StrictInteger, permissions
from sessions_app.protocol.json import Json
from tools_catalog.detectors.scanning import GROUPS, KINDS
from tools_catalog.rest.removable import RemovableViewSet, described

_NAMES = "^({0})?( ({0}))*$".format("|".join(re.escape(name) for name in [*GROUPS, *KINDS]))
_LOOKS = {"write": "tools_catalog.view_mcpguardrail"}


class GuardrailSerializer(ReasonedSerializer):
    """A guardrail: its detectors, its scope, and the consequences."""

    max_bytes = StrictInteger(required=False, allow_null=True, min_value=1, max_value=2**31 - 1)
    max_depth = StrictInteger(required=False, allow_null=True, min_value=1, max_value=256)
    position = StrictInteger(required=False, min_value=-1000, max_value=1000)
    is_in_force = serializers.BooleanField(read_only=True, help_text="It is enabled and does not only watch.")

    class Meta:
        model = McpGuardrail
        fields = [
            "name",
            "version",
            "applies_to",
            "target",
            "direction",
            "checked_by",
            "detectors",
            "max_bytes",
            "max_depth",
            "function",
            "service",
            "path",
            "seconds",
            "on_failure",
            "action",
            "words",
            "position",
            "enabled",
            "watching",
            "is_in_force",
            "created_at",
            "updated_at",
            "reason",
        ]
        read_only_fields = ["version", "created_at", "updated_at"]


class AnyJson(serializers.JSONField):
    """Any JSON, null as well. With `allow_null` the document would contain: either anything or null, and null is
    both.
    """

    def validate_empty_values(self, data: Json) -> tuple[bool, Json]:
        return (True, None) if data is None else super().validate_empty_values(data)


class TryGuardrailSerializer(AskedSerializer):
    """A value to inspect, and the detectors to use."""

    value = AnyJson(help_text="A text, or any JSON.")
    detectors = serializers.RegexField(
        _NAMES,
        required=False,
        allow_blank=True,
        default="",
        max_length=1000,
        error_messages={"invalid": f"Detectors are {', '.join([*GROUPS, *KINDS])}; write them with blanks between."},
        help_text="Names with blanks between; empty: all.",
    )
    max_bytes = StrictInteger(required=False, allow_null=True, default=None, min_value=1, max_value=2**31 - 1)
    max_depth = StrictInteger(required=False, allow_null=True, default=None, min_value=1, max_value=256)


class TriedGuardrailSerializer(serializers.Serializer[Any]):
    """The findings. Nothing of it is kept."""

    found = serializers.DictField(child=serializers.IntegerField(), help_text="How often which kind was found.")
    places = serializers.ListField(
        child=serializers.CharField(), help_text="Paths to the first texts that hold something."
    )
    masked = serializers.JSONField(help_text="The value without it.")
    milliseconds = serializers.FloatField()


@described(
    "guardrail",
    "Guardrails, by name",
    on_removal="The record of calls in which it acted keeps its name. One in force is switched off first.",
)
class GuardrailViewSet(RemovableViewSet):
    queryset = McpGuardrail.objects.all()
    serializer_class = GuardrailSerializer
    filters = GUARDRAIL_FILTERS
    ordering = ("name",)
    lookup_field = "name"
    lookup_value_regex = "[^/]+"
    required_scope = {"read": "catalog:write", "write": "catalog:write"}
    required_permission = permissions("tools_catalog.mcpguardrail")
    may_conflict = True
    in_force = 'The guardrail is in force. Switch it off first: PATCH {"enabled": false}.'
    missing = "There is no such guardrail. GET /api/guardrails/ lists them."

    @extend_schema(
        summary="Try detectors on a value", request=TryGuardrailSerializer, responses={200: TriedGuardrailSerializer}
    )
    @action(detail=False, methods=["post"], url_path="try", required_permission=_LOOKS)
    def try_it(self, request: Request) -> Response:
        """Nothing is called and nothing is kept."""
        asked = TryGuardrailSerializer(data=request.data)
        asked.is_valid(raise_exception=True)
        given = asked.validated_data
        try:
            found = trying.tried(given["value"], given["detectors"].split(), given["max_bytes"], given["max_depth"])
        except ValueError as error:
            raise serializers.ValidationError({"detectors": [str(error)]}) from error
        return Response(found.shown())
