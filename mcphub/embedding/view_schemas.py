"""The arguments of a viewset's action as JSON Schema, by drf-spectacular."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.conf import settings
from django.urls import re_path
from drf_spectacular.drainage import GENERATOR_STATS
from drf_spectacular.generators import EndpointEnumerator, SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from drf_spectacular.plumbing import build_basic_type, normalize_result_object
from drf_spectacular.types import OpenApiTypes
from rest_framework.serializers import FileField

from sessions_app.protocol.json import Json
from tools_catalog.backends.signatures import ToolDefinitionError

_COMPONENTS = "#/components/schemas/"
_BODY = "data"
_FILE: Final = {"name", "data", "mimeType"}
_DATA = frozenset({"enum", "default", "const", "properties", "required"})
"""Members of a schema that hold no schema, or are read by themselves."""
_UNUSED = frozenset({"readOnly", "writeOnly", "example", "externalDocs", "xml", "discriminator"})


@dataclass(frozen=True, slots=True)
class ViewOperation:
    """One action as a tool."""

    arguments: dict[str, Json]
    """The schema."""
    description: str
    path: Mapping[str, str]
    """Argument -> keyword of the view, such as `pk`."""
    query: frozenset[str]
    """Arguments that go into the query."""
    has_body: bool
    body_member: str
    """The argument that is the whole body; empty: the arguments that are left are its members."""
    body: dict[str, Json]
    """The schema of the body."""

    @property
    def has_files(self) -> bool:
        """Return whether the body has files, at whatever depth."""
        return any(_is_file(each) for each in _all([self.body, self.arguments.get("$defs", {})]))

    def with_files(self, body: Json, make: Callable[[str, dict[str, Any]], Any]) -> Any:
        """Return a body whose files are made by `make`, from the name and the value of the member."""
        return self._made(body, self.body, "", make)

    def _made(self, value: Any, schema: Any, name: str, make: Callable[[str, dict[str, Any]], Any]) -> Any:
        definitions: dict[str, Any] = self.arguments.get("$defs", {})
        for each in [*schema.get("allOf", ()), *schema.get("anyOf", ()), *schema.get("oneOf", ())]:
            value = self._made(value, each, name, make)
        if "$ref" in schema:
            value = self._made(value, definitions.get(schema["$ref"].removeprefix("#/$defs/"), {}), name, make)
        if isinstance(value, list) and isinstance(schema.get("items"), dict):
            return [self._made(each, schema["items"], name, make) for each in value]
        if isinstance(value, dict) and _is_file(schema):
            return make(name, value)
        if isinstance(value, dict):
            members = schema.get("properties", {})
            return {key: self._made(each, members.get(key, {}), key, make) for key, each in value.items()}
        return value


def operation_of(
    viewset: Any, action: str, method: str, keywords: Sequence[str], options: Mapping[str, Any]
) -> ViewOperation:
    """Return an action of a viewset, as DRF serves it by `method` with these keywords; raise ToolDefinitionError."""
    path, operation, components = _described(viewset, action, method, keywords, options)
    parameters = operation.get("parameters", [])
    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    required = []
    for each in parameters:
        if each["in"] not in ("path", "query"):
            continue
        words = {"description": each["description"]} if each.get("description") else {}
        schema["properties"][each["name"]] = {**_input(each["schema"]), **words}
        if each.get("required"):
            required.append(each["name"])
    body, member = _body(operation, components), ""
    if body is not None:
        members = body.get("properties")
        if members is None or members.keys() & schema["properties"].keys():
            member = _BODY
            schema["properties"][_BODY] = body
            required.append(_BODY)
        else:
            schema["properties"] |= members
            required += body.get("required", [])
    schema |= {"required": required} if required else {}
    if definitions := _reachable(schema, components):
        schema["$defs"] = definitions
    return ViewOperation(
        arguments=schema,
        description=" ".join(str(operation.get("summary") or operation.get("description") or "").split()),
        path=dict(zip(re.findall(r"{([^}]+)}", path), keywords, strict=True)),
        query=frozenset(each["name"] for each in parameters if each["in"] == "query"),
        has_body=body is not None,
        body_member=member,
        body=body or {},
    )


def _described(
    viewset: Any, action: str, method: str, keywords: Sequence[str], options: Mapping[str, Any]
) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return the path and the operation of OpenAPI, and the schemas that it refers to."""
    own = viewset.schema if isinstance(viewset.schema, AutoSchema) else AutoSchema()
    described: Any = type(
        viewset.__name__, (viewset,), {"schema": own, "versioning_class": None, "__doc__": viewset.__doc__}
    )
    view = described.as_view({method: action}, **options)
    # As routers of DRF write it, so that the type of the argument is that of the model's field.
    route = re_path("".join(["^rows/", *(f"(?P<{each}>[^/.]+)/" for each in keywords), "$"]), view)
    plain: Any = normalize_result_object  # drf-spectacular has few types
    generator: Any = _Generator
    with GENERATOR_STATS.silence():
        made = generator(patterns=[route])
        paths, components = plain(made.parse(None, True)), plain(made.registry.build({}))
    found = [(path, operation) for path, operations in paths.items() for operation in operations.values()]
    if len(found) != 1:
        raise ToolDefinitionError(f"{viewset.__qualname__}.{action} cannot be described: its schema leaves it out.")
    return *found[0], components.get("schemas", {})


