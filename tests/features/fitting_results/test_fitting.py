"""Projections and previews: what they keep, and what they can never do."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.fitting.fields import FieldsError, compiled, projected
from mcphub.features.fitting.fitting import fitted
from mcphub.features.fitting.preview import head, shortened, size
from mcphub.features.fitting.result_parts import PartError, ResultPart, of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(st.text(max_size=5), inner, max_size=6),
    max_leaves=40,
)
PULLS = {"values": [{"id": at, "by": {"name": f"n{at}"}, "state": "OPEN" if at % 2 else "MERGED"} for at in range(6)]}


def text_result(text: str) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}]}


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("values[].id", [0, 1, 2, 3, 4, 5]),
        ("values[?state == 'OPEN'].{id: id, by: by.name}", [{"id": n, "by": f"n{n}"} for n in (1, 3, 5)]),
        ("values[:2].[id, by.name]", [[0, "n0"], [1, "n1"]]),
        ("values[0] | by", {"name": "n0"}),
        ("nothing.here", None),
    ],
)
def test_fields_items_and_members_are_selected(expression: str, found: Any) -> None:
    assert projected(expression, PULLS) == found


@pytest.mark.parametrize(
    "expression",
    [
        "values[",
        "length(values)",
        "[@, @]",
        "[@, @][] | [@, @][]",
        "{a: values, b: values[].id}",
        "values[].{a: by, b: by.name}",
        "{a: values[0], b: values[1:]}",
        "values[].{a: `[1, 2, 3]`}",
        "values[].{a: 'text'}",
        "{a: x || y, b: y}",
        "{" + ", ".join(f"a{n}: b{n}" for n in range(400)) + "}",
        "[[" * 40 + "a" + "]]" * 40,
    ],
)
def test_what_could_make_a_result_larger_is_rejected(expression: str) -> None:
    with pytest.raises(FieldsError):
        compiled(expression)


@given(JSON, st.sampled_from(["[]", "*", "[][]", "a.b", "[].{x: a, y: b}", "[?a == b]", "{x: a, y: b.{z: a}}", "@"]))
def test_no_expression_makes_a_value_much_larger(value: Any, expression: str) -> None:
    assert size(projected(expression, value)) <= 12 * size(value) + 50


@given(JSON, st.integers(0, 300))
def test_a_preview_is_of_the_values_type_and_lists_lose_items_at_their_end_only(value: Any, room: int) -> None:
    shown, left_out = shortened(value, room)
    assert type(shown) is type(value)
    assert bool(left_out) == (shown != value)
    assert size(shown) <= max(room + 10, 2) or not isinstance(value, (list, dict, str))
    if isinstance(value, list):
        assert shown == value[: len(shown)]
    if isinstance(value, dict):
        assert shown.keys() <= value.keys()


def test_small_members_stay_and_large_lists_give_way() -> None:
    value = {"values": [{"id": at, "text": "x" * 50} for at in range(100)], "total": 100, "next": "page 2"}
    shown, left_out = shortened(value, 1000)
    assert (shown["total"], shown["next"]) == (100, "page 2")
    assert 5 < len(shown["values"]) < 20
    assert [(each.path, each.shown, each.total) for each in left_out] == [("/values", len(shown["values"]), 100)]


def test_a_text_ends_with_a_line_or_a_word() -> None:
    assert head("one two three four", 15) == "one two three "
    assert head("short", 100) == "short"


def test_a_structured_value_that_breaks_its_schema_is_left_out_with_the_reason() -> None:
    wire = {**text_result(json.dumps(PULLS)), "structuredContent": PULLS}
    kept = fitted(wire, "values[].id", None, lambda value: True)
    assert kept.wire["structuredContent"] == {"result": [0, 1, 2, 3, 4, 5]}
    left = fitted(wire, "values[].id", None, lambda value: False)
    assert "structuredContent" not in left.wire
    assert "output schema" in left.without_structured


def test_images_that_do_not_fit_are_left_out_whole() -> None:
    image = {"type": "image", "data": "A" * 5000, "mimeType": "image/png"}
    wire = {"content": [{"type": "text", "text": "Here."}, image, {**image, "data": "AAAA"}]}
    made = fitted(wire, "", 1000, lambda value: True)
    assert made.wire["content"] == [{"type": "text", "text": "Here."}, {**image, "data": "AAAA"}]
    assert (made.left_out[0].shown, made.left_out[0].total) == (1, 2)


def test_fields_of_what_is_no_json_are_not_selected_and_the_result_says_why() -> None:
    made = fitted(text_result("plain words"), "a.b", None, lambda value: True)
    assert made.is_whole
    assert "no JSON" in made.problem


@pytest.mark.parametrize(
    ("part", "words"),
    [
        (ResultPart(path="values"), "JSON Pointer"),
        (ResultPart(path="/values/99"), "list of 6 items"),
        (ResultPart(start=1), "Add a path"),
        (ResultPart(path="/values", start=3, end=1), "before start"),
    ],
)
def test_a_part_that_is_not_there_is_refused_with_what_there_is(part: ResultPart, words: str) -> None:
    with pytest.raises(PartError, match=words):
        of({"content": [], "structuredContent": PULLS}, part)


def test_values_are_found_at_their_places() -> None:
    wire = {"content": [], "structuredContent": PULLS}
    assert of(wire, ResultPart(search="N4")) == [{"path": "/values/4", "value": PULLS["values"][4]}]
    assert of(wire, ResultPart(path="/values", start=4)) == PULLS["values"][4:]
