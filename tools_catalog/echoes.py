"""Detection of a secret in the answer of its recipient, in common encodings. Pure.

Searched forms: the text itself, reversed, base64 at any alignment (also of the URL alphabet), percent-encoding,
hexadecimal digits, escapes of JSON (also of JSON within JSON) and of HTML. An API controlled by a tool's editor can
hide it better; the origins of the secret limit the APIs that receive it at all.
"""

from __future__ import annotations

import html
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Final
from urllib.parse import quote, quote_plus

SHORTEST: Final = 6
"""A shorter secret, or form of one, stands in ordinary words."""
INSTEAD: Final = "[secret]"
_KEPT: Final = 64
"""Number of secrets with cached forms."""


@lru_cache(maxsize=_KEPT)
def forms(secret: str) -> tuple[str, ...]:
    """Return each way to write the secret, longest first; none of a short one."""
    if len(secret) < SHORTEST:
        return ()
    found = {form for form in _forms(secret) if len(form) >= SHORTEST}
    return tuple(sorted(found - {INSTEAD}, key=lambda form: (-len(form), form)))


@lru_cache(maxsize=_KEPT)
def forms_in_json(secret: str) -> tuple[str, ...]:
    """Return the same as each stands within a text of JSON."""
    found = {written for form in forms(secret) for written in (_in_json(form, False), _in_json(form, True))}
    return tuple(sorted(found, key=lambda form: (-len(form), form)))


@lru_cache(maxsize=_KEPT)
def _forms_in_bytes(secret: str) -> tuple[bytes, ...]:
    return tuple(form.encode("utf-8", "replace") for form in forms(secret))


def without(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        for form in forms(secret):
            if form in text:
                text = text.replace(form, INSTEAD)
    return text


def without_bytes(body: bytes, secrets: Iterable[str]) -> bytes:
    for secret in secrets:
        for form in _forms_in_bytes(secret):
            if form in body:
                body = body.replace(form, INSTEAD.encode())
    return body


def _forms(secret: str) -> Iterator[str]:
    raw = secret.encode("utf-8", "surrogatepass")
    yield from (secret, secret[::-1], html.escape(secret), raw.hex(), raw.hex().upper())
    escaped = {_in_json(secret, is_ascii) for is_ascii in (False, True)}
    escaped |= {text.replace("/", "\\/") for text in escaped}
    yield from escaped
    yield from {_in_json(text, False) for text in escaped}
    for code in ("\\u{:04x}", "\\u{:04X}"):
        yield "".join(code.format(ord(char)) for char in secret if ord(char) < 0x10000)
    every = "".join(f"%{byte:02X}" for byte in raw)
    for percent in (quote(raw, safe=""), quote(raw, safe="/"), quote_plus(raw), every):
        yield percent
        yield _small_percent(percent)
    yield from _base64(raw)


def _base64(raw: bytes) -> Iterator[str]:
    """Return the alignment-independent part of its base64."""
    for before in range(3):
        whole = b64encode(bytes(before) + raw).decode("ascii").rstrip("=")
        rest = (before + len(raw)) % 3
        # A character at either end holds bits of the neighbours too.
        core = whole[(0, 2, 3)[before] : len(whole) - 1 if rest else len(whole)]
        yield core
        yield core.replace("+", "-").replace("/", "_")


def _small_percent(text: str) -> str:
    pieces = text.split("%")
    return "%".join([pieces[0], *(piece[:2].lower() + piece[2:] for piece in pieces[1:])])


def _in_json(text: str, is_ascii: bool) -> str:
    return json.dumps(text, ensure_ascii=is_ascii)[1:-1]
