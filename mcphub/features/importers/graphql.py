"""GraphQL APIs as HTTP tools: each field of Query and Mutation is a candidate. Pure.

What a tool asks for is written once, from the introspection: the fields that cost least, level by level. A field in a
list within a list costs more than one beside the root, and a kind is not entered again below itself.
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Collection
from typing import Any

from mcphub.features.importers.candidates import Candidate, Found, argument_name, tool_name, words
from mcphub.features.importers.documents import DocumentRefused
from mcphub.features.importers.effects import effects_of
from mcphub.features.importers.openapi.inlining import OperationRefused
from sessions_app.protocol import schemas

MOST_FIELDS = 3_000
DEPTH = 3
"""Levels of objects whose fields are asked for, whatever stands above; below them only kinds that do not."""
DEEPEST = 7
MOST_COST = 60
"""Of all fields that are asked for: 1 each, and twice that for each list around it below the root."""
MOST_WRAPPERS = 9
"""Lists and non-nulls around a type that the introspection asks for."""
_MOST_KINDS = 12
"""Kinds of a union or an interface with selected fields."""
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
"""
INTROSPECTION += (
    f"fragment Type on __Type {{ kind name {'ofType { kind name ' * MOST_WRAPPERS}{'} ' * MOST_WRAPPERS}}}\n"
)


def read(document: dict[str, Any], *, slug: str, prefix: str) -> Found:
    """Return the operations of an introspection's result; raises DocumentRefused if it is invalid."""
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
        if not _is_whole(given.get("type")) and not _is_required(given):
            continue  # its type has more lists than the introspection says, and it may be left out
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
    chosen = _Selection(types).of(field.get("type"))
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
        **effects_of(verb, called=field["name"], told=words(field.get("description")), path="", parameters=properties),
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
        given = _parts(known, "inputFields")
        fields = [each for each in given if _is_whole(each.get("type")) or _is_required(each)]
        made = {_name(each): self.schema(each.get("type"), depth + 1) for each in fields}
        wanted = [_name(each) for each in fields if _is_required(each)]
        return {"type": "object", "properties": made, **({"required": wanted} if wanted else {})}


@dataclasses.dataclass(slots=True)
class _Level:
    """An object whose fields are asked for, or are to be."""

    kinds: tuple[str, ...]
    """Names of the types above, and its own."""
    cost: int
    """Of one field in it."""
    members: list[tuple[str, _Level | None]] = dataclasses.field(default_factory=list)
    fragments: list[tuple[str, _Level]] = dataclasses.field(default_factory=list)
    shapes: dict[str, str] = dataclasses.field(default_factory=dict)
    """Types of the fields that stand beside each other: GraphQL refuses a query that asks for one name in two types."""
    is_abstract: bool = False

    def written(self) -> str:
        """Return the selection as GraphQL writes it."""
        parts = ["__typename"] if self.is_abstract else []
        parts += [name + (f" {inner.written()}" if inner is not None else "") for name, inner in self.members]
        parts += [f"... on {name} {inner.written()}" for name, inner in self.fragments if inner.members]
        return f"{{ {' '.join(parts or ['__typename'])} }}"


class _Selection:
    """Which fields of a result are asked for: level by level, until the cost is reached."""

    def __init__(self, types: dict[str, Any]) -> None:
        self._types = types
        self._left = MOST_COST
        self._waiting: deque[_Level] = deque()

    def of(self, kind: object) -> str:
        """Return ` { … }` for an object, nothing for a scalar."""
        name = _innermost(kind)
        if self._is_leaf(name):
            return ""
        root = _Level((name,), 1)
        self._waiting.append(root)
        while self._waiting and self._left > 0:
            self._fill(self._waiting.popleft())
        return f" {root.written()}"

    def _fill(self, level: _Level) -> None:
        known = self._types.get(level.kinds[-1], {})
        self._choose(level, known, self._left)
        if known.get("kind") not in ("UNION", "INTERFACE"):
            return
        level.is_abstract = True
        shared = {name for name, _ in level.members}
        kinds = self._kinds(known, shared)
        for left, name in zip(range(len(kinds), 0, -1), kinds, strict=True):
            inner = _Level((*level.kinds, name), level.cost, shapes=level.shapes)
            self._choose(inner, self._types.get(name), self._left // left, without=shared)
            level.fragments.append((name, inner))

    def _kinds(self, holder: object, shared: set[str]) -> list[str]:
        """Return the types of a union or an interface that have fields of their own, those with most of them first
        where there are too many."""
        names = [each["name"] for each in _parts(holder, "possibleTypes") if _is_name(each.get("name"))]
        own = {name: len({each["name"] for each in _fields(self._types.get(name))} - shared) for name in names}
        found = [name for name in names if own[name]]
        if len(found) <= _MOST_KINDS:
            return found
        best = sorted(found, key=lambda name: -own[name])[:_MOST_KINDS]
        return [name for name in found if name in best]

    def _choose(self, level: _Level, holder: object, most: int, without: Collection[str] = ()) -> None:
        """Ask for fields of an object that cost at most so much together."""
        floor = max(0, self._left - most)
        for given in _fields(holder):
            if self._left - level.cost < floor:
                return
            kind, name = given.get("type"), given["name"]
            if name in without or given.get("isDeprecated") is True or not _is_whole(kind):
                continue
            if any(_is_required(argument) for argument in _parts(given, "args")):
                continue
            written, inner = _written(kind), _innermost(kind)
            if level.shapes.get(name, written) != written:
                continue
            below = None
            if not self._is_leaf(inner):
                if len(level.kinds) >= (DEEPEST if inner not in level.kinds else DEPTH):
                    continue
                below = _Level((*level.kinds, inner), level.cost * (2 if _is_list(kind) else 1))
                self._waiting.append(below)
            self._left -= level.cost
            level.shapes[name] = written
            level.members.append((name, below))

    def _is_leaf(self, name: str) -> bool:
        return self._types.get(name, {}).get("kind") in ("SCALAR", "ENUM", None)


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
    outer, inner = _wrapped(kind)
    while outer in ("NON_NULL", "LIST"):
        kind = inner
        outer, inner = _wrapped(kind)
    return _name(kind)


def _is_whole(kind: object) -> bool:
    """Return whether a type ends in a name: one with more lists than an introspection asks for does not."""
    outer, inner = _wrapped(kind)
    while outer in ("NON_NULL", "LIST"):
        kind = inner
        outer, inner = _wrapped(kind)
    return isinstance(kind, dict) and _is_name(kind.get("name"))


def _is_list(kind: object) -> bool:
    outer, inner = _wrapped(kind)
    return outer == "LIST" or (outer == "NON_NULL" and _wrapped(inner)[0] == "LIST")


def _written(kind: object) -> str:
    """Write a type as GraphQL does: [ID!]!"""
    outer, inner = _wrapped(kind)
    if outer == "NON_NULL":
        return f"{_written(inner)}!"
    return f"[{_written(inner)}]" if outer == "LIST" else _name(kind)


def _wrapped(kind: object) -> tuple[object, object]:
    """Return a type's kind, and the type within: of a list its members', of one that may not be null the rest."""
    return (kind.get("kind"), kind.get("ofType")) if isinstance(kind, dict) else (None, None)


def _is_required(given: object) -> bool:
    if not isinstance(given, dict):
        return False
    outer, _ = _wrapped(given.get("type"))
    return outer == "NON_NULL" and given.get("defaultValue") is None
