"""Tables as CSV: read back by an independent reader, they are the value that was sent."""

from __future__ import annotations

import csv
import io
import json
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.fitting.fitting import fitted, note
from mcphub.features.fitting.tables import with_tables

SCALARS = st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=12)
AWKWARD = st.sampled_from(
    ["", " ", "1", "-0", "true", "null", '"', '"a"', "a,b", "a\nb", "a\r\nb", "\r", "[1]", "{}", "é"]
)
CELLS = st.recursive(
    SCALARS | AWKWARD,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
ROWS = st.lists(st.dictionaries(st.text(max_size=6) | AWKWARD, CELLS, max_size=4), min_size=2, max_size=6)
ORDERS = [{"number": at, "title": f"Order, {at}", "isOpen": at % 2 == 0} for at in range(30)]


def _value(cell: str) -> Any:
    try:
        return json.loads(cell, parse_constant=lambda word: 1 / 0)
    except (ValueError, ZeroDivisionError):
        return cell


def _rows(lines: Any, count: int) -> list[dict[str, Any]]:
    columns = next(lines)
    cells = (next(lines) for _ in range(count))
    return [{name: _value(cell) for name, cell in zip(columns, row, strict=True) if cell} for row in cells]


def read(text: str, count: int | None = None) -> Any:
    """Return the value in a text with tables. `count`: rows, where the whole text is a table."""
    if count is not None:
        return _rows(csv.reader(io.StringIO(text, newline="")), count)
    stream = io.StringIO(text, newline="")
    value = json.loads(stream.readline())
    while heading := stream.readline():
        if heading == "\n":
            continue
        found = re.fullmatch(r'(".*"), (\d+) rows:\n', heading)
        assert found is not None, heading
        value[json.loads(found[1])] = _rows(csv.reader(iter(stream.readline, "")), int(found[2]))
    return value


@given(ROWS)
def test_a_list_of_objects_comes_back_as_it_was(rows: list[dict[str, Any]]) -> None:
    text = with_tables(rows)
    assert text is None or read(text, len(rows)) == rows


@given(st.dictionaries(st.text(max_size=5), ROWS | CELLS, min_size=1, max_size=4))
def test_an_object_with_tables_comes_back_as_it_was(value: dict[str, Any]) -> None:
    text = with_tables(value)
    assert text is None or read(text) == value


def test_a_table_takes_half_of_its_json() -> None:
    text = with_tables(ORDERS)
    assert text is not None
    assert text.startswith('number,title,isOpen\n0,"Order, 0",true\n')
    assert len(text) < 0.5 * len(json.dumps(ORDERS, separators=(",", ":")))
    assert read(text, 30) == ORDERS
    both = with_tables({"orders": ORDERS, "total": 30, "tags": ["a"]})
    assert both is not None
    assert both.startswith('{"total":30,"tags":["a"]}\n"orders", 30 rows:\nnumber,')


@pytest.mark.parametrize("value", ["text", 5, [], [{"a": 1}], [1, 2], [{}, {}], {"a": [1]}, [{"a": "x" * 9}, 5]])
def test_what_is_no_table_stays_json(value: Any) -> None:
    assert with_tables(value) is None


def test_a_whole_result_with_tables_has_no_handle_and_a_cut_one_has_both_notes() -> None:
    value = {"orders": ORDERS, "total": 30}
    wire = {"content": [{"type": "text", "text": json.dumps(value)}], "structuredContent": value}
    whole = fitted(wire, "", None, lambda value: True, has_tables=True)
    assert (whole.is_whole, whole.is_unchanged, "structuredContent" in whole.wire) == (True, False, False)
    assert read(whole.wire["content"][0]["text"]) == value
    assert note(whole, 9, 9, "", "").startswith("[MCP Hub: Tables are CSV.")
    cut = fitted(wire, "", 700, lambda value: True, has_tables=True)
    assert cut.left_out
    shown = read(cut.wire["content"][0]["text"])
    assert shown["orders"] == ORDERS[: len(shown["orders"])]
    words = note(cut, 9, 9, "mcphub://results/a", "")
    assert "not the whole result" in words
    assert "Tables are CSV." in words
    assert fitted(wire, "", None, lambda value: True).is_unchanged
