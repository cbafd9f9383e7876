"""GraphQL APIs as HTTP tools: each field of Query and Mutation is a candidate. Pure.

What a tool asks for is written once, from the introspection: scalars, and those of objects below, to a bounded depth.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from sessions_app.protocol import schemas
from tools_catalog.importers.candidates import Candidate, Found, argument_name, tool_name, words
from tools_catalog.importers.documents import DocumentRefused
from tools_catalog.importers.openapi.inlining import OperationRefused

MOST_FIELDS = 3_000
DEPTH = 3
"""Levels of objects whose fields are asked for."""
MOST_SELECTED = 60
_MOST_KINDS = 12
"""Kinds of a union or an interface whose fields are asked for."""
_MOST_INPUT_PARTS = 1_000
_DEEPEST_INPUT = 6
_SCALARS: dict[str, dict[str, Any]] = {
    "Int": {"type": "integer", "minimum": -(2**31), "maximum": 2**31 - 1},
    "Float": {"type": "number"},
    "String": {"type": "string"},
    "Boolean": {"type": "boolean"},
    "ID": {"type": ["string", "integer"]},
}

INTROSPECTION = """
query Introspection { __schema { queryType { name } mutationType { name } types {
  kind name description
  possibleTypes { name }
  fields(includeDeprecated: false) { name description args { ...Input } type { ...Type } }
  inputFields { ...Input } enumValues(includeDeprecated: false) { name }
} } }
fragment Input on __InputValue { name description defaultValue type { ...Type } }
fragment Type on __Type { kind name ofType { kind name ofType { kind name ofType { kind name ofType {
  kind name ofType { kind name } } } } } }
"""


def read(document: dict[str, Any], *, slug: str, prefix: str) -> Found:
    """Give what an introspection's result offers; raises DocumentRefused for what is none."""
    inner = document.get("data", document)
    schema = inner.get("__schema") if isinstance(inner, dict) else None
    if not isinstance(schema, dict) or not isinstance(schema.get("types"), list):
        raise DocumentRefused(
            "The document is no introspection: it needs __schema with types. Send the API an introspection query."
        )
    types = {each["name"]: each for each in schema["types"] if isinstance(each, dict) and _is_name(each.get("name"))}
    found, taken, count = Found(title="GraphQL"), set[str](), 0
    for root, verb in (("queryType", "query"), ("mutationType", "mutation")):
        named = schema.get(root)
        holder = types.get(str(named.get("name"))) if isinstance(named, dict) else None
        for field in _fields(holder):
            count += 1
            if count > MOST_FIELDS:
                raise DocumentRefused(f"The API has more than {MOST_FIELDS} fields at its root.")
            key = f"{verb} {field['name']}"
            try:
                definition = _definition(types, verb, field, slug)
            except ValueError as error:
                found.refused.append((key[:300], str(error)))
                continue
            found.candidates.append(
                Candidate(key=key, name=tool_name(prefix, field["name"], taken), definition=definition)
            )
    if not found.candidates and not found.refused:
        raise DocumentRefused("The API has neither queries nor mutations.")
    return found


def _definition(types: dict[str, Any], verb: str, field: dict[str, Any], slug: str) -> dict[str, Any]:
    inputs = _Inputs(types)
    taken: set[str] = set()
    properties, required, variables, declared, passed = {}, [], {}, [], []
    for given in _parts(field, "args"):
        name = _name(given)
        argument = argument_name(name, "argument", taken)
        description = words(given.get("description"))
        part = inputs.schema(given.get("type"), 0)
        properties[argument] = {**part, "description": description} if description else part
        variables[name] = f"{{{argument}}}"
        # With a default the argument may be left out, and so may its variable only where its type says so.
        must = _is_required(given)
        required += [argument] if must else []
        declared.append(f"${name}: {_written(given.get('type')) if must else _written(given.get('type')).rstrip('!')}")
        passed.append(f"{name}: ${name}")
    chosen = _Selection(types).of(field.get("type"), 0)
    heads = f"({', '.join(declared)})" if declared else ""
    tail = f"({', '.join(passed)})" if passed else ""
    query = f"{verb}{heads} {{ {field['name']}{tail}{chosen} }}"
    schema: dict[str, Any] = {"type": "object", "properties": properties, "additionalProperties": False}
    if required:
        schema["required"] = required
    schemas.check(schema, input=True)
    body: dict[str, Any] = {"query": query.replace("{", "{{").replace("}", "}}")}
    if variables:
        body["variables"] = variables
    description = words(field.get("description")) or f"GraphQL {verb} {field['name']}"
    if field.get("isDeprecated") is True:
        description = f"Deprecated. {description}"
    return {
        "title": "",
        "description": description,
        "input_schema": schema,
        "configuration": {
            "service": slug,
            "method": "POST",
            "url": "",
            "body": body,
            "response": {"as": "json", "errors": "/errors", "pick": f"/data/{field['name']}"},
        },
        "destructive": verb == "mutation",
        "idempotent": verb == "query",
    }


