"""Reads what a server, or what stands before it, says when it refuses a request. Pure.

`loses_session` is the one place that knows how published servers say that they know a session no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from html import unescape
from types import MappingProxyType
from typing import Final

import orjson

from sessions_app.protocol import errors
from sessions_app.protocol.json import Json

_MOST_WORDS: Final = 300
_LONGEST_WAIT_SECONDS: Final = 3600.0
_GONE: Final = frozenset({404, 410})
"""Of a request that names a session these say that there is no such session (MCP, Session Management)."""
_TITLE: Final = re.compile(r"<title[^>]*>(.*?)</title>|<h1[^>]*>(.*?)</h1>", re.I | re.S)
_TAG: Final = re.compile(r"<[^>]*>")
_NOT_BEGUN: Final = (
    r"\b(server|client|connection|transport) (is |was )?not (yet )?initiali[sz]ed|before initiali[sz]ation"
)
_NOT_INITIALIZED: Final = -32002
_SESSION: Final = re.compile(
    r"session.{0,60}?\b(not (found|valid|active|exist|known|initiali[sz]ed)|invalid|unknown|expired|missing|gone|lost"
    r"|(does ?n[o']t|no longer) exist|stale|terminated|closed|ended|required|unrecogni[sz]ed|timed out)"
    r"|\b(no|not? a|invalid|unknown|expired|missing|bad|stale|unrecogni[sz]ed|(could|can) ?not find|couldn't find"
    r"|not found|required)\b.{0,40}?\bsession"
    r"|" + _NOT_BEGUN,
    re.I | re.S,
)
_UNSERVED: Final = MappingProxyType(
    {errors.INVALID_REQUEST: _SESSION, _NOT_INITIALIZED: re.compile(_NOT_BEGUN, re.I | re.S)}
)
"""Codes of errors that no method gives, and the words by which they mean the session."""
_MEMBERS: Final = ("message", "error_description", "detail", "title", "reason", "msg", "error", "errors", "description")
"""Where the words of an error stand in JSON, the first that is there."""


class TransportRefusal:
    """A response with a status of failure, as it was read."""

    def __init__(self, status: int, body: bytes, headers: Mapping[bytes, bytes] = {}) -> None:
        self.status = status
        self.value = _json(body)
        self.words = words_of(self.value) if self.value is not None else _text(body)
        self.retry_after_seconds = _seconds(headers.get(b"retry-after", b""))
        self.location = _text(headers.get(b"location", b""))

    def loses_session(self, request_id: int) -> bool:
        """Return whether it says that the session is not known any more, so that the request was not taken.

        An error that answers the request by its id came from behind the check of sessions, and with a status of 500 may
        be the tool's own; 404 is the specification's word, whatever stands with it, but for an unknown method.
        """
        message = self.value if isinstance(self.value, dict) else {}
        error = message.get("error")
        code = error.get("code") if isinstance(error, dict) else None
        is_own = message.get("id") == request_id
        if self.status in _GONE:
            return not (is_own and code in (errors.METHOD_NOT_FOUND, errors.INVALID_PARAMS))
        if self.status >= 500 and is_own:
            return False
        return self.names_session

    @property
    def names_session(self) -> bool:
        return _SESSION.search(self.words) is not None


def error_loses_session(code: int, words: str) -> bool:
    """Return whether the error in an answer says that the session is not known any more. One of another code may be
    the tool's own.
    """
    pattern = _UNSERVED.get(code)
    return pattern is not None and pattern.search(words) is not None


def words_of(value: Json, depth: int = 4) -> str:
    """Return the words of an error in JSON of any shape."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, list):
        return words_of(value[0], depth - 1) if value and depth else ""
    if isinstance(value, dict) and depth:
        if isinstance(value.get("error"), dict):
            return words_of(value["error"], depth - 1)
        for name in _MEMBERS:
            if words := words_of(value.get(name), depth - 1):
                return words
    return ""


def _json(body: bytes) -> Json:
    try:
        return orjson.loads(body.removeprefix(b"\xef\xbb\xbf"))
    except orjson.JSONDecodeError:
        return None


def _text(body: bytes) -> str:
    text = body[:20_000].decode("utf-8", "replace")
    if "<" not in text:
        return _clean(text)
    found = _TITLE.search(text)
    return _clean(unescape(_TAG.sub(" ", (found[1] or found[2]) if found else text)))


def _clean(text: str) -> str:
    return " ".join("".join(each if each.isprintable() else " " for each in text[:4000]).split())[:_MOST_WORDS]


def _seconds(header: bytes) -> float | None:
    """Return the seconds of a `Retry-After`, which may be a date; None where it is neither."""
    text = header.decode("latin-1").strip()
    try:
        seconds = float(text) if text[:1].isdigit() and not text[-1:].isalpha() else _until(text)
    except (ValueError, TypeError, OverflowError):
        return None
    return min(max(0.0, seconds), _LONGEST_WAIT_SECONDS)


def _until(text: str) -> float:
    when = parsedate_to_datetime(text)
    when = when if when.tzinfo is not None else when.replace(tzinfo=UTC)
    return (when - datetime.now(UTC)).total_seconds()
