"""Projections: a subset of JMESPath over JSON. Pure.

Callers may send expressions, so none may make a result larger: no functions, no literal but in a comparison, and no two
members of a selection that overlap. What an expression costs then grows with the result, and with nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from sessions_app.protocol.json import Json

LONGEST_EXPRESSION = 2000
_LONGEST_NAME = 64
_MOST_BRACKETS = 60
"""The parser and the interpreter call themselves for each."""
_DEEPEST_SELECTION = 4
_SELECTIONS = ("multi_select_dict", "multi_select_list")
_IN_ORDER = ("subexpression", "index_expression", "pipe", "projection", "value_projection")
_CONDITIONS = ("comparator", "and_expression", "or_expression", "not_expression")
_LEAVES = ("field", "index", "slice", "current", "identity")
_KNOWN = frozenset(
    (*_SELECTIONS, *_IN_ORDER, *_CONDITIONS, *_LEAVES, "flatten", "filter_projection", "key_val_pair", "literal")
)
_Path = tuple[str, ...]


class FieldsError(ValueError):
    """An expression that cannot be read, or not be applied to a value."""


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Any:
    """Return the parsed expression; None for a blank one. Raises FieldsError."""
    if not expression.strip():
        return None
    if len(expression) > LONGEST_EXPRESSION or sum(map(expression.count, "([{")) > _MOST_BRACKETS:
        raise FieldsError(
            f"The expression is too long: at most {LONGEST_EXPRESSION} characters and {_MOST_BRACKETS} brackets."
        )
    try:
        parsed = jmespath.compile(expression)
        _check(parsed.parsed, 0, is_condition=False)
    except FieldsError:
        raise
    except (JMESPathError, RecursionError, ValueError) as error:
        raise FieldsError(f"The expression cannot be read: {_words(error)}. See https://jmespath.org.") from error
    return parsed


def projected(expression: str, value: Json) -> Json:
    """Return what the expression selects of a value. Raises FieldsError."""
    parsed = compiled(expression)
    if parsed is None:
        return value
    try:
        return parsed.search(value)
    except (JMESPathError, RecursionError, TypeError, ValueError) as error:
        raise FieldsError(f"The expression does not fit the result: {_words(error)}.") from error


def _check(node: Mapping[str, Any], selections: int, *, is_condition: bool) -> None:
    kind, children = node["type"], node.get("children", [])
    if kind not in _KNOWN:
        raise FieldsError("Functions cannot be used here: select fields, items and members only.")
    if kind == "literal" and not is_condition:
        raise FieldsError("A literal can be used in a condition only, such as [?state == 'open'].")
    if kind in _SELECTIONS:
        selections += 1
        if selections > _DEEPEST_SELECTION:
            raise FieldsError(f"Selections can be nested {_DEEPEST_SELECTION} deep.")
        _check_members(children)
    if kind == "slice":
        return  # of numbers alone
    for at, child in enumerate(children):
        is_test = kind in _CONDITIONS or (kind == "filter_projection" and at == 2)
        _check(child, selections, is_condition=is_condition or is_test)


def _check_members(members: Sequence[Mapping[str, Any]]) -> None:
    """Raise FieldsError for members that would send a part of the result twice."""
    paths: list[_Path] = []
    for member in members:
        if member["type"] == "key_val_pair":
            if len(member["value"]) > _LONGEST_NAME:
                raise FieldsError(f"The name of a member has at most {_LONGEST_NAME} characters.")
            member = member["children"][0]
        paths.extend(_paths(member))
    paths.sort()
    for one, other in pairwise(paths):
        if other[: len(one)] == one:
            shown = ".".join(one) or "@"
            raise FieldsError(f"Two members of one selection send {shown}. Send each part of the result once.")


def _paths(node: Mapping[str, Any]) -> list[_Path]:
    """Return what an expression reads: names of fields, and [] for items."""
    kind, children = node["type"], node.get("children", [])
    if kind == "field":
        return [(node["value"],)]
    if kind in ("current", "identity", "literal"):
        return [()]
    if kind in ("index", "slice"):
        return [("[]",)]
    if kind in ("or_expression", "and_expression"):
        return [path for child in children for path in _paths(child)]
    if kind in _SELECTIONS:
        return [()]
    found: _Path = ()
    for child in children[:2]:
        first = _paths(child)
        found += first[0] if len(first) == 1 else ()
    return [found if kind in ("subexpression", "pipe", "index_expression") else (*found, "[]")]


def _words(error: Exception) -> str:
    return " ".join(str(error).split())[:300].rstrip(".")
