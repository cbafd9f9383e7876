"""Arguments of a type of events, checked against its definition. Pure."""

from __future__ import annotations

import functools
from typing import Final

from sessions_app.protocol import json, schemas
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json

MOST_BYTES: Final = 8 * 1024
_WITHOUT_MEANING: Final = ("$schema", "$id", "title", "description", "type", "additionalProperties")
"""Members of a schema that let a type take no argument where they stand alone."""


class ArgumentsMisfit(InvalidParams):
    """Arguments that the type does not take; the sentence names the field."""


def taken(schema: Json) -> bool:
    """Return True where arguments by this inputSchema make a difference."""
    return isinstance(schema, dict) and any(
        value for name, value in schema.items() if name not in _WITHOUT_MEANING or isinstance(value, dict)
    )


def problem(definition: dict[str, Json], given: Json) -> str:
    """Return a sentence that names the field by which arguments do not fit a definition; empty where they do."""
    if not isinstance(given, dict):
        return "The arguments must be a JSON object."
    try:
        text = json.canonical(given)
    except (ValueError, RecursionError) as error:
        return f"The arguments cannot be kept: {error}"
    if len(text.encode()) > MOST_BYTES:
        return f"The arguments are larger than {MOST_BYTES} bytes."
    if "inputSchema" not in definition:
        return f"{definition['name']} takes no arguments." if given else ""
    validator = _validator(json.canonical(definition["inputSchema"]))
    if validator.may_hold(text):
        return "The arguments take too long to check against the schema of the type."
    return "" if validator.is_valid(given) else f"The arguments do not fit. {validator.explain(given).sentence}"


@functools.lru_cache(maxsize=200)
def _validator(schema: str) -> schemas.Validator:
    return schemas.compile(json.loads_stored(schema))
