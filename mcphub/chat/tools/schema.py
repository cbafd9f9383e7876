"""A tool's input schema as function parameters: one object without references, in the words that all providers know.

Pure. What cannot be said so is left wider, never narrower: the hub checks the arguments against the schema itself.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

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
_SCHEMA = frozenset(
    {
        "items",
        "additionalProperties",
        "additionalItems",
        "not",
        "if",
        "then",
        "else",
        "contains",
        "propertyNames",
        "unevaluatedItems",
        "unevaluatedProperties",
        "contentSchema",
    }
)
_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_NAMED_SCHEMAS = frozenset({"properties", "patternProperties", "dependentSchemas"})
_ANNOTATIONS = frozenset({"title", "description", "default", "examples", "deprecated"})
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


def parameters_of(input_schema: dict[str, Json]) -> dict[str, Json]:
    """Give the `parameters` of a function for a tool with this input schema."""
    made = _SchemaRewriting(input_schema).schema(input_schema, ())
    parameters: dict[str, Json] = made if isinstance(made, dict) else {}
    parameters["type"] = "object"
    if not isinstance(parameters.get("properties"), dict):
        parameters["properties"] = {}
    return parameters


def is_strict(parameters: dict[str, Json]) -> bool:
    """Whether OpenAI's `strict` takes the schema: closed objects whose properties are all required, few keywords."""
    for node in _nodes(parameters):
        if not node.keys() <= _STRICT:
            return False
        if node.get("type") == "object" or "properties" in node:
            properties = node.get("properties", {})
            if node.get("additionalProperties") is not False or set(node.get("required", ())) != set(properties):
                return False
    return True


class _SchemaRewriting:
    def __init__(self, root: dict[str, Json]) -> None:
        self._root = root
        self._nodes = 0

    def schema(self, value: Json, path: tuple[str, ...]) -> Json:
        """Give `value` rewritten; `path` are the references that led to it."""
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
        if name in _SCHEMAS and isinstance(value, list):
            return [self.schema(each, path) for each in value]
        if name in _NAMED_SCHEMAS and isinstance(value, dict):
            return {key: self.schema(each, path) for key, each in value.items()}
        if name in _SCHEMA and isinstance(value, dict):
            return self.schema(value, path)
        return value

    def _resolve(self, reference: str) -> Json:
        """Give what a reference within the document names; None for one that leads elsewhere or nowhere."""
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
    """Give every schema within `schema`, itself included."""
    waiting = [schema]
    while waiting:
        node = waiting.pop()
        if not isinstance(node, dict):
            continue
        yield node
        for name, value in node.items():
            if (name in _SCHEMAS or name in _SCHEMA) and isinstance(value, list | dict):
                waiting += value if isinstance(value, list) else [value]
            elif (name in _NAMED_SCHEMAS or name in ("$defs", "definitions")) and isinstance(value, dict):
                waiting += value.values()
