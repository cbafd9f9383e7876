"""Converts schemas of tools as published servers write them. Pure.

PHP writes an empty object as `[]` and a list with gaps as an object, .NET and Pydantic write null for absent members,
older servers write draft-03 to draft-07 and OpenAPI 3.0 without a `$schema`. Unambiguous spellings are converted,
with a remark; a valid schema is returned unchanged. `schemas.check` refuses the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sessions_app.protocol.json import Json

_DEEPEST: Final = 64
_MOST_REMARKS: Final = 20
_MAPS: Final = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
"""Keywords whose values are objects of schemas."""
_SCHEMAS: Final = (
    "items",
    "additionalProperties",
    "additionalItems",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contains",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
)
_LISTS: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
_NUMBERS: Final = (
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "minProperties",
    "maxProperties",
    "minContains",
    "maxContains",
)
_FLAGS: Final = ("uniqueItems", "additionalProperties", "deprecated", "readOnly", "writeOnly")
_MEANING_NULL: Final = frozenset({"default", "const", "example"})
"""Keywords for which null is a value."""
_TYPES: Final[Mapping[str, str]] = {
    "int": "integer",
    "int32": "integer",
    "int64": "integer",
    "long": "integer",
    "float": "number",
    "double": "number",
    "decimal": "number",
    "bool": "boolean",
    "str": "string",
    "text": "string",
    "dict": "object",
    "map": "object",
    "list": "array",
    "none": "null",
}
_KNOWN: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_OLD: Final = ("draft-03", "draft-04", "draft-06", "draft-07", "2019-09", "2020-12")

_CONVERTED: Final = "is converted"

Remarks = list[str]


def input_of(schema: Json) -> tuple[Json, Remarks]:
    """Return an input schema that is converted, with its remarks. None at all is one without arguments."""
    if schema is None or schema in ([], {}, True):
        return {"type": "object"}, [] if isinstance(schema, dict) else ["it is empty, so the tool has no arguments"]
    found, remarks = mended(schema)
    if not isinstance(found, dict) or found.get("type") == "object":
        return found, remarks
    kind = found.get("type")
    if kind is None or (isinstance(kind, list) and "object" in kind):
        return {**found, "type": "object"}, [*remarks, '"type": "object" is added']
    return found, remarks


def mended(schema: Json) -> tuple[Json, Remarks]:
    """Return a schema that is converted where that keeps its meaning, with a remark for each conversion."""
    remarks: dict[str, None] = {}
    found = _schema(schema, "", remarks, 0)
    if any(_CONVERTED in remark for remark in remarks):  # its parts are of the newest draft now
        _undeclare(found)
    return (found, list(remarks)[:_MOST_REMARKS]) if remarks else (schema, [])


def _schema(schema: Json, path: str, remarks: dict[str, None], depth: int) -> Json:
    if schema == []:
        remarks[f"[] is read as {{}} at {path or '/'}"] = None
        return {}
    if not isinstance(schema, dict) or depth > _DEEPEST:
        return schema

    def note(words: str) -> None:
        remarks[f"{words} at {path or '/'}"] = None

    found = dict(schema)
    _drop_nulls(found, note)
    _read_scalars(found, note)
    _read_types(found, note)
    _read_shapes(found, note)
    _modernize(found, note)
    for name in _MAPS:
        if isinstance(inner := found.get(name), dict):
            found[name] = {
                key: _schema(each, f"{path}/{name}/{key}", remarks, depth + 1) for key, each in inner.items()
            }
    for name in _SCHEMAS:
        if name in found:
            found[name] = _schema(found[name], f"{path}/{name}", remarks, depth + 1)
    for name in _LISTS:
        if isinstance(inner := found.get(name), list):
            found[name] = [_schema(each, f"{path}/{name}/{at}", remarks, depth + 1) for at, each in enumerate(inner)]
    _lift_required(found, schema, note)
    return found


Note = Callable[[str], None]


def _drop_nulls(found: dict[str, Json], note: Note) -> None:
    for name in [name for name, value in found.items() if value is None and name not in _MEANING_NULL]:
        del found[name]
        note(f"{name}: null is left out")


def _read_scalars(found: dict[str, Json], note: Note) -> None:
    for name in _NUMBERS:
        if isinstance(text := found.get(name), str):
            try:
                number = float(text)
            except ValueError:
                continue
            if number == number and abs(number) < 2**53:
                found[name] = int(number) if number.is_integer() else number
                note(f"{name} is read as a number")
    for name in _FLAGS:
        if isinstance(text := found.get(name), str) and text.lower() in ("true", "false"):
            found[name] = text.lower() == "true"
            note(f"{name} is read as a boolean")


def _read_types(found: dict[str, Json], note: Note) -> None:
    kind = found.get("type")
    if isinstance(kind, str):
        lower = kind.lower()
        plain = lower if lower in _KNOWN else _TYPES.get(lower, kind)
        if lower == "any":
            del found["type"]
            note('"type": "any" is left out')
        elif plain != kind:
            found["type"] = plain
            note(f"type {kind[:40]!r} is read as {plain!r}")
    elif kind == []:
        del found["type"]
        note('"type": [] is left out')
    elif isinstance(kind, list) and "any" in kind:
        del found["type"]
        note('"type": "any" is left out')
    if found.get("nullable") is True:  # of OpenAPI 3.0
        del found["nullable"]
        if isinstance(kind := found.get("type"), str) and kind != "null":
            found["type"] = [kind, "null"]
            if isinstance(found.get("enum"), list) and None not in found["enum"]:
                found["enum"] = [*found["enum"], None]
        note("nullable is read as a type")


def _read_shapes(found: dict[str, Json], note: Note) -> None:
    for name in (*_MAPS, "dependencies", "dependentRequired"):
        if found.get(name) == []:
            found[name] = {}
            note(f"{name}: [] is read as {{}}")
    for name in ("required", "enum", *_LISTS):
        if isinstance(value := found.get(name), dict) and all(key.isdigit() for key in value):
            found[name] = list(value.values())  # PHP's lists with gaps
            note(f"{name} is read as a list")
    for name in _LISTS:
        if found.get(name) == []:
            del found[name]
            note(f"{name}: [] is left out")
    if found.get("enum") == []:
        del found["enum"]
        note("enum: [] is left out")
    if isinstance(found.get("required"), list) and len(set(map(str, found["required"]))) < len(found["required"]):
        found["required"] = list(dict.fromkeys(each for each in found["required"] if isinstance(each, str)))
        note("required names each once")


def _modernize(found: dict[str, Json], note: Note) -> None:
    """Convert draft-03 to draft-07 to 2020-12, unless the schema declares its draft and the hub serves that."""
    for name, limit in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if isinstance(flag := found.get(name), bool):
            del found[name]
            if flag and isinstance(found.get(limit), int | float):
                found[name] = found.pop(limit)
            note(f"{name}: {str(flag).lower()} of draft-04 {_CONVERTED}")
    if isinstance(found.get("divisibleBy"), int | float):
        found["multipleOf"] = found.pop("divisibleBy")
        note(f"divisibleBy of draft-03 {_CONVERTED}")
    if "extends" in found:
        inner = found.pop("extends")
        found["allOf"] = [*found.get("allOf", []), *(inner if isinstance(inner, list) else [inner])]
        note(f"extends of draft-03 {_CONVERTED}")
    if isinstance(text := found.get("id"), str) and "$schema" in found and "draft-0" in str(found["$schema"]):
        del found["id"]
        note(f"id {text[:40]!r} of draft-04 is left out")
    if isinstance(declared := found.get("$schema"), str) and not any(draft in declared for draft in _OLD):
        del found["$schema"]
        note("$schema names no draft that is known, and is left out")
    elif isinstance(declared, str) and "draft-03" in declared:
        _undeclare(found)
        note("draft-03 is read as 2020-12")


def _undeclare(found: dict[str, Json]) -> None:
    """Remove the draft of a schema: the converted one is of the newest."""
    if "draft-0" in str(found.get("$schema")):
        del found["$schema"]


def _lift_required(found: dict[str, Json], before: dict[str, Json], note: Note) -> None:
    """Move draft-03's `required: true` of a property to the list of its object; remove any other value that is not
    a list.
    """
    properties = found.get("properties")
    named = []
    if isinstance(properties, dict):
        for name, inner in properties.items():
            if isinstance(inner, dict) and isinstance(flag := inner.get("required"), bool):
                properties[name] = {key: value for key, value in inner.items() if key != "required"}
                named += [name] if flag else []
                note(f"required of {name[:60]!r} is moved to its object")
    if named:
        listed = found.get("required")
        found["required"] = list(dict.fromkeys([*(listed if isinstance(listed, list) else []), *named]))
    elif isinstance(text := found.get("required"), str):
        found["required"] = [text]
        note("required is read as a list")
