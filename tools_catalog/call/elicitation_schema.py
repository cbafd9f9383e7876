"""The schemas of forms that a client may be asked to show (MCP, Elicitation): flat objects of simple values."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import BaseModel

from sessions_app.protocol import schemas
from tools_catalog.call.base import Json

_WORDS = frozenset({"type", "title", "description", "default"})
_KEYWORDS: Mapping[str, frozenset[str]] = {
    "string": _WORDS | {"minLength", "maxLength", "format", "enum", "enumNames", "oneOf"},
    "number": _WORDS | {"minimum", "maximum"},
    "integer": _WORDS | {"minimum", "maximum"},
    "boolean": _WORDS,
    "array": _WORDS | {"items", "minItems", "maxItems"},
}
_FORMATS = frozenset({"email", "uri", "date", "date-time"})


def flat_schema(schema: Mapping[str, Json] | type[BaseModel]) -> dict[str, Json]:
    """Return the schema of a form, from itself or from a pydantic model; raise ValueError if it is not a form."""
    given = dict(schema) if isinstance(schema, Mapping) else _of_model(schema)
    if given.get("type") != "object" or not isinstance(given.get("properties"), dict):
        raise ValueError('The schema of a form is {"type": "object", "properties": {…}}.')
    unknown = given.keys() - {"type", "properties", "required", "$schema", "title", "description"}
    if unknown:
        raise ValueError(f"The schema of a form has no {', '.join(sorted(unknown))}.")
    missing = set(given.get("required", ())) - given["properties"].keys()
    if missing:
        raise ValueError(f"The form requires {', '.join(sorted(missing))}, which it has no field for.")
    for name, field in given["properties"].items():
        reason = _problem(field)
        if reason:
            raise ValueError(f"The field {name!r} cannot stand in a form: {reason}.")
    schemas.check(given)
    return given


def _problem(field: Json) -> str | None:
    kind = field.get("type") if isinstance(field, dict) else None
    if not isinstance(kind, str) or kind not in _KEYWORDS:
        return f"its type must be one of {', '.join(_KEYWORDS)}"
    unknown = field.keys() - _KEYWORDS[kind]
    if unknown:
        return f"a {kind} has no {', '.join(sorted(unknown))} here"
    if "format" in field and field["format"] not in _FORMATS:
        return f"its format must be one of {', '.join(sorted(_FORMATS))}"
    if kind == "array":
        items = field.get("items")
        if not isinstance(items, dict) or not (_has_choices(items, "anyOf") or _has_choices(items, "enum")):
            return "a list needs items with enum, or with anyOf of const and title"
    elif "oneOf" in field and not _has_choices(field, "oneOf"):
        return "oneOf needs choices with const and title"
    elif "enum" in field and not _has_choices(field, "enum"):
        return "enum needs choices, which are strings"
    return None


def _has_choices(field: dict[str, Json], keyword: str) -> bool:
    choices = field.get(keyword)
    if not isinstance(choices, list) or not choices:
        return False
    if keyword == "enum":
        return all(isinstance(choice, str) for choice in choices)
    return all(
        isinstance(choice, dict) and isinstance(choice.get("const"), str) and isinstance(choice.get("title"), str)
        for choice in choices
    )


def _of_model(model: type[BaseModel]) -> dict[str, Json]:
    schema = model.model_json_schema()
    definitions = schema.pop("$defs", {})
    schema.pop("additionalProperties", None)
    schema["properties"] = {name: _plain(field, definitions) for name, field in schema.get("properties", {}).items()}
    return schema


def _plain(field: dict[str, Json], definitions: dict[str, Json]) -> dict[str, Json]:
    """Resolve a reference to an enum, and take an optional field for one that may be left out."""
    choices = [choice for choice in field.get("anyOf", ()) if choice != {"type": "null"}]
    if len(choices) == 1:
        field = {**choices[0], **{name: value for name, value in field.items() if name != "anyOf"}}
    if "$ref" in field:
        target = definitions.get(field["$ref"].rpartition("/")[2], {})
        field = {**target, **{name: value for name, value in field.items() if name != "$ref"}}
    if isinstance(field.get("items"), dict) and "$ref" in field["items"]:
        field = {**field, "items": _plain(field["items"], definitions)}
        field["items"] = {name: field["items"][name] for name in ("type", "enum") if name in field["items"]}
        field.pop("uniqueItems", None)
    if field.get("default", ...) is None:
        field = {name: value for name, value in field.items() if name != "default"}
    if "const" in field:
        field = {**{name: value for name, value in field.items() if name != "const"}, "enum": [field["const"]]}
    return field
