"""Members of REST that are JSON of any shape."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from sessions_app.protocol.json import Json


@extend_schema_field({})
class JSONValue(serializers.Field[Any, Any, Any, Any]):
    """Any JSON value, neither read nor changed."""

    def to_internal_value(self, data: Json) -> Json:
        return data

    def to_representation(self, value: Json) -> Json:
        return value


@extend_schema_field({"type": "object", "additionalProperties": True})
class JSONObject(JSONValue):
    """A JSON object of any members."""

    default_error_messages = {"not_an_object": "This must be a JSON object."}

    def to_internal_value(self, data: object) -> dict[str, Json]:
        if not isinstance(data, dict):
            self.fail("not_an_object")
        return data
