"""The OpenAPI description beyond rows: keys, and the errors of every operation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeVar

from drf_spectacular import utils
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from sessions_app.kit.rest.errors import CODES, NO_TYPE, PROBLEM
from sessions_app.kit.rest.json_fields import JSONObject
from sessions_app.protocol.json import Json

_Described = TypeVar("_Described")
_REFUSALS = {
    "400": "The request is malformed; `details` says where.",
    "401": "No key or login, or one that is not valid.",
    "403": "The key lacks a scope, or the account a permission.",
    "404": "There is no such object.",
    "406": "Only JSON is answered.",
    "409": "The request keeps to the schema and cannot be done as things stand; `details` says why.",
    "413": "The body is larger than the hub accepts.",
    "415": "The body is not application/json.",
    "429": "Too many requests of REST are at work, or wait; or the caller's limit of calls is reached.",
    "500": "The hub failed.",
    "503": "The database does not answer now.",
}
_WRITES = ("POST", "PUT", "PATCH")
_SAVES = ("create", "update", "partial_update")
_ON_BODIES = {"413", "415"}


def event_shape(name: str, data: Mapping[str, Json], *, has_id: bool = False) -> dict[str, object]:
    """Return the schema of a server-sent event with JSON data.

    OpenAPI 3.1 does not define the subject of a schema for `text/event-stream`. Tools take it for one event, an
    object of its fields, as OpenAPI 3.2's `itemSchema` has it.
    """
    members: dict[str, Any] = {
        "event": {"const": name},
        "data": {"type": "string", "contentMediaType": "application/json", "contentSchema": data},
    }
    if has_id:
        members["id"] = {"type": "string"}
    return {"type": "object", "properties": members, "required": list(members)}


class ErrorDetailSerializer(serializers.Serializer[Any]):
    """The problem."""

    code = serializers.ChoiceField(choices=[(code, code) for code in CODES], help_text="The internal code.")
    message = serializers.CharField(help_text="What is wrong, and the next step.")
    details = JSONObject(help_text="What a program needs to know, e.g. `fields`: messages by field.")
    retryable = serializers.BooleanField(help_text="Whether the same request may succeed later.")


class ErrorSerializer(serializers.Serializer[Any]):
    """The one shape of every error: a problem of RFC 9457."""

    error = ErrorDetailSerializer()
    type = serializers.ChoiceField(choices=[(NO_TYPE, NO_TYPE)], help_text="`error.code` says what kind it is.")
    title = serializers.CharField(help_text="The status in words.")
    status = serializers.IntegerField(help_text="The HTTP status.")
    detail = serializers.CharField(help_text="The same as `error.message`.")


class HeldBackSerializer(serializers.Serializer[Any]):
    """The part of a request that waits for a second person."""

    detail = serializers.CharField(help_text="What became of the request, in words.")
    waiting_change = serializers.IntegerField(help_text="See GET /api/waiting-changes/{id}/.")
    fields_held = serializers.ListField(child=serializers.CharField(), help_text="The fields that did not change.")
    expires_at = serializers.DateTimeField(help_text="Until when somebody can confirm it.")


class HubSchema(AutoSchema):
    """Adds the errors; promises no members where the caller selects them, nor values that may be withheld: `INSIDE`."""

    def _map_basic_serializer(self, serializer: object, direction: Literal["request", "response"]) -> dict[str, object]:
        shape: dict[str, Any] = super()._map_basic_serializer(serializer, direction)  # type: ignore[no-untyped-call]
        if getattr(serializer, "may_leave_out", False):
            shape.pop("required", None)
        if direction == "response":
            for name in getattr(serializer, "INSIDE", frozenset()) & shape["properties"].keys():
                inner = shape["properties"][name]
                inner["type"] = [inner["type"], "null"]
        return shape

    def _get_request_body(self, direction: Literal["request", "response"] = "request") -> dict[str, object] | None:
        body: dict[str, Any] | None = super()._get_request_body(direction)  # type: ignore[no-untyped-call]
        if body is not None and any("required" in each["schema"] for each in body["content"].values()):
            body["required"] = True
        return body

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, object]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        for status, words in _REFUSALS.items():
            if self.method not in _WRITES and status in _ON_BODIES:
                continue
            is_paged = getattr(self.view, "pagination_class", None) is not None and self._is_list_view()
            if status == "404" and "{" not in self.path and not is_paged:
                continue
            if status == "409" and self.method not in _WRITES and not getattr(self.view, "may_conflict", False):
                continue
            answer = self._get_response_for_code(  # type: ignore[no-untyped-call]
                ErrorSerializer, status, [PROBLEM], direction
            )
            bodies.setdefault(status, {**answer, "description": words})
        if getattr(self.view, "holds_back", False) and getattr(self.view, "action", "") in _SAVES:
            answer = self._get_response_for_code(  # type: ignore[no-untyped-call]
                HeldBackSerializer, "202", direction=direction
            )
            bodies["202"] = {**answer, "description": "A part waits for a second person. The rest is saved."}
        return bodies


def extend_schema(**words: Any) -> Callable[[_Described], _Described]:
    """Return drf-spectacular's decorator, for methods by the hub's schema, whatever a host has as its default."""
    decorate: Any = utils.extend_schema(**words)

    def described(view: _Described) -> _Described:
        if not inspect.isclass(view):
            given: Any = view
            given.kwargs = {"schema": HubSchema, **getattr(view, "kwargs", {})}
        found: _Described = decorate(view)
        return found

    return described


class KeyScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    target_class = "sessions_app.rest.access.KeyAuthentication"
    name = "key"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "A key of the hub: `mcph_…`."}


def close_requests(result: dict[str, Json], generator: object, request: object, public: bool) -> dict[str, object]:
    """Declare that bodies have no other members; a postprocessing hook."""
    for name, component in result["components"]["schemas"].items():
        if name.endswith("Request"):
            component["additionalProperties"] = False
    return result


def fill_parameters(result: dict[str, Json], generator: object, request: object, public: bool) -> dict[str, object]:
    """Declare that a query parameter, if present, has a value without NUL; a postprocessing hook."""
    for item in result["paths"].values():
        for operation in item.values():
            for parameter in operation.get("parameters", ()):
                shape = parameter["schema"]
                shape = shape["items"] if shape.get("type") == "array" else shape
                if parameter["in"] == "query" and shape.get("type") == "string" and "enum" not in shape:
                    shape["minLength"] = 1
                    if "format" not in shape:
                        shape.setdefault("pattern", r"^[^\u0000]+$")
    return result


# Without a type: generators of clients know no recursive union, and left out each operation that takes one.
_JSON: dict[str, Any] = {
    "description": "Any JSON. Whole numbers keep to 64 bits: beyond, send a text.",
    "minimum": -(2**63),
    "maximum": 2**64 - 1,
    "items": {"$ref": "#/components/schemas/JSON"},
    "additionalProperties": {"$ref": "#/components/schemas/JSON"},
}


def bound_bodies(result: dict[str, Json], generator: object, request: object, public: bool) -> dict[str, object]:
    """Declare the limits of decoder and fields on any JSON and on texts; a postprocessing hook, after all others."""
    schemas = result["components"]["schemas"]
    for name, component in schemas.items():
        if name.endswith("Request"):
            _refer(component["properties"])
            if not name.startswith("Chat"):  # those endpoints have no serializers, and take any text
                _restrict(component["properties"])
    schemas["JSON"] = _JSON
    return result


def _restrict(shapes: Json) -> None:
    """Serializers refuse NUL, and blanks alone where a text must not be empty."""
    for shape in shapes.values():
        if shape.get("type") == "string" and not {"pattern", "enum", "format"} & shape.keys():
            shape["pattern"] = r"^[^\u0000]*[^\s\u0000][^\u0000]*$" if shape.get("minLength") else r"^[^\u0000]*$"


def _refer(shapes: Json) -> None:
    for shape in shapes.values():
        if isinstance(shape, dict):
            if shape.get("additionalProperties") is True:
                shape["additionalProperties"] = {"$ref": "#/components/schemas/JSON"}
            _refer(shape)
