"""JSON Schema for foreign schemas and values: check once, compile once, validate fast, explain in words.

Nothing is ever fetched. Patterns run on a linear-time engine; those that need backtracking (look-around,
back-references) get a bounded number of steps. `format` is an annotation, according to the dialects.
"""

from __future__ import annotations

from collections.abc import Callable

import jsonschema_rs
import orjson

from sessions_app.protocol.costs import Cost, cost_of
from sessions_app.protocol.dialect import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_EVALUATIONS,
    Document,
    SchemaRejected,
    dialect_of,
    escape,
)
from sessions_app.protocol.explain import Explainer, Explanation
from sessions_app.protocol.json import Json

__all__ = ["Explanation", "SchemaRejected", "Validator", "check", "compile"]

BACKTRACK_STEPS = 10_000
"""Steps of one pattern on one string, about 0.3 ms; a string that needs more does not match."""

HELD_NANOSECONDS = 40_000_000
"""A check holds the interpreter's lock to its end. One that may take longer is made in another process."""

_PATTERNS = jsonschema_rs.FancyRegexOptions(backtrack_limit=BACKTRACK_STEPS)


def check(schema: Json, *, input: bool = False) -> None:
    """Raise `SchemaRejected` unless the hub can work with the schema.

    It must be an object of a served dialect (2020-12 unless `$schema` names another), valid against its meta-schema,
    self-contained and bounded. `input=True` asks for the root type "object" as well, which MCP wants of every
    inputSchema.
    """
    if not isinstance(schema, dict):
        raise SchemaRejected("A schema must be an object.")
    _check_size(schema)
    if input and schema.get("type") != "object":
        raise SchemaRejected('An input schema must have "type": "object" at its root.')
    dialect_of(schema)
    document = Document(schema)
    if document.evaluations() > MAX_EVALUATIONS:
        raise SchemaRejected(f"Its references multiply to more than {MAX_EVALUATIONS} evaluations per value.")
    _compiled(schema)
    # The compiler skips definitions that nothing refers to; a client's need not.
    _compiled({"allOf": [{"pattern": pattern} for pattern in sorted(document.patterns)] or [True]})


def forbids(schema: Json, name: str) -> bool:
    """Return whether the root of an object's schema plainly excludes a property of this name."""
    if not isinstance(schema, dict):
        return False
    properties = schema.get("properties", {})
    if isinstance(properties, dict) and name in properties:
        return properties[name] is False
    return schema.get("additionalProperties") is False and not schema.get("patternProperties")


class Validator:
    """A compiled schema. `is_valid` takes under a microsecond for small values and never raises for JSON."""

    __slots__ = ("_cheap_characters", "_cost", "_explainer", "is_valid", "schema")

    def __init__(self, schema: dict[str, Json]) -> None:
        self.schema = schema
        self.is_valid: Callable[[Json], bool] = _compiled(schema).is_valid
        self._explainer: Explainer | None = None
        self._cost: Cost | None = None
        self._cheap_characters = 0

    def may_hold(self, text: str) -> bool:
        """Return whether `is_valid` might take longer than `HELD_NANOSECONDS` for the value that is written as
        `text`.
        """
        if len(text) <= self._cheap_characters:
            return False
        if self._cost is None:
            self._cost = cost_of(self.schema)
            self._cheap_characters = self._cost.affordable_characters(HELD_NANOSECONDS)
        return self._cost.may_exceed(text, HELD_NANOSECONDS)

    def explain(self, value: Json) -> Explanation:
        """Explain the problem of a value that `is_valid` refused, in bounded time and length."""
        if self._explainer is None:
            self._explainer = Explainer(Document(self.schema), _PATTERNS)
        return self._explainer.explain(value)


def compile(schema: dict[str, Json]) -> Validator:
    """A validator for a schema that `check` has passed; raises `SchemaRejected` where it cannot compile.

    The schema must not change afterwards.
    """
    return Validator(schema)


def _check_size(schema: dict[str, Json]) -> None:
    level: list[Json] = [schema]
    for _ in range(MAX_DEPTH):
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]
        if not level:
            break
    else:
        raise SchemaRejected(f"The schema is nested deeper than {MAX_DEPTH} levels.")
    try:
        size = len(orjson.dumps(schema))
    except orjson.JSONEncodeError as error:
        raise SchemaRejected(f"The schema is not JSON: {error}") from error
    if size > MAX_BYTES:
        raise SchemaRejected(f"The schema is larger than {MAX_BYTES} bytes.")


def _compiled(schema: dict[str, Json]) -> jsonschema_rs.Validator:
    dialect_of(schema)
    try:
        return jsonschema_rs.validator_for(schema, offline=True, validate_formats=False, pattern_options=_PATTERNS)
    except jsonschema_rs.ValidationError as error:
        path = "".join(f"/{escape(step)}" for step in error.instance_path)
        raise SchemaRejected(f"Not a valid schema: {error.message[:300]}", path) from error
    except (ValueError, jsonschema_rs.ReferencingError) as error:
        raise SchemaRejected(f"Not a valid schema: {str(error)[:300]}") from error
