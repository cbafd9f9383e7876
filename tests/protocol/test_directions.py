"""Titles and descriptions read as they are written."""

from __future__ import annotations

from sessions_app.protocol.directions import plain_words


def test_words_for_people_have_no_overrides_of_direction() -> None:
    definition = {
        "name": "a",
        "title": "safe \u202eelif",
        "annotations": {"title": "\u2066x\u2069"},
        "inputSchema": {"properties": {"title": {"type": "string", "description": "\u202dname"}}},
        "arguments": [{"name": "n", "description": "\u202bone"}],
    }
    assert plain_words(definition) == {
        "name": "a",
        "title": "safe elif",
        "annotations": {"title": "x"},
        "inputSchema": {"properties": {"title": {"type": "string", "description": "name"}}},
        "arguments": [{"name": "n", "description": "one"}],
    }


def test_values_and_marks_of_direction_stay() -> None:
    kept = {"_meta": {"title": "\u202e"}, "default": {"title": "\u202e"}, "enum": ["\u202e"], "title": "\u05d0\u200f!"}
    assert plain_words(kept) == kept
