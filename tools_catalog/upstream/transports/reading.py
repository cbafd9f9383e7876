"""Reads what servers send as JSON-RPC, in the shapes in which published servers send it. Pure.

One reader for all transports: a byte order mark is left out, half a surrogate pair becomes U+FFFD, several messages may
stand in one array, and an id matches the request's as a number or as a text. An unreadable one raises
`UnreadableMessage`, with the id of the request that it answers, if known.
"""

from __future__ import annotations

import re
from typing import Final

from sessions_app.kit import decoding
from sessions_app.protocol import errors, json
from sessions_app.protocol.json import Json

Message = dict[str, Json]
"""A JSON-RPC message as it came, or as it is sent."""

DEEPEST: Final = 250
_MARK: Final = b"\xef\xbb\xbf"
_ESCAPE: Final = re.compile(
    rb"\\(?:u([dD][89abAB][0-9a-fA-F]{2})(\\u[dD][c-fC-F][0-9a-fA-F]{2})?|(u[dD][c-fC-F])..|.)", re.S
)
_ANSWER: Final = re.compile(rb'"(?:result|error)"\s*:')
_ID: Final = re.compile(rb'"id"\s*:\s*("?)(-?\d{1,19})\1\s*[,}]')
_JSON_RPC: Final = re.compile(rb'"jsonrpc"\s*:')
_BEGINNING: Final = re.compile(rb'\{\s*"jsonrpc"\s*:')
_SHOWN_BYTES: Final = 120
_VERSIONS: Final = frozenset({"2.0", "2", 2})


class UnreadableMessage(errors.ResultInvalid):
    """What came was to be a message of JSON-RPC, and cannot be read. `answered` is the request that it names."""

    def __init__(self, why: str, raw: bytes) -> None:
        shown = raw[:_SHOWN_BYTES].decode("utf-8", "replace")
        super().__init__(f"The upstream's answer cannot be read: {why} It begins with: {shown}")
        # A text with a message within is a line of a log; what it tells of comes by itself.
        self.is_answer = raw.lstrip()[:1] in (b"{", b"[") and bool(_JSON_RPC.search(raw) and _ANSWER.search(raw))
        found = _ID.search(raw) if self.is_answer else None
        self.answered = int(found[2]) if found is not None else None


async def messages_of(raw: bytes) -> list[Message]:
    """Read one or more messages, large ones in a thread. Raises UnreadableMessage; ResultInvalid without JSON-RPC."""
    return await decoding.answers.decoded(raw, read)


def read(raw: bytes) -> list[Message]:
    """Read one or more messages. Raises UnreadableMessage; ResultInvalid for JSON that is no JSON-RPC."""
    raw = raw.removeprefix(_MARK)
    try:
        json.refuse_many(raw)
        value = _loaded(raw)
    except errors.ParseError as error:
        if (answer := _answer_within(raw)) is not None:
            return [answer]
        raise UnreadableMessage(error.reason, raw) from error
    found = value if isinstance(value, list) else [value]
    if not found or not all(map(_is_message, found)):
        raise errors.ResultInvalid(
            "The upstream answers JSON, but no JSON-RPC. Is this the address of an MCP endpoint?"
        )
    return found


def answers(message: Message, request_id: int) -> bool:
    """Return whether a message is the response to this request: many servers write each id as a text, some as a
    fraction.
    """
    return "method" not in message and number_of(message.get("id")) == request_id


def number_of(found: Json) -> int | None:
    """Return the number that an id of the hub's was, in whatever form it came back; None for no such id."""
    if isinstance(found, bool):
        return None
    if isinstance(found, int):
        return found
    if isinstance(found, float) and found.is_integer():
        return int(found)
    if isinstance(found, str) and found.isascii() and found.isdigit() and len(found) < 20:
        return int(found)
    return None


def _loaded(raw: bytes) -> Json:
    try:
        return json.loads(raw, max_depth=DEEPEST)
    except errors.ParseError:
        mended = _ESCAPE.sub(_whole, raw) if b"\\u" in raw else raw
        if mended == raw:
            raise
        return json.loads(mended, max_depth=DEEPEST)


def _answer_within(raw: bytes) -> Message | None:
    """Return the answer at the end of a line that begins with a program's own words; None where there is none."""
    found = _BEGINNING.search(raw)
    if found is None or raw.lstrip()[:1] in (b"{", b"["):
        return None
    try:
        value = _loaded(raw[found.start() :])
    except errors.ParseError:
        return None
    return value if isinstance(value, dict) and _is_message(value) and "method" not in value else None


def _whole(escape: re.Match[bytes]) -> bytes:
    """Return an escape as it is; U+FFFD for half of a pair, which is no character."""
    is_half = escape[3] is not None or (escape[1] is not None and escape[2] is None)
    return rb"\ufffd" if is_half else escape[0]


def _is_message(value: Json) -> bool:
    if not isinstance(value, dict):
        return False
    version = value.get("jsonrpc")
    if version is None:  # some leave it out of responses
        error = value.get("error")
        return value.get("id") is not None and ("result" in value or (isinstance(error, dict) and "code" in error))
    return isinstance(version, str | int | float) and version in _VERSIONS
