"""Converts schemas of tools as published servers write them. Pure.

PHP writes an empty object as `[]` and a list with gaps as an object, .NET and Pydantic write null for absent members,
older servers write draft-03 to draft-07 and OpenAPI 3.0 without a `$schema`, and people write schemas by hand.
Unambiguous spellings are converted, with a remark; a valid schema is returned unchanged. `schemas.check` refuses the
rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from sessions_app.protocol import json, patterns
from sessions_app.protocol.dialect import DIALECTS
from sessions_app.protocol.errors import ParseError
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
    "nil": "null",
    **dict.fromkeys(("datetime", "date-time", "date", "time", "uuid", "guid", "uri", "url", "email"), "string"),
    **dict.fromkeys(("char", "varchar", "file", "binary", "base64", "password"), "string"),
    **dict.fromkeys(("short", "byte", "bigint", "uint", "timestamp"), "integer"),
}
_KNOWN: Final = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
_OLD: Final = ("draft-03", "draft-04", "draft-06", "draft-07", "2019-09", "2020-12")
_NO_MEMBERS: Final = frozenset({"type", "$ref", "title", "description", "format"})
"""Keywords that some write a level too deep: as the name of a property with a text they are no shorthand."""
_TEXTS: Final = ("title", "description", "$comment")
_REMARKS_ALONE: Final = ("deprecated", "readOnly", "writeOnly")
_BESIDE_NULL: Final = frozenset({*_TEXTS, "default", "examples", "$schema", "$id", "$defs", "definitions"})
"""Keywords that stay where the rest of a schema becomes one of two."""

_CONVERTED: Final = "is converted"

Remarks = list[str]


def input_of(schema: Json) -> tuple[Json, Remarks]:
    """Return an input schema that is converted, with its remarks. None at all is one without arguments."""
    before: Remarks = []
    if isinstance(schema, str) and schema.lstrip().startswith("{"):
        try:
            schema, before = json.loads(schema.encode("utf-8", "replace")), ["its text is read as JSON"]
        except ParseError:
            return schema, []
    if isinstance(schema, dict) and list(schema) == ["jsonSchema"]:
        schema, before = schema["jsonSchema"], [*before, "it is read out of jsonSchema"]
    found, remarks = _object(schema)
    return found, [*before, *remarks]


def _object(schema: Json) -> tuple[Json, Remarks]:
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
    _read_texts(found, note)
    _read_scalars(found, note)
    _read_types(found, note)
    _read_shapes(found, note)
    _modernize(found, note)
    _read_pattern(found, note)
    for name in _MAPS:
        if isinstance(inner := found.get(name), dict):
            found[name] = {
                key: _schema(_of_word(each, key, note), f"{path}/{name}/{key}", remarks, depth + 1)
                for key, each in inner.items()
            }
    for name in _SCHEMAS:
        if name in found:
            found[name] = _schema(_of_word(found[name], name, note), f"{path}/{name}", remarks, depth + 1)
    for name in _LISTS:
        if isinstance(inner := found.get(name), list):
            found[name] = [_schema(each, f"{path}/{name}/{at}", remarks, depth + 1) for at, each in enumerate(inner)]
    _lift_required(found, note, is_property=path.rpartition("/")[0].endswith("/properties"))
    return found


Note = Callable[[str], None]


def _of_word(schema: Json, name: str, note: Note) -> Json:
    """Return a schema for which a type's name was written."""
    kind = _type_of(schema) if isinstance(schema, str) and name not in _NO_MEMBERS else None
    if kind is None or kind == "null":
        return schema
    note(f"{name[:60]!r}: {schema[:40]!r} is read as its type")
    return {"type": kind}


def _drop_nulls(found: dict[str, Json], note: Note) -> None:
    for name in [name for name, value in found.items() if value is None and name not in _MEANING_NULL]:
        del found[name]
        note(f"{name}: null is left out")


