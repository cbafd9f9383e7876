"""Pure parts of the pages: text made visible, differences, and forms made from schemas."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.http import QueryDict
from django.utils import timezone
from django.utils.html import escape
from hypothesis import given
from hypothesis import strategies as st

from mcphub.console.tryit_form import form_for
from sessions_app.kit.admin.difference import difference
from sessions_app.kit.shown import ago, breakable, clipped, json_block, pretty, span, visible


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (-5, "0 s"),
        (59.9, "59 s"),
        (60, "1 min"),
        (3599, "59 min"),
        (2 * 3600 + 300, "2 h 5 min"),
        (2 * 86400 - 1, "47 h 59 min"),
        (2 * 86400, "2 d"),
    ],
)
def test_a_span_of_time_is_told_in_the_unit_that_fits(seconds, words):
    assert span(seconds) == words


def test_how_long_ago_has_the_exact_time_for_who_points_at_it():
    then = timezone.now() - timedelta(minutes=17, seconds=5)
    shown = ago(then)
    assert ">17 min ago<" in shown
    assert f'title="{then:%Y-%m-%d %H:%M:%S} UTC"' in shown


def test_deceiving_characters_are_written_out():
    assert visible("a\u202eb\u200bc\x00d\x1be\ufefff") == "a\\u202eb\\u200bc\\u0000d\\u001be\\ufefff"
    assert visible("one\ntwo\tthree") == "one\ntwo\tthree"
    assert visible("one\ntwo", one_line=True) == "one\\ntwo"
    assert visible("\U000e0041") == "\\U000e0041"
    assert visible("Привет, мир ✓ 日本語") == "Привет, мир ✓ 日本語"
    assert visible("\ud800") == "\\ud800"


def test_long_text_is_clipped_and_json_is_escaped():
    assert clipped("x" * 10, 5) == "xxxx…"
    assert pretty({"b": 1, "a": "é"}) == '{\n  "b": 1,\n  "a": "é"\n}'
    assert "<script>" not in json_block({"a": "<script>"})


def test_long_names_go_on_in_the_next_line_behind_a_mark_and_short_ones_stay_whole():
    assert breakable("upstream_unavailable v1.2") == "upstream_<wbr>unavailable v1.2"
    assert breakable("https://hub.example/a-b") == "https://<wbr>hub.<wbr>example/<wbr>a-<wbr>b"
    assert breakable("rate_limited") == "rate_limited"
    assert breakable("a" * 40 + "_") == "a" * 40 + "_"


@given(st.text(st.sampled_from("a_&<>\"'/.\u200b\u202e\n x-"), max_size=60))
def test_breaks_change_nothing_else(text):
    assert breakable(text).replace("<wbr>", "") == escape(visible(text, one_line=True))


def test_difference_pairs_lines_and_leaves_equal_ones_out():
    left = {"name": "a", "schema": {"properties": {str(number): number for number in range(30)}}}
    right = {"name": "a", "schema": {"properties": {str(number): number or 7 for number in range(30)}}}
    (changed,) = difference(left, right)
    assert changed.field == "schema"
    pairs = [(row.left.strip(), row.right.strip()) for row in changed.rows if row.kind == "changed"]
    assert pairs == [('"0": 0,', '"0": 7,')]
    assert sum(row.hidden for row in changed.rows) > 20


def test_difference_sees_a_changed_order_and_a_missing_field():
    assert [found.field for found in difference({"a": {"x": 1, "y": 2}}, {"a": {"y": 2, "x": 1}})] == ["a"]
    assert [found.field for found in difference({}, {"a": "\u202e"})] == ["a"]
    assert difference({"a": 1}, {"a": 1}) == []


SCHEMA = {
    "type": "object",
    "properties": {
        "text": {"type": "string", "description": "What to say <b>"},
        "count": {"type": "integer", "default": 2, "minimum": 1},
        "ratio": {"type": "number"},
        "loud": {"type": "boolean"},
        "unit": {"enum": ["C", "F", 3, None]},
        "tags": {"type": "array"},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "kind": {"$ref": "#/$defs/Kind"},
    },
    "required": ["text", "tags"],
    "$defs": {"Kind": {"enum": ["a", "b"]}},
}


def sent(**values):
    data = QueryDict(mutable=True)
    for name, value in values.items():
        data[f"argument_{list(SCHEMA['properties']).index(name)}"] = value
    return form_for(SCHEMA, data)


def test_form_gives_json_values_of_the_right_kind():
    form = sent(
        text="hi", count="3", ratio="1e-7", loud="false", unit="3", tags='["x", {"y": 1}]', maybe="5", kind='"b"'
    )
    assert form.is_valid(), form.errors
    assert form.arguments() == {
        "text": "hi",
        "count": 3,
        "ratio": 1e-7,
        "loud": False,
        "unit": 3,
        "tags": ["x", {"y": 1}],
        "maybe": 5,
        "kind": "b",
    }


def test_form_leaves_out_what_was_left_empty():
    form = sent(text="", tags="[]", count="", loud="", unit="")
    assert form.is_valid(), form.errors
    assert form.arguments() == {"text": "", "tags": []}


def test_form_tells_what_cannot_be_sent():
    form = sent(text="x", tags="[", count="three")
    assert not form.is_valid()
    assert set(form.errors) == {"argument_1", "argument_5"}
    assert "line" in str(form.errors["argument_5"])


def test_form_shows_defaults_and_escapes_descriptions():
    page = str(form_for(SCHEMA).as_p())
    assert 'value="2"' in page
    assert "minimum: 1" in page


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"type": "object", "oneOf": [{}]},
    ],
)
def test_form_takes_further_arguments_where_the_schema_admits_them(schema):
    form = form_for(schema, QueryDict("rest=%7B%22a%22%3A%201%7D"))
    assert form.is_valid(), form.errors
    assert form.arguments() == {"a": 1}
    assert not form_for(schema, QueryDict("rest=%5B1%5D")).is_valid()


def test_form_without_arguments_sends_an_empty_object():
    form = form_for({"type": "object", "additionalProperties": False}, QueryDict("x=1"))
    assert form.is_valid()
    assert form.arguments() == {}


def test_no_schema_breaks_the_form():
    odd = {
        "": True,
        "a b": False,
        "c": {"enum": []},
        "d": {"type": ["string", "integer"]},
        "e": {"$ref": "#/nowhere"},
        "f": {"$ref": "https://example.org"},
        "g": {"title": 5, "default": {"x": 1}},
    }
    assert form_for({"type": "object", "properties": odd}).as_p()
