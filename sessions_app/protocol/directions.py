"""Words for people without the controls that make them read otherwise than they are. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sessions_app.protocol.json import Json

_OVERRIDES: Final = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Embeddings, overrides and isolates of direction. Marks (U+200E, U+200F) stay: Hebrew and Arabic words need them."""
_WORDS: Final = ("title", "description")
_VALUES: Final = ("_meta", "default", "const", "enum", "examples")
"""Members that hold values, not words for people."""


def plain(text: str) -> str:
    return _OVERRIDES.sub("", text)


def plain_words(definition: Mapping[str, Json]) -> dict[str, Json]:
    """Return a definition, its schemas included, with titles and descriptions free of direction controls."""
    return {name: _plain(name, value) for name, value in definition.items()}


def _plain(name: str, value: Json) -> Json:
    if isinstance(value, str):
        return plain(value) if name in _WORDS else value
    if name in _VALUES:
        return value
    if isinstance(value, dict):
        return plain_words(value)
    if isinstance(value, list):
        return [_plain("", each) for each in value]
    return value
