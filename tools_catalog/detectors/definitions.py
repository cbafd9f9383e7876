"""Inspects upstream offers: hidden characters, and phrases that address the models that read definitions."""

from __future__ import annotations

from collections.abc import Mapping

from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.detectors.scanning import GROUPS, scanner_of

MOST_CHARACTERS = 256 * 1024
"""Characters of a definition that are inspected; a larger one is reported as too large."""


def warnings(definition: Mapping[str, Json]) -> dict[str, int]:
    """Return how often which kind was found in a definition; empty where nothing was."""
    text = json.canonical(dict(definition))
    if len(text) > MOST_CHARACTERS:
        return {"bytes": 1}
    return dict(scanner_of((*GROUPS["hidden"], *GROUPS["injection"]), None, None).scan(dict(definition), text).kinds)


def sentence(found: Mapping[str, int]) -> str:
    """Return it as one line: `zero_width 2, override 1`."""
    return ", ".join(f"{kind} {count}" for kind, count in sorted(found.items()))
