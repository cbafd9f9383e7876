"""Explain why a value does not match a schema, in bounded time for any input.

A validator that lists all errors of a recursive `oneOf` takes exponential time. So the walk through the
subschemas is done here, under a budget, and the validator judges one subschema at a time, emptied of its
own subschemas, on one level of the value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import jsonschema_rs

from sessions_app.protocol.dialect import HOLDERS, REFERENCES, Document, children, escape
from sessions_app.protocol.json import Json, dumps

MAX_VIOLATIONS = 8
BUDGET_STEPS = 1_000
"""Subschemas looked at for one explanation, about 10 microseconds each once they are compiled."""
MEMBERS_PER_STEP = 200

MAX_WALK_DEPTH = 120
"""Subschemas inside each other, four frames each: a value may be 64 deep, the interpreter's stack is 1000."""

_SHOWN_CHARACTERS = 80
_MOST_MEMBERS = 200
"""Of an object, at which an explanation looks beside those that the schema names."""
_KEPT_WHEN_FALSE = frozenset({"additionalProperties", "additionalItems", "items"})
_WHOLE_VALUE = frozenset({"enum", "const", "uniqueItems"})

_WORDS = {
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
    "exclusiveMinimum": "must be greater than {}",
    "exclusiveMaximum": "must be less than {}",
    "multipleOf": "must be a multiple of {}",
    "minLength": "must have at least {} characters",
    "maxLength": "must have at most {} characters",
    "minItems": "must have at least {} items",
    "maxItems": "must have at most {} items",
    "minProperties": "must have at least {} members",
    "maxProperties": "must have at most {} members",
    "pattern": "must match the pattern {}",
    "const": "must be {}",
    "enum": "must be one of {}",
    "uniqueItems": "must not repeat an item",
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """An explanation for a model to act on. A violation is `{path, message, expected?}`, its path a JSON pointer."""

    sentence: str
    violations: list[dict[str, Json]]


class Explainer:
    """Explains values against one document. Small validators are compiled as they are needed, and kept."""

    def __init__(self, document: Document, patterns: jsonschema_rs.FancyRegexOptions) -> None:
        self._document = document
        self._patterns = patterns
        self._emptied: dict[int, jsonschema_rs.Validator] = {}
        self._matchers: dict[str, jsonschema_rs.Validator] = {}

    def explain(self, value: Json) -> Explanation:
        """The first few violations; one in general words where the walk finds none within its budget."""
        found: list[dict[str, Json]] = []
        for violation in _Walk(self).violations(self._document.root, value, ""):
            if violation not in found:
                found.append(violation)
            if len(found) > MAX_VIOLATIONS:
                break
        if not found:
            found = [{"path": "", "message": "does not match the schema"}]
        more = len(found) > MAX_VIOLATIONS
        found = found[:MAX_VIOLATIONS]
        clauses = [f"{_label(violation['path'])} {violation['message']}" for violation in found]
        if more:
            clauses.append("and more")
        return Explanation("; ".join(clauses) + ".", found)

    def matches(self, pattern: str, name: str) -> bool:
        if pattern not in self._matchers:
            self._matchers[pattern] = self._compile({"type": "string", "pattern": pattern})
        return self._matchers[pattern].is_valid(name)

    def own_errors(self, node: dict[str, Json], value: Json) -> list[jsonschema_rs.ValidationError]:
        """The errors of the keywords that stand in this subschema itself."""
        validator = self._emptied.get(id(node))
        if validator is None:
            validator = self._emptied[id(node)] = self._compile(self._empty(node))
        if _WHOLE_VALUE.isdisjoint(node):
            value = _one_level(_fewer(node, value))
        return list(islice(validator.iter_errors(value), MAX_VIOLATIONS + 1))

    def _empty(self, node: dict[str, Json]) -> dict[str, Json]:
        """The subschema without its own subschemas; names and positions that they cover stay covered."""
        emptied = {
            keyword: value
            for keyword, value in node.items()
            if keyword not in _DROPPED and not (keyword in _MAPS and isinstance(value, dict))
        }
        for keyword, token, child in children(node):
            if keyword in ("properties", "patternProperties"):
                emptied.setdefault(keyword, {})[token] = {}
            elif keyword == "prefixItems" or (keyword == "items" and token is not None):
                emptied[keyword] = [{}] * len(node[keyword])
            elif keyword in _KEPT_WHEN_FALSE:
                emptied[keyword] = child if child is False else {}
        if isinstance(node.get("dependencies"), dict):
            emptied["dependencies"] = {k: v for k, v in node["dependencies"].items() if isinstance(v, list)}
        return emptied

    def _compile(self, schema: dict[str, Json]) -> jsonschema_rs.Validator:
        root = self._document.root
        if "$schema" in root:
            schema = {"$schema": root["$schema"], **schema}
        return jsonschema_rs.validator_for(schema, offline=True, validate_formats=False, pattern_options=self._patterns)


class _Walk:
    """One explanation. Every generator ends when the budget is spent."""

    def __init__(self, explainer: Explainer) -> None:
        self._explainer = explainer
        self._document = explainer._document
        self._steps = BUDGET_STEPS
        self._depth = 0

    def violations(self, node: Json, value: Json, path: str) -> Iterator[dict[str, Json]]:
        if self._depth >= MAX_WALK_DEPTH:
            return
        self._depth += 1
        try:
            yield from self._visited(node, value, path)
        finally:
            self._depth -= 1

    def _visited(self, node: Json, value: Json, path: str) -> Iterator[dict[str, Json]]:
        members = len(value) if isinstance(value, dict | list) else 0
        self._steps -= 1 + min(members // MEMBERS_PER_STEP, BUDGET_STEPS // 10)
        if self._steps < 0 or node is True:
            return
        if not isinstance(node, dict):
            yield {"path": path, "message": "is not expected"}
            return
        if not (self._document.draft <= 7 and "$ref" in node):
            yield from self._own(node, value, path)
            if not _AT_SAME_PLACE.isdisjoint(node):
                yield from self._same_place(node, value, path)
            if isinstance(value, dict):
                yield from self._members(node, value, path)
            elif isinstance(value, list):
                yield from self._items(node, value, path)
        if not _REFERRING.isdisjoint(node):
            for keyword in REFERENCES:
                if (id(node), keyword) in self._document.targets:
                    yield from self.violations(self._document.targets[id(node), keyword], value, path)

    def _own(self, node: dict[str, Json], value: Json, path: str) -> Iterator[dict[str, Json]]:
        for error in self._explainer.own_errors(node, value):
            kind = error.kind
            if isinstance(kind, jsonschema_rs.ValidationErrorKind.Required):
                yield {"path": f"{path}/{escape(kind.property)}", "message": "is required"}
            elif isinstance(kind, jsonschema_rs.ValidationErrorKind.AdditionalProperties):
                known = list(node.get("properties", {}))
                hint = f"; known are {_shown(known)}" if known else ""
                for name in kind.unexpected[:MAX_VIOLATIONS]:
                    shown = f"{path}/{escape(name[:_SHOWN_CHARACTERS])}"
                    yield {"path": shown, "message": f"is not expected{hint}", "expected": known[:20]}
            elif isinstance(kind, jsonschema_rs.ValidationErrorKind.Type):
                message = f"must be {' or '.join(kind.types)}, not {_described(value)}"
                yield {"path": path, "message": message, "expected": kind.types}
            elif isinstance(kind, jsonschema_rs.ValidationErrorKind.FalseSchema):
                # Where nothing at all may be inside, the error is about the container.
                inside = range(len(value)) if isinstance(value, list) else value
                for step in error.instance_path[:1] or islice(inside, MAX_VIOLATIONS):
                    shown = f"{path}/{escape(step)[:_SHOWN_CHARACTERS]}"
                    yield {"path": shown, "message": "is not expected"}
            else:
                yield self._by_keyword(error, node, value, path)

    def _by_keyword(
        self, error: jsonschema_rs.ValidationError, node: dict[str, Json], value: Json, path: str
    ) -> dict[str, Json]:
        keyword = error.kind.name
        expected = getattr(error.kind, "limit", node.get(keyword))
        words = _WORDS.get(keyword, f"does not satisfy {keyword} {{}}").format(_shown(expected))
        if keyword not in ("uniqueItems", "minProperties", "maxProperties", "minItems", "maxItems"):
            words += f", not {_described(value)}"
        if isinstance(expected, list):
            expected = expected[:20]
        return {"path": path, "message": words, "expected": expected}

    def _same_place(self, node: dict[str, Json], value: Json, path: str) -> Iterator[dict[str, Json]]:
        for branch in _schemas(node, "allOf"):
            yield from self.violations(branch, value, path)
        for keyword in ("anyOf", "oneOf"):
            if keyword in node:
                yield from self._nearest(_schemas(node, keyword), value, path, exactly_one=keyword == "oneOf")
        if "not" in node and self._fits(node["not"], value, path):
            yield {"path": path, "message": f"must not be {_described(value)}"}
        if "if" in node:
            branch = node.get("then" if self._fits(node["if"], value, path) else "else", True)
            yield from self.violations(branch, value, path)
        if isinstance(value, dict):
            for keyword in ("dependentSchemas", "dependencies"):
                for name, branch in _members(node, keyword):
                    if name in value and isinstance(branch, dict | bool):
                        yield from self.violations(branch, value, path)

    def _nearest(self, branches: list[Json], value: Json, path: str, *, exactly_one: bool) -> Iterator[dict[str, Json]]:
        """The violations of the form that fails least, after the news that none fits.

        A form that fails first on a type or a tag is not looked into: another one is meant.
        """
        likely: list[list[dict[str, Json]]] = []
        unlikely: list[list[dict[str, Json]]] = []
        fitting = 0
        for branch in branches:
            violations = self.violations(branch, value, path)
            first = next(violations, None)
            if self._steps < 0:
                return
            if first is None:
                fitting += 1
            elif _is_tag(first, path):
                unlikely.append([first])
            else:
                likely.append([first, *islice(violations, MAX_VIOLATIONS - 1)])
        if fitting:
            if exactly_one and fitting > 1:
                yield {"path": path, "message": f"fits {fitting} forms where exactly one is allowed"}
            return
        if len(branches) > 1:
            yield {"path": path, "message": f"fits none of {len(branches)} allowed forms; the nearest says"}
        yield from min(likely or unlikely, key=lambda found: _distance(found, path), default=())

    def _members(self, node: dict[str, Json], value: dict[str, Json], path: str) -> Iterator[dict[str, Json]]:
        properties = dict(_members(node, "properties"))
        patterns = list(_members(node, "patternProperties"))
        others = node.get("additionalProperties")
        for name, schema in properties.items():
            if name in value:
                yield from self.violations(schema, value[name], f"{path}/{escape(name)}")
        if not patterns and not isinstance(others, dict) and "propertyNames" not in node:
            return
        for name, member in value.items():
            below = f"{path}/{escape(name[:_SHOWN_CHARACTERS])}"
            if "propertyNames" in node and not self._fits(node["propertyNames"], name, below):
                yield {"path": below, "message": "is not an allowed name"}
            matched = [schema for pattern, schema in patterns if self._explainer.matches(pattern, name)]
            for schema in matched:
                yield from self.violations(schema, member, below)
            if not matched and name not in properties and isinstance(others, dict):
                yield from self.violations(others, member, below)
            self._steps -= len(patterns) // 10
            if self._steps < 0:
                return

    def _items(self, node: dict[str, Json], value: list[Json], path: str) -> Iterator[dict[str, Json]]:
        positioned = _schemas(node, "prefixItems") or _schemas(node, "items")
        rest = node.get("additionalItems") if isinstance(node.get("items"), list) else node.get("items")
        for index, item in enumerate(value):
            schema = positioned[index] if index < len(positioned) else rest
            if self._steps < 0 or (index >= len(positioned) and not isinstance(rest, dict)):
                break
            yield from self.violations(schema, item, f"{path}/{index}")
        if "contains" in node and not any(self._fits(node["contains"], item, path) for item in value):
            yield {"path": path, "message": "lacks an item that the schema asks for (contains)"}

    def _fits(self, node: Json, value: Json, path: str) -> bool:
        return next(self.violations(node, value, path), None) is None and self._steps >= 0


_DROPPED = frozenset(
    {*REFERENCES, *HOLDERS, "allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas"}
    | {"contains", "minContains", "maxContains", "propertyNames", "unevaluatedItems", "unevaluatedProperties"}
    | {"contentSchema", "dependencies", "$id", "id", "$schema", "$anchor", "$dynamicAnchor", "$recursiveAnchor"}
    | {"$vocabulary", "default", "examples", "description", "title", "additionalItems"}
)
_MAPS = frozenset({"properties", "patternProperties"})
_AT_SAME_PLACE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "dependentSchemas", "dependencies"})
_REFERRING = frozenset(REFERENCES)


