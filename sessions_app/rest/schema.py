"""What OpenAPI says of REST beyond its rows: keys, and the errors that every operation may answer."""

from __future__ import annotations

from typing import Any, Literal

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from sessions_app.rest.errors import CODES
from sessions_app.rest.writing import JSONObject

_REFUSALS = {
    "400": "The request is malformed; `details` says where.",
    "401": "No key or login, or one that is not valid.",
    "403": "The key lacks a scope, or the account a permission.",
    "404": "There is no such object.",
    "406": "Only JSON is answered.",
    "413": "The body is larger than the hub accepts.",
    "415": "The body is not application/json.",
    "500": "The hub failed.",
    "503": "The database does not answer now.",
}
_ON_BODIES = {"413", "415"}


class ErrorDetailSerializer(serializers.Serializer[Any]):
    """What went wrong."""

    code = serializers.ChoiceField(choices=[(code, code) for code in CODES], help_text="The internal code.")
    message = serializers.CharField(help_text="What is wrong, and the next step.")
    details = JSONObject(help_text="What a program needs to know, e.g. `fields`: messages by field.")
    retryable = serializers.BooleanField(help_text="Whether the same request may succeed later.")


class ErrorSerializer(serializers.Serializer[Any]):
    """The one shape of every error."""

    error = ErrorDetailSerializer()


class HubSchema(AutoSchema):
    """Adds the errors; promises no members where the caller selects them."""

    def _map_basic_serializer(self, serializer: Any, direction: Literal["request", "response"]) -> dict[str, Any]:
        shape: dict[str, Any] = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if getattr(serializer, "may_leave_out", False):
            shape.pop("required", None)
        return shape

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status, words in _REFUSALS.items():
            if self.method not in ("POST", "PUT", "PATCH") and status in _ON_BODIES:
                continue
            if status == "404" and "{" not in self.path:
                continue
            answer = self._get_response_for_code(  # type: ignore[no-untyped-call]
                ErrorSerializer, status, direction=direction
            )
            bodies.setdefault(status, {**answer, "description": words})
        return bodies


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "sessions_app.rest.access.KeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A key of the hub: `mcph_…`."}


def close_requests(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Say that bodies take no members beside the declared ones; a postprocessing hook."""
    for name, component in result["components"]["schemas"].items():
        if name.endswith("Request"):
            component["additionalProperties"] = False
    return result


def fill_parameters(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Say that a query parameter which is given has a value; a postprocessing hook."""
    for item in result["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                shape = parameter["schema"]
                if parameter["in"] == "query" and shape.get("type") == "string" and "enum" not in shape:
                    shape["minLength"] = 1
    return result
