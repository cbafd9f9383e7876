"""The possible cost of checking one value against a schema: known before the check, from the sizes of both.

The validator holds the interpreter's lock until it is done, so a thread would not keep the event loop free. An
expensive check is therefore made in another process; the estimate decides. It is of the worst value, in nanoseconds
as measured with jsonschema-rs 0.60.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from sessions_app.protocol.dialect import Document
from sessions_app.protocol.json import Json

_EVALUATION_NS = 20
_FRACTION_NS = 20_000
"""`multipleOf` that is no integer works with exact fractions: 21 microseconds for 1e300 and .01."""
_OPTION_NS = 20
_NESTED_OPTION_NS = 300
_UNIQUE_NS = 1_000
_BACKTRACKED_NS = 300_000
"""The steps of one backtracking pattern at one text, before they run out."""
_STATE_NS = 10
"""A byte of text for each state that a pattern may be in."""
_MOST = 10**12
_COUNTS = re.compile(r"\{(?:\d{0,6},)?(\d{1,6})")

_BACKTRACKS = re.compile(r"\\[1-9k]|\(\?(?:[=!>(]|<[=!])|[*+?}]\+")
"""Signs of look-around, back-references and atomic groups, which linear engines have not."""


@dataclass(frozen=True, slots=True)
class Cost:
    per_value: int
    """Nanoseconds for each value inside the checked one."""
    per_byte: int
    """Nanoseconds for each byte of its JSON, where patterns read it."""
    per_byte_squared: int
    """Such a pattern looks ahead from every character of a text to its end."""

    def nanoseconds(self, text: str) -> int:
        """Bound the time to check the value whose JSON is `text`."""
        values = 1 + text.count(",") + text.count("[") + text.count("{") + text.count(":")
        return values * self.per_value + len(text) * (self.per_byte + len(text) * self.per_byte_squared)

    def affordable_characters(self, nanoseconds: int) -> int:
        """Return a length at which no text costs more, so that nothing must be counted; 0 where there is none."""
        each = self.per_value + self.per_byte
        if self.per_byte_squared:
            return min(nanoseconds // (2 * each), math.isqrt(nanoseconds // (2 * self.per_byte_squared)))
        return nanoseconds // each

    def may_exceed(self, text: str, nanoseconds: int) -> bool:
        return self.nanoseconds(text) > nanoseconds


def cost_of(schema: dict[str, Json]) -> Cost:
    """Return the possible cost of a value; the schema has passed `schemas.check`."""
    document = Document(schema)
    has_patterns = bool(document.patterns)
    return Cost(
        document.total(_per_value, _MOST),
        document.total(_per_byte, _MOST) if has_patterns else 0,
        document.total(_squared, _MOST) if any(map(_BACKTRACKS.search, document.patterns)) else 0,
    )


def _per_value(node: dict[str, Json]) -> int:
    cost = _EVALUATION_NS
    divisor = node.get("multipleOf")
    if isinstance(divisor, float):
        cost += _FRACTION_NS
    options = node.get("enum")
    for option in options if isinstance(options, list) else ([node["const"]] if "const" in node else []):
        cost += _NESTED_OPTION_NS if isinstance(option, dict | list) else _OPTION_NS
    if node.get("uniqueItems"):
        cost += _UNIQUE_NS
    return cost + _BACKTRACKED_NS * sum(1 for pattern in _patterns(node) if _BACKTRACKS.search(pattern))


def _per_byte(node: dict[str, Json]) -> int:
    return 1 + sum(_STATE_NS * _states(pattern) for pattern in _patterns(node))


def _states(pattern: str) -> int:
    counts = [int(count) for count in _COUNTS.findall(pattern)]
    return len(pattern) + min(math.prod(counts) if "){" in pattern else sum(counts), _MOST)


def _squared(node: dict[str, Json]) -> int:
    return max(1, sum(1 for pattern in _patterns(node) if _BACKTRACKS.search(pattern)))


def _patterns(node: dict[str, Json]) -> list[str]:
    named = node.get("patternProperties")
    own = node.get("pattern")
    return [*(named if isinstance(named, dict) else ()), *([own] if isinstance(own, str) else ())]