def _fewer(node: dict[str, Json], value: Json) -> Json:
    """Return an object of very many members with those that the subschema names and some of the others.

    A validator writes all names that should not be there into one error, for 100 000 of them in a quarter of a second.
    """
    if not isinstance(value, dict) or len(value) <= _MOST_MEMBERS:
        return value
    named = {*(node.get("properties") or ()), *(node.get("required") or ())}
    for keyword in ("dependencies", "dependentRequired"):
        named |= set(node.get(keyword) or ())
    bounds = [bound for name in ("minProperties", "maxProperties") if isinstance(bound := node.get(name), int | float)]
    most = max(_MOST_MEMBERS, *(int(bound) + 1 for bound in bounds)) if bounds else _MOST_MEMBERS
    kept = {name: value[name] for name in named if name in value}
    return kept | dict(islice(value.items(), most))


def _one_level(value: Json) -> Json:
    if isinstance(value, dict):
        return dict.fromkeys(value)
    return [None] * len(value) if isinstance(value, list) else value


def _schemas(node: dict[str, Json], keyword: str) -> list[Json]:
    found = node.get(keyword)
    return found if isinstance(found, list) else []


def _members(node: dict[str, Json], keyword: str) -> Iterator[tuple[str, Json]]:
    found = node.get(keyword)
    return iter(found.items() if isinstance(found, dict) else ())


def _is_tag(violation: dict[str, Json], path: str) -> bool:
    """Return whether a first violation indicates that another form is meant: by a value here or one level below."""
    return "expected" in violation and violation["path"].rpartition("/")[0] in (path, path.rpartition("/")[0])


def _distance(found: list[dict[str, Json]], path: str) -> tuple[int, int]:
    """How far a form is from fitting: a wrong kind or tag is farther than a member to add."""
    here = sum(1 for violation in found if violation["path"] == path)
    return here, len(found)


def _label(path: str) -> str:
    if not path:
        return "the value"
    name = path[1:]
    return f"`{name}`" if "/" not in name and "~" not in name else f"`{path}`"


def _described(value: Json) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "an array"
    return _shown(value)


def _shown(value: Json) -> str:
    if isinstance(value, list):
        text = ", ".join(_shown(item) for item in value[:12])
        return text + ", …" if len(value) > 12 else text
    text = dumps(value[: _SHOWN_CHARACTERS + 1] if isinstance(value, str) else value).decode()
    return text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