class _Inputs:
    """Types of arguments as JSON Schemas."""

    def __init__(self, types: dict[str, Any]) -> None:
        self._types = types
        self._left = _MOST_INPUT_PARTS

    def schema(self, kind: object, depth: int) -> dict[str, Any]:
        self._left -= 1
        if self._left < 0:
            raise OperationRefused(f"Its arguments have more than {_MOST_INPUT_PARTS} parts.")
        outer, inner = _wrapped(kind)
        if outer == "NON_NULL":
            return self.schema(inner, depth)
        if outer == "LIST":
            return {"type": "array", "items": self.schema(inner, depth)}
        name = _name(kind)
        known = self._types.get(name, {})
        if known.get("kind") == "ENUM":
            return {"enum": [_name(value) for value in _parts(known, "enumValues")] or [None]}
        if known.get("kind") != "INPUT_OBJECT":
            return dict(_SCALARS.get(name, {}))
        if depth >= _DEEPEST_INPUT:
            return {"type": "object"}
        fields = _parts(known, "inputFields")
        made = {_name(each): self.schema(each.get("type"), depth + 1) for each in fields}
        wanted = [_name(each) for each in fields if _is_required(each)]
        return {"type": "object", "properties": made, **({"required": wanted} if wanted else {})}


class _Selection:
    """Which fields of a result are asked for."""

    def __init__(self, types: dict[str, Any]) -> None:
        self._types = types
        self._left = MOST_SELECTED

    def of(self, kind: object, depth: int) -> str:
        """Give ` { … }` for an object, nothing for a scalar."""
        name = _innermost(kind)
        known = self._types.get(name, {})
        if known.get("kind") in ("SCALAR", "ENUM", None):
            return ""
        shapes: dict[str, str] = {}
        chosen = self._chosen(known, depth, shapes, self._left)
        if known.get("kind") in ("UNION", "INTERFACE"):
            shared = set(shapes)
            kinds = [each["name"] for each in _parts(known, "possibleTypes") if _is_name(each.get("name"))][
                :_MOST_KINDS
            ]
            chosen.insert(0, "__typename")
            for left, each in zip(range(len(kinds), 0, -1), kinds, strict=True):
                more = self._chosen(self._types.get(each), depth, shapes, self._left // left, without=shared)
                chosen += [f"... on {each} {{ {' '.join(more)} }}"] if more else []
        return f" {{ {' '.join(chosen or ['__typename'])} }}"

    def _chosen(
        self, holder: object, depth: int, shapes: dict[str, str], most: int, without: Collection[str] = ()
    ) -> list[str]:
        """Give at most so many fields of an object. `shapes` are the types of those that stand beside them: GraphQL
        refuses a query that asks for one name in two types."""
        chosen: list[str] = []
        floor = self._left - most
        for field in _fields(holder):
            if self._left <= max(0, floor) or any(_is_required(argument) for argument in _parts(field, "args")):
                continue
            written = _written(field.get("type"))
            if (
                field["name"] in without
                or field.get("isDeprecated") is True
                or shapes.get(field["name"], written) != written
            ):
                continue
            inner = self._types.get(_innermost(field.get("type")), {})
            is_leaf = inner.get("kind") in ("SCALAR", "ENUM", None)
            if not is_leaf and depth + 1 >= DEPTH:
                continue
            self._left -= 1
            shapes[field["name"]] = written
            chosen.append(field["name"] + ("" if is_leaf else self.of(field.get("type"), depth + 1)))
        return chosen


def _fields(holder: object) -> list[dict[str, Any]]:
    return [each for each in _parts(holder, "fields") if _is_name(each.get("name"))]


def _parts(holder: object, name: str) -> list[dict[str, Any]]:
    given = holder.get(name) if isinstance(holder, dict) else None
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _name(holder: object) -> str:
    name = holder.get("name") if isinstance(holder, dict) else None
    if not _is_name(name):
        raise OperationRefused("One of its parts has no name that GraphQL allows.")
    return str(name)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and name.isascii() and name.isidentifier() and len(name) <= 200


def _innermost(kind: object) -> str:
    for _ in range(8):
        outer, inner = _wrapped(kind)
        if outer in ("NON_NULL", "LIST"):
            kind = inner
    return _name(kind)


def _written(kind: object) -> str:
    """Write a type as GraphQL does: [ID!]!"""
    outer, inner = _wrapped(kind)
    if outer == "NON_NULL":
        return f"{_written(inner)}!"
    return f"[{_written(inner)}]" if outer == "LIST" else _name(kind)


def _wrapped(kind: object) -> tuple[object, object]:
    """Give a type's kind, and the type within: of a list its members', of one that may not be null the rest."""
    return (kind.get("kind"), kind.get("ofType")) if isinstance(kind, dict) else (None, None)


def _is_required(given: object) -> bool:
    if not isinstance(given, dict):
        return False
    outer, _ = _wrapped(given.get("type"))
    return outer == "NON_NULL" and given.get("defaultValue") is None
