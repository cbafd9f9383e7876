"""Two versions of a definition, line beside line. Pure."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator
from dataclasses import dataclass

from sessions_app.kit.shown import visible

_CONTEXT_LINES = 3
_MOST_LINES = 3000
"""Beyond this the comparison takes common lines for noise, which keeps it fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One line of the table; a side that has no line there has the number None."""

    kind: str
    """equal, changed, or gap for lines left out."""
    left_number: int | None = None
    left: str = ""
    right_number: int | None = None
    right: str = ""
    hidden: int = 0


@dataclass(frozen=True, slots=True)
class FieldDifference:
    field: str
    rows: list[Row]


def difference(left: dict[str, object], right: dict[str, object]) -> list[FieldDifference]:
    """Return the fields that differ, in the order of the definition, each as rows of two columns."""
    fields = list(left) + [field for field in right if field not in left]
    return [
        FieldDifference(field, list(_rows(_lines(left.get(field)), _lines(right.get(field)))))
        for field in fields
        if left.get(field) != right.get(field) or list_order(left.get(field)) != list_order(right.get(field))
    ]


def list_order(value: object) -> str:
    """Return the text of a value, in which the order of names counts."""
    return json.dumps(value, ensure_ascii=True)


def _lines(value: object) -> list[str]:
    if value is None or value == "":
        return []
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)
    return [visible(line) for line in text.splitlines()]


def _rows(left: list[str], right: list[str]) -> Iterator[Row]:
    matcher = difflib.SequenceMatcher(None, left, right, autojunk=len(left) + len(right) > _MOST_LINES)
    previous_end = 0
    for group in matcher.get_grouped_opcodes(_CONTEXT_LINES):
        if group[0][1] > previous_end:
            yield Row(kind="gap", hidden=group[0][1] - previous_end)
        for tag, i1, i2, j1, j2 in group:
            kind = "equal" if tag == "equal" else "changed"
            for step in range(max(i2 - i1, j2 - j1)):
                i, j = i1 + step, j1 + step
                yield Row(
                    kind=kind,
                    left_number=i + 1 if i < i2 else None,
                    left=left[i] if i < i2 else "",
                    right_number=j + 1 if j < j2 else None,
                    right=right[j] if j < j2 else "",
                )
        previous_end = group[-1][2]
    if previous_end < len(left):
        yield Row(kind="gap", hidden=len(left) - previous_end)
