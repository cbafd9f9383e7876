"""The result of reading an API's description: candidates for tools, and omissions with reasons. Pure."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

LONGEST_NAME = 64
_LETTERS = str.maketrans({"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "þ": "th", "ı": "i", "Ø": "O"})
_LONGEST_WORDS = 4_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """One operation that can be a tool. `key` is its name in the description and stays the same."""

    key: str
    name: str
    definition: dict[str, Any]
    """Columns of a tool: title, description, input_schema, configuration, read_only, destructive, idempotent, and meta
    where there are examples of use."""
    tags: tuple[str, ...] = ()
    """Words by which the description groups its operations."""


@dataclass(slots=True)
class Found:
    """The content of a description."""

    title: str = ""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    account: dict[str, str] = field(default_factory=dict)
    """Its OAuth settings, as fields of the service."""
    candidates: list[Candidate] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Operation and why it can be no tool."""
    notes: list[str] = field(default_factory=list)


def tool_name(prefix: str, words: str, taken: set[str]) -> str:
    """Return a name of at most 64 characters that is not taken yet, and take it."""
    plain = re.sub(r"_+", "_", re.sub(r"[^A-Za-z0-9_-]", "_", folded(words))).strip("_") or "operation"
    name = prefix + plain
    digest = hashlib.sha256(words.encode("utf-8", "replace")).hexdigest()[:6]
    if len(name) > LONGEST_NAME:
        name = f"{name[: LONGEST_NAME - 7]}_{digest}"
    if name in taken:
        name = f"{name[: LONGEST_NAME - 7]}_{digest}"
    number = 2
    while name in taken:
        name = f"{name[: LONGEST_NAME - 4]}_{number}"
        number += 1
    taken.add(name)
    return name


def argument_name(words: str, place: str, taken: set[str]) -> str:
    """Return a name that every client takes: 1 to 64 of A-Z a-z 0-9 _ . -"""
    plain = re.sub(r"[^A-Za-z0-9_.-]", "_", folded(words)).strip("_")[:56] or place
    name = plain if plain not in taken else f"{plain[:48]}_{place}"
    number = 2
    while name in taken:
        name, number = f"{plain[:48]}_{number}", number + 1
    taken.add(name)
    return name


def folded(text: str) -> str:
    """Return a text with Latin letters without their marks: `Größe` is `Grosse`."""
    if text.isascii():
        return text
    text = text.translate(_LETTERS)
    return "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))


def says_enough(text: str) -> bool:
    """Return whether a name still says something in the letters of tools: half of its signs are among them."""
    plain = sum(sign.isascii() and sign.isalnum() for sign in folded(text))
    return plain > 0 and 2 * plain >= sum(sign.isalnum() for sign in text)


def is_told_by(argument: str, name: str) -> bool:
    """Return whether an argument's name tells the name that is sent, so that its description need not."""
    return name.isascii() or argument == name


def words(*texts: Any) -> str:
    """Return the first non-empty text, bounded."""
    for text in texts:
        if isinstance(text, str) and text.strip():
            return text.strip()[:_LONGEST_WORDS]
    return ""
