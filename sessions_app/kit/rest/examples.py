"""Examples in the OpenAPI document: members that a person wrote, and the rest by the schema of the serializer.

An example made from the schema follows it when a serializer changes. A test reports components without a written
example.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sessions_app.protocol import json
from sessions_app.protocol.json import Json

UNWRITTEN = "…"
"""Stands where a text has no example; a test finds it."""

_COMPONENTS = "#/components/schemas/"
_BY_FORMAT: Mapping[str, Json] = {"date-time": "2026-03-01T12:00:00Z", "uuid": "0199a1b2-7c3d-7e4f-8a5b-6c7d8e9f0a1b"}
_KINDS: Mapping[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """Handwritten examples."""

    requests: Mapping[str, Json]
    """Whole bodies of requests by component: no schema defines which members go together."""
    components: Mapping[str, Mapping[str, Json]]
    """Members of responses by component."""
    members: Mapping[str, Json]
    """Members of responses and parameters of paths by name, wherever they stand."""
    operations: Mapping[str, Mapping[str, Json]]
    """By operationId: media types and their examples, for texts that no schema describes; and parameters."""


def add_examples(document: dict[str, Json], written: Written) -> None:
    """Add to every operation an example of its path, of its request and of its success."""
    maker = _Maker(document["components"]["schemas"], written)
    for operation in operations(document):
        own = written.operations.get(operation["operationId"], {})
        for parameter in operation.get("parameters", ()):
            if parameter["in"] == "path":
                parameter["example"] = own.get(parameter["name"], maker.member(parameter["name"], parameter["schema"]))
        for kind, content in contents(operation):
            content["example"] = own[kind] if kind in own else maker.value(content["schema"])


def operations(document: Mapping[str, Json]) -> Iterator[dict[str, Json]]:
    for item in document["paths"].values():
        yield from item.values()


def contents(operation: Mapping[str, Json]) -> Iterator[tuple[str, dict[str, Json]]]:
    """Return the bodies of an operation's request and of its success with their media types."""
    yield from operation.get("requestBody", {}).get("content", {}).items()
    for status, response in operation["responses"].items():
        if status.startswith("2"):
            yield from response.get("content", {}).items()


@dataclass(frozen=True, slots=True)
class _Maker:
    schemas: Mapping[str, Json]
    written: Written

    def value(self, shape: Mapping[str, Json], component: str = "") -> Json:
        """Return a value that fits the schema: all members of an object, one item of a list, null for optional ones."""
        if "$ref" in shape:
            return self._of_component(shape["$ref"].removeprefix(_COMPONENTS))
        for words in ("allOf", "oneOf", "anyOf"):
            if words in shape:
                return self.value(shape[words][0], component)
        for word in ("const", "default"):
            if word in shape:
                return shape[word]
        if "enum" in shape:
            return shape["enum"][0]
        if "contentSchema" in shape:
            return json.dumps(self.value(shape["contentSchema"])).decode()
        return self._of_type(shape, component)

    def member(self, name: str, shape: Mapping[str, Json], component: str = "") -> Json:
        own = self.written.components.get(component, {})
        if name in own:
            return own[name]
        common = self.written.members.get(name)
        if common is not None and (fitting := _KINDS.get(str(shape.get("type")))) and "enum" not in shape:
            if fitting is str and shape.get("format") != "uuid":
                return str(common)  # numbers are texts in paths
            if type(common) in (fitting, int if fitting is float else fitting):
                return common
        return self.value(shape)

    def _of_component(self, name: str) -> Json:
        if name in self.written.requests:
            return self.written.requests[name]
        return self.value(self.schemas[name], name)

    def _of_type(self, shape: Mapping[str, Json], component: str) -> Json:
        match shape.get("type"):
            case "object":
                members = shape.get("properties", {})
                return {name: self.member(name, each, component) for name, each in members.items()}
            case "array":
                return [self.value(shape["items"])] if "$ref" in shape["items"] else []
            case "string":
                return _BY_FORMAT.get(shape.get("format", ""), UNWRITTEN)
            case "integer" | "number":
                return shape.get("minimum", 1)
            case "boolean":
                return False
        return None