def _read_texts(found: dict[str, Json], note: Note) -> None:
    """Mend keywords that only describe."""
    for name in _TEXTS:
        if name in found and not isinstance(value := found[name], str):
            parts = value if isinstance(value, list) else [value]
            words = " ".join(str(each) for each in parts if isinstance(each, str | int | float))
            found[name] = words
            note(f"{name} is read as a text")
    if "examples" in found and not isinstance(value := found["examples"], list):
        named = value.values() if isinstance(value, dict) else ()
        is_map = bool(named) and all(isinstance(each, dict) and "value" in each for each in named)  # of OpenAPI
        found["examples"] = [each["value"] for each in named] if is_map else [value]
        note("examples is read as a list")
    for name in _REMARKS_ALONE:
        is_flag = isinstance(value := found.get(name, False), bool)
        if not is_flag and not (isinstance(value, str) and value.lower() in ("true", "false")):
            del found[name]
            note(f"{name} is left out")


def _read_pattern(found: dict[str, Json], note: Note) -> None:
    """Write a pattern of another language as JSON Schema has it; leave out one that the hub cannot read."""
    if not isinstance(pattern := found.get("pattern"), str) or (read := patterns.readable(pattern)) == pattern:
        return
    if read is None:
        del found["pattern"]
        note(f"pattern {pattern[:60]!r} cannot be read, and is left out")
    else:
        found["pattern"] = read
        note(f"pattern {pattern[:60]!r} is read as {read[:60]!r}")


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
        if _is_no_bound(name, found.get(name)):
            del found[name]
            note(f"{name} bounds nothing, and is left out")
    for name in _FLAGS:
        if isinstance(text := found.get(name), str) and text.lower() in ("true", "false"):
            found[name] = text.lower() == "true"
            note(f"{name} is read as a boolean")


def _is_no_bound(name: str, value: Json) -> bool:
    """Return whether a bound is one that its author's language writes for none: -1, 0 as a divisor, infinity."""
    if isinstance(value, str):
        return value.lower().lstrip("+-") in ("inf", "infinity", "nan")
    if isinstance(value, bool):
        return not name.startswith("exclusive")
    if not isinstance(value, int | float):
        return False
    return value <= 0 if name == "multipleOf" else value < 0 and name.startswith(("min", "max")) and name[3:4] in "LIPC"


def _type_of(word: str) -> str | None:
    """Return the type that is meant by a name of it; None for another word."""
    lower = word.strip().lower()
    return lower if lower in _KNOWN else _TYPES.get(lower)


def _types_of(words: list[Json]) -> list[str] | None:
    """Return the types of a list, each once; None where one of them is none."""
    kinds = ["null" if word is None else _type_of(word) if isinstance(word, str) else None for word in words]
    return None if None in kinds else list(dict.fromkeys(kind for kind in kinds if kind))


def _read_types(found: dict[str, Json], note: Note) -> None:
    kind = found.get("type")
    if isinstance(kind, str):
        _read_type(found, kind, note)
    elif kind == []:
        del found["type"]
        note('"type": [] is left out')
    elif isinstance(kind, list) and "any" in kind:
        del found["type"]
        note('"type": "any" is left out')
    elif isinstance(kind, list):
        kinds = _types_of([each for each in kind if each != "undefined"])
        if kinds and kinds != kind:
            found["type"] = kinds[0] if len(kinds) == 1 else kinds
            note(f"type is read as {', '.join(kinds)}")
    if found.get("nullable") is True:
        _read_nullable(found, note)


def _read_type(found: dict[str, Json], kind: str, note: Note) -> None:
    plain: Json = _type_of(kind)
    inner = _type_of(kind[:-2]) if kind.endswith("[]") else None
    if kind.lower() == "any":
        del found["type"]
        note('"type": "any" is left out')
        return
    if inner is not None:
        plain = "array"
        found.setdefault("items", {"type": inner})
    elif plain is None and ("|" in kind or "," in kind):
        plain = _types_of(list(kind.replace(",", "|").split("|")))
    if plain and plain != kind:
        found["type"] = plain
        note(f"type {kind[:40]!r} is read as {plain!r}")


