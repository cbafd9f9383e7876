"""Schemas of an OpenAPI document as JSON Schemas that stand alone: references put in their place, within bounds. Pure.

Only keywords that constrain a value are kept. A recursive schema is cut at the repetition.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

from mcphub.features.importers.documents import DocumentRefused
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from sessions_app.protocol.patterns import readable

MOST_NODES = 3_000
"""Schemas in one tool, references put in their place. Larger ones help no model."""
MOST_DEPTH = 40
_LONGEST_DESCRIPTION = 1_000
_HIGHEST_COUNT = 2**53
"""A longer text or list is none that a call could bring."""

_COPIED = ("type", "enum", "const", "format", "default", "uniqueItems", "required")
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties")
_LISTS = ("allOf", "anyOf", "oneOf")
_SINGLE = ("not", "propertyNames", "contains", "if", "then", "else")
_DEEPEST_PARTS = 8
_MOST_PARTS = 50
"""Schemas that one is made of which are searched for what only the service sets."""


class OperationRefused(DocumentRefused):
    """One operation cannot be a tool; others may."""


class Resolver:
    """Looks references up in one document."""

    def __init__(self, document: dict[str, Json]) -> None:
        self._document = document
        self._left = 0
        self.unread: list[str] = []
        """Patterns that were left out of the schemas."""

    def resolve(self, value: Json) -> Any:
        """Follow the references of a parameter, a body or the like; raises OperationRefused."""
        for _ in range(MOST_DEPTH):
            if not isinstance(value, dict) or "$ref" not in value:
                return value
            value = self._find(value["$ref"])
        raise OperationRefused("A reference leads round in a circle.")

    def schema(self, schema: Json) -> dict[str, Json]:
        """Return a schema that stands alone; raises OperationRefused."""
        self._left = MOST_NODES
        return self._inlined(schema, (), 0)

    def _find(self, reference: object) -> Any:
        if not isinstance(reference, str) or not reference.startswith("#/"):
            raise OperationRefused(f"It refers to another document ({str(reference)[:100]}), which is not fetched.")
        found: Any = self._document
        for step in reference[2:].split("/"):
            step = unquote(step).replace("~1", "/").replace("~0", "~")
            if isinstance(found, dict) and step in found:
                found = found[step]
            elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                raise OperationRefused(f"It refers to {reference[:100]}, which the document does not have.")
        return found

    def _inlined(
        self, schema: Json, within: tuple[str, ...], depth: int, dropped: frozenset[str] = frozenset()
    ) -> dict[str, Json]:
        """Return a schema without references. `dropped`: properties that only the service sets, as a schema around
        this one says."""
        self._left -= 1
        if self._left < 0:
            raise OperationRefused(
                f"Its schemas have more than {MOST_NODES} parts once references are put in their place."
            )
        if depth > MOST_DEPTH:
            raise OperationRefused(f"Its schemas are nested deeper than {MOST_DEPTH} levels.")
        if isinstance(schema, bool) or schema is None:
            return {} if schema is not False else {"not": {}}
        if not isinstance(schema, dict):
            raise OperationRefused("One of its schemas is no object.")
        if "$ref" in schema:
            reference = str(schema["$ref"])
            if reference in within:
                return {"description": "The same again."}
            beside = {name: value for name, value in schema.items() if name == "description"}
            target = self._inlined(self._find(schema["$ref"]), (*within, reference), depth + 1, dropped)
            return {**target, **beside}
        return self._keywords(schema, within, depth + 1, dropped | self._read_only(schema))

    def _read_only(self, schema: Json, depth: int = 0) -> frozenset[str]:
        """Return the properties that a schema, or one that it is made of, says only the service sets."""
        if not isinstance(schema, dict) or depth > _DEEPEST_PARTS:
            return frozenset()
        if "$ref" in schema:
            return self._read_only(self._target(schema), depth + 1)
        properties = schema.get("properties")
        given = properties.items() if isinstance(properties, dict) else ()
        own = {str(name) for name, part in given if self._is_read_only(part)}
        parts = schema.get("allOf")
        return frozenset(own).union(*(self._read_only(part, depth + 1) for part in _listed(parts)[:_MOST_PARTS]))

    def _is_read_only(self, schema: Json, depth: int = 0) -> bool:
        if not isinstance(schema, dict) or depth > _DEEPEST_PARTS:
            return False
        if schema.get("readOnly") is True:
            return True
        if "$ref" in schema:
            return self._is_read_only(self._target(schema), depth + 1)
        return any(self._is_read_only(part, depth + 1) for part in _listed(schema.get("allOf"))[:_MOST_PARTS])

    def _target(self, schema: dict[str, Json]) -> Json:
        """Return what a reference leads to; nothing where it leads nowhere, which is told where it is put in place."""
        try:
            return self._find(schema["$ref"])
        except OperationRefused:
            return None

    def _keywords(
        self, schema: dict[str, Json], within: tuple[str, ...], depth: int, dropped: frozenset[str]
    ) -> dict[str, Json]:
        made: dict[str, Any] = {name: schema[name] for name in _COPIED if name in schema}
        made |= {name: schema[name] for name in _BOUNDS if _is_bound(schema.get(name), schema)}
        made |= {name: int(schema[name]) for name in _COUNTS if _is_count(schema.get(name))}
        if isinstance(schema.get("pattern"), str):
            pattern = readable(schema["pattern"])
            if pattern is None:
                self.unread.append(schema["pattern"])
            else:
                made["pattern"] = pattern
        if isinstance(schema.get("description"), str):
            made["description"] = schema["description"][:_LONGEST_DESCRIPTION]
        _as_2020(schema, made)
        properties = schema.get("properties")
        if isinstance(properties, dict):
            # What only the service sets is not asked for.
            wanted = {name: part for name, part in properties.items() if name not in dropped}
            made["properties"] = {str(name): self._inlined(part, within, depth) for name, part in wanted.items()}
        if dropped and isinstance(made.get("required"), list):
            made["required"] = [name for name in made["required"] if name not in dropped]
        self._of_lists(schema, made, within, depth)
        if "additionalProperties" in schema:
            more = schema["additionalProperties"]
            made["additionalProperties"] = more if isinstance(more, bool) else self._inlined(more, within, depth)
        for name in _LISTS:
            if isinstance(schema.get(name), list) and schema[name]:
                made[name] = [self._inlined(part, within, depth, dropped) for part in schema[name]]
        for name in _SINGLE:
            if name in schema:
                made[name] = self._inlined(schema[name], within, depth)
        self._of_patterns(schema, made, within, depth)
        return made

    def _of_lists(self, schema: dict[str, Json], made: dict[str, Json], within: tuple[str, ...], depth: int) -> None:
        items, first = schema.get("items"), _listed(schema.get("prefixItems"))
        if isinstance(items, list):  # as before JSON Schema 2020-12
            items, first = schema.get("additionalItems", True), items
        if first:
            made["prefixItems"] = [self._inlined(part, within, depth) for part in first]
        if items is not None:
            made["items"] = items if isinstance(items, bool) else self._inlined(items, within, depth)

    def _of_patterns(self, schema: dict[str, Json], made: dict[str, Json], within: tuple[str, ...], depth: int) -> None:
        """Add `patternProperties`. Without a pattern that cannot be read, no name is refused."""
        given = schema.get("patternProperties")
        if not isinstance(given, dict) or not given:
            return
        kept: dict[str, Json] = {}
        for text, part in given.items():
            pattern = readable(str(text))
            if pattern is None:
                self.unread.append(str(text))
                made.pop("additionalProperties", None)
                made.pop("propertyNames", None)
            else:
                kept[pattern] = self._inlined(part, within, depth)
        if kept:
            made["patternProperties"] = kept


def _as_2020(schema: dict[str, Json], made: dict[str, Json]) -> None:
    """Convert OpenAPI 3.0's own forms to JSON Schema 2020-12."""
    for name, bound in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if schema.get(name) is True and bound in made:
            made[name] = made.pop(bound)
    if schema.get("nullable") is True and isinstance(made.get("type"), str):
        made["type"] = [made["type"], "null"]
        if isinstance(made.get("enum"), list) and None not in made["enum"]:
            made["enum"] = [*made["enum"], None]
    if "required" in made:
        given = made.pop("required")
        if isinstance(given, list):  # what is none is confusion with parameters
            made["required"] = [*dict.fromkeys(name for name in given if isinstance(name, str))]
    for name, kind in (("format", str), ("uniqueItems", bool)):
        if name in made and not isinstance(made[name], kind):
            del made[name]
    if "enum" in made and (not isinstance(made["enum"], list) or not made["enum"]):
        del made["enum"]
    if made.get("type") == "file":
        made["type"] = "string"


def _is_bound(value: Any, schema: dict[str, Any]) -> bool:
    """Return whether a number bounds anything: the hub takes no integers of more than 64 bits in any case."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return schema.get("type") != "integer" or json.SMALLEST_INTEGER <= value < 2.0**64


def _is_count(value: Any) -> bool:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    return 0 <= value <= _HIGHEST_COUNT and value == int(value)


def _listed(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
