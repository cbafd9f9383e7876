"""The common part of equal failures: their message without varying parts. Pure, without Django."""

from __future__ import annotations

import hashlib
import json
import re

LONGEST = 300
"""Characters of a normalised message."""
LOOKED_AT = 4000
_RULES = (
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", re.IGNORECASE), "<id>"),
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>]{1,2000}", re.IGNORECASE), "<address>"),
    (re.compile(r"\b[\w.+-]{1,64}@[\w-]{1,64}(?:\.[\w-]{1,64}){1,8}"), "<address>"),
    (re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"), "<time>"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,}\b", re.IGNORECASE), "<id>"),
    (re.compile(r'"[^"]{0,2000}"|“[^”]{0,2000}”|«[^»]{0,2000}»'), "<text>"),
    (re.compile(r"(?<![\w'])'[^']{0,2000}'(?!\w)"), "<text>"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "<number>"),
)


def message_of(error: str | None) -> str:
    """Return the message of an error as it is stored; empty where there is none, or retention erased it."""
    try:
        found = json.loads(error or "null")
    except ValueError:
        return ""
    message = found.get("message") if isinstance(found, dict) else None
    return message if isinstance(message, str) else ""


def normalised(message: str) -> str:
    """Return the common form of messages that differ in IDs, numbers, times, addresses and quoted texts."""
    words = " ".join(message[:LOOKED_AT].split())
    for pattern, name in _RULES:
        words = pattern.sub(name, words)
    words = words.replace("\0", "")
    return words if len(words) <= LONGEST else words[: LONGEST - 1] + "…"


def key_of(tool: str, code: str, message: str) -> str:
    """Return the digest by which a group is found."""
    return hashlib.sha256("\0".join((tool, code, message)).encode(errors="replace")).hexdigest()
