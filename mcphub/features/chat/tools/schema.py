"""A tool's input schema as function parameters: one object without references, in the words that all providers know.

Pure. Inexpressible parts become wider, never narrower: the hub validates the arguments against the schema itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from mcphub.features.chat.dialects import COMMON, Dialect
from mcphub.features.chat.schema_rules import NAMED_SCHEMAS, SCHEMA, SCHEMAS, rewrite
from sessions_app.protocol.json import Json

MOST_NODES = 2000
DEEPEST_REFERENCE = 8
"""References within references: beyond it, and for schemas that hold themselves, anything goes."""

_DROPPED = frozenset(
    {
        "$schema",
        "$id",
        "$anchor",
        "$dynamicAnchor",
        "$recursiveAnchor",
        "$comment",
        "$vocabulary",
        "$defs",
        "definitions",
    }
)
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})
STRICT_DEEPEST = 10
STRICT_PROPERTIES = 5000
STRICT_VALUES = 1000
"""OpenAI's bounds on a strict schema: levels, properties, and values of enums."""
_STRICT = frozenset(
    {
        "type",
        "properties",
        "required",
        "additionalProperties",
        "items",
        "enum",
        "const",
        "description",
        "title",
        "anyOf",
    }
)


def parameters_of(input_schema: dict[str, Json], dialect: Dialect) -> dict[str, Json]:
    """Return the `parameters` of a function for a tool with this input schema, in the dialect of a provider."""
    made = _SchemaRewriting(input_schema).schema(input_schema, ())
    parameters: dict[str, Json] = made if isinstance(made, dict) else {}
    parameters = rewrite(parameters, (*COMMON, *dialect.schema))
    parameters["type"] = "object"
    if not isinstance(parameters.get("properties"), dict):
        parameters["properties"] = {}
    return parameters


def is_strict(parameters: dict[str, Json]) -> bool:
    """Return whether OpenAI's `strict` accepts the schema: closed objects with all properties required, few
    keywords.
    """
    nodes = list(_nodes(parameters))
    if sum(len(node.get("properties", ())) for node in nodes) > STRICT_PROPERTIES:
        return False
    if sum(len(node.get("enum", ())) for node in nodes) > STRICT_VALUES:
        return False
    return all(map(_is_strict_node, nodes)) and _depth(parameters) <= STRICT_DEEPEST


def _is_strict_node(node: dict[str, Json]) -> bool:
    if not node.keys() <= _STRICT or not node.keys() & {"type", "anyOf", "enum", "const"}:
        return False
    if node.get("type") != "object" and "properties" not in node:
        return True
    properties = node.get("properties", {})
    return node.get("additionalProperties") is False and set(node.get("required", ())) == set(properties)


def _depth(node: Json) -> int:
    if not isinstance(node, dict):
        return 0
    inner = [*node.get("properties", {}).values(), node.get("items"), *(node.get("anyOf") or ())]
    return 1 + max(map(_depth, inner), default=0)


class _SchemaRewriting:
    def __init__(self, root: dict[str, Json]) -> None:
        self._root = root
        self._nodes = 0

    def schema(self, value: Json, path: tuple[str, ...]) -> Json:
        """Return `value` rewritten; `path` are the references that led to it."""
        self._nodes += 1
        if not isinstance(value, dict) or self._nodes > MOST_NODES:
            return {} if value is not False else {"not": {}}
        reference = value.get("$ref", value.get("$dynamicRef", value.get("$recursiveRef")))
        rest = {name: each for name, each in value.items() if not name.endswith(("$ref", "Ref")) or name[0] != "$"}
        mine = {
            name: self._keyword(name, each, path)
            for name, each in rest.items()
            if name not in _DROPPED and not name.startswith("x-")
        }
        if not isinstance(reference, str):
            return mine
        target = self._resolve(reference) if reference not in path and len(path) < DEEPEST_REFERENCE else None
        theirs = {} if target is None else self.schema(target, (*path, reference))
        if not mine.keys() & theirs.keys() <= _ANNOTATIONS:
            return {"allOf": [theirs, mine]}
        return {**theirs, **mine}

    def _keyword(self, name: str, value: Json, path: tuple[str, ...]) -> Json:
        if name in SCHEMAS and isinstance(value, list):
            return [self.schema(each, path) for each in value]
        if name in NAMED_SCHEMAS and isinstance(value, dict):
            return {key: self.schema(each, path) for key, each in value.items()}
        if name in SCHEMA and isinstance(value, dict):
            return self.schema(value, path)
        return value

    def _resolve(self, reference: str) -> Json:
        """Return the target of a reference within the document; None for one that leads elsewhere or nowhere."""
        if reference == "#":
            return self._root
        if not reference.startswith("#/"):
            return self._anchored(reference.removeprefix("#")) if reference.startswith("#") else None
        node: Json = self._root
        for step in unquote(reference[2:]).split("/"):
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(node, dict) and step in node:
                node = node[step]
            elif isinstance(node, list) and step.isdecimal() and int(step) < len(node):
                node = node[int(step)]
            else:
                return None
        return node if isinstance(node, dict) else None

    def _anchored(self, anchor: str) -> Json:
        for node in _nodes(self._root):
            if anchor in (node.get("$anchor"), node.get("$dynamicAnchor")):
                return node
        return None


def _nodes(schema: Json) -> Iterator[dict[str, Json]]:
    """Return every schema within `schema`, itself included."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield node
        for name, value in node.items():
            if (name in SCHEMAS or name in SCHEMA) and isinstance(value, list | dict):
                waiting += value if isinstance(value, list) else [value]
            elif (name in NAMED_SCHEMAS or name in ("$defs", "definitions")) and isinstance(value, dict):
                waiting += value.values()