def _taking_files(schema: AutoSchema) -> AutoSchema:
    """Return a schema of the same class that describes the file to send, not its address later."""

    def field_of(self: Any, field: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(field, FileField):
            file: Any = build_basic_type(OpenApiTypes.BINARY)
            return {**file, "description": str(field.help_text or "A file."), "nullable": field.allow_null}
        return super(kind, self)._map_serializer_field(field, *args, **kwargs)

    kind: Any = type("FileSchema", (type(schema),), {"_map_serializer_field": field_of})
    made: AutoSchema = kind()
    return made


class _Endpoints(EndpointEnumerator):
    def get_api_endpoints(self, patterns: Any = None, prefix: str = "") -> Any:
        """Return them without the hooks of the host's SPECTACULAR_SETTINGS, which may leave some out."""
        return self._get_api_endpoints(patterns, prefix)  # type: ignore[no-untyped-call]  # as all of its module


class _Generator(SchemaGenerator):
    endpoint_inspector_cls = _Endpoints

    def _set_schema_to_view(self, view: Any, schema: AutoSchema) -> None:
        super()._set_schema_to_view(view, _taking_files(schema))  # type: ignore[no-untyped-call]  # as above


def _body(operation: dict[str, Any], components: dict[str, Any]) -> dict[str, Any] | None:
    contents = operation.get("requestBody", {}).get("content", {})
    media = contents.get("application/json") or next(iter(contents.values()), None)
    if media is None:
        return None
    schema = media["schema"]
    while isinstance(schema.get("$ref"), str):
        schema = components[schema["$ref"].removeprefix(_COMPONENTS)]
    found: dict[str, Any] = _input(schema)
    return found


def _reachable(schema: Any, components: dict[str, Any]) -> dict[str, Any]:
    """Return the definitions that a schema refers to, and those that they do."""
    found: dict[str, Any] = {}
    waiting = [schema]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).removeprefix("#/$defs/")
            if name in components and name not in found:
                found[name] = _input(components[name])
                waiting.append(found[name])
        waiting += value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return found


def _input(schema: Any) -> Any:
    """Return a schema of OpenAPI 3.0 or 3.1 as JSON Schema of requests: without members that are read only."""
    if isinstance(schema, list):
        return [_input(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("format") == "binary":
        takes_null = schema.get("nullable") or "null" in schema.get("type", ())
        return _nullable(_file(schema)) if takes_null else _file(schema)
    made = {key: value if key in _DATA else _input(value) for key, value in schema.items() if key not in _UNUSED}
    if isinstance(made.get("$ref"), str):
        made["$ref"] = made["$ref"].replace(_COMPONENTS, "#/$defs/")
    if isinstance(schema.get("properties"), dict):
        shown = {name: each for name, each in schema["properties"].items() if not each.get("readOnly")}
        made["properties"] = {name: _input(each) for name, each in shown.items()}
        made["required"] = [name for name in schema.get("required", []) if name in shown]
        if not made["required"]:
            del made["required"]
    for bound, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if made.get(bound) is True:
            made[bound] = made.pop(limit)
        elif made.get(bound) is False:
            del made[bound]
    return _nullable(made) if made.pop("nullable", False) else made


def _file(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a file, with the members that content blocks of MCP have."""
    data = {"type": "string", "contentEncoding": "base64", "maxLength": settings.MCPHUB_MAX_BODY_BYTES}
    words = {"description": schema["description"]} if "description" in schema else {}
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 255}, "data": data, "mimeType": {"type": "string"}},
        "required": ["name", "data"],
        "additionalProperties": False,
        **words,
    }


def _is_file(schema: Any) -> bool:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return isinstance(properties, dict) and properties.keys() == _FILE and "contentEncoding" in properties["data"]


def _all(value: Any) -> Iterator[Any]:
    """Yield a value of JSON and all within it."""
    yield value
    for each in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _all(each)


def _nullable(schema: dict[str, Any]) -> dict[str, Any]:
    if isinstance(schema.get("type"), str) and "enum" not in schema:
        return {**schema, "type": [schema["type"], "null"]}
    return {"anyOf": [schema, {"type": "null"}]}