def _read_nullable(found: dict[str, Json], note: Note) -> None:
    """Convert `nullable` of OpenAPI 3.0."""
    del found["nullable"]
    kind = found.get("type")
    if isinstance(kind, str) and kind != "null":
        found["type"] = [kind, "null"]
        if isinstance(found.get("enum"), list) and None not in found["enum"]:
            found["enum"] = [*found["enum"], None]
    elif kind is None and (rest := {name: found.pop(name) for name in list(found) if name not in _BESIDE_NULL}):
        found["anyOf"] = [rest, {"type": "null"}]
    note("nullable is read as a type")


def _read_shapes(found: dict[str, Json], note: Note) -> None:
    for name in (*_MAPS, "dependencies", "dependentRequired"):
        if found.get(name) == []:
            found[name] = {}
            note(f"{name}: [] is read as {{}}")
    for name in ("required", "enum", *_LISTS):
        if isinstance(value := found.get(name), dict) and (listed := _listed(name, value)) is not None:
            found[name] = listed
            note(f"{name} is read as a list")
    named = found.get("properties")
    if isinstance(named, list) and all(isinstance(each, dict) and isinstance(each.get("name"), str) for each in named):
        found["properties"] = {each["name"]: {k: v for k, v in each.items() if k != "name"} for each in named}
        note("properties is read by names")
    for name in _LISTS:
        if found.get(name) == []:
            del found[name]
            note(f"{name}: [] is left out")
    if found.get("enum") == []:
        del found["enum"]
        note("enum: [] is left out")
    if isinstance(names := found.get("required"), list):
        once = list(dict.fromkeys(each for each in names if isinstance(each, str)))
        if once != names:
            found["required"] = once
            note("required names each once")


def _listed(name: str, value: dict[str, Json]) -> list[Json] | None:
    """Return the list that an object stands for; None where it is not plain."""
    if all(key.isdigit() for key in value):
        return list(value.values())  # PHP's lists with gaps
    if name == "required":
        return [key for key in value if value[key]] if all(isinstance(each, bool) for each in value.values()) else None
    if name == "enum":
        return None if any(isinstance(each, dict | list) for each in value.values()) else list(value.values())
    return [value]


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
    declared = found.get("$schema")
    known = next((each for each in _OLD if isinstance(declared, str) and each in declared.replace("/2", "2")), "")
    served = next((each for each in DIALECTS if known and known in each.replace("draft/2", "2")), None)
    if isinstance(declared, str) and served is not None and declared.removesuffix("#") not in DIALECTS:
        found["$schema"] = served
        note(f"$schema {declared[:60]!r} is read as {served!r}")
    if isinstance(declared, str) and not known:
        del found["$schema"]
        note("$schema names no draft that is known, and is left out")
    elif isinstance(declared, str) and "draft-03" in declared:
        _undeclare(found)
        note("draft-03 is read as 2020-12")


def _undeclare(found: dict[str, Json]) -> None:
    """Remove the draft of a schema: the converted one is of the newest."""
    if "draft-0" in str(found.get("$schema")):
        del found["$schema"]


def _lift_required(found: dict[str, Json], note: Note, *, is_property: bool) -> None:
    """Move draft-03's `required: true` of a property to the list of its object; remove any other value that is not
    a list, but for one of a property, which its object reads next.
    """
    properties = found.get("properties")
    named = []
    if isinstance(properties, dict):
        within = properties.get("required")
        if within and isinstance(within, list) and all(isinstance(name, str) and name in properties for name in within):
            named += properties.pop("required")
            note("required is moved out of properties")
        for name, inner in properties.items():
            if isinstance(inner, dict) and isinstance(flag := inner.get("required"), bool):
                properties[name] = {key: value for key, value in inner.items() if key != "required"}
                named += [name] if flag else []
                note(f"required of {name[:60]!r} is moved to its object")
    if named:
        listed = found.get("required")
        found["required"] = list(dict.fromkeys([*(listed if isinstance(listed, list) else []), *named]))
    elif isinstance(text := found.get("required"), str):
        parts = list(dict.fromkeys(part.strip() for part in text.split(",")))
        is_list = isinstance(properties, dict) and text not in properties and all(part in properties for part in parts)
        found["required"] = parts if is_list else [text]
        note("required is read as a list")
    elif isinstance(found.get("required"), bool) and not is_property:
        del found["required"]
        note("required is left out")
