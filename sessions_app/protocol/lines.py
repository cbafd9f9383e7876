"""One JSON-RPC message per line (MCP, stdio): an incremental reader with a bound, and the readable parts of a bad
line.

No I/O: chunks in, lines out, wherever the chunks are cut.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from sessions_app.protocol.json import LARGEST_INTEGER, SMALLEST_INTEGER

_BLANK = b" \t\r"
_MARKS = {marks: re.compile(rf"[ \t\r\n]*[{marks}][ \t\r\n]*") for marks in ("{", ":", ",}")}
_NO_TEXT = re.compile("[\ud800-\udfff]")
_VALUE = json.JSONDecoder()
_HEAD_BYTES = 65_536
"""Length of an oversized line that is kept to find its ID."""


@dataclass(frozen=True, slots=True)
class TooLong:
    """A line that outgrew the bound. It was skipped up to its end; `head` is how it began."""

    head: bytes


class LineReader:
    """Turn chunks into lines without their newline. Blank lines are left out, as JSON knows no empty text."""

    def __init__(self, max_line_bytes: int) -> None:
        self._limit = max_line_bytes
        self._pieces: list[bytes] = []
        self._size = 0
        self._skipping = False

    def feed(self, chunk: bytes) -> list[bytes | TooLong]:
        """Return the lines completed by this chunk; an oversized one is reported at once."""
        found: list[bytes | TooLong] = []
        *whole, rest = chunk.split(b"\n")
        for piece in whole:
            self._grow(piece, found)
            self._end(found)
        self._grow(rest, found)
        return found

    def end(self) -> list[bytes | TooLong]:
        """Return the last line, which needs no newline."""
        found: list[bytes | TooLong] = []
        self._end(found)
        return found

    def _grow(self, piece: bytes, found: list[bytes | TooLong]) -> None:
        if self._skipping or not piece:
            return
        self._size += len(piece)
        self._pieces.append(piece)
        if self._size > self._limit:
            found.append(TooLong(b"".join(self._pieces)[:_HEAD_BYTES]))
            self._skipping = True
            self._pieces.clear()

    def _end(self, found: list[bytes | TooLong]) -> None:
        line = b"".join(self._pieces)
        if line.strip(_BLANK):
            found.append(line)
        self._pieces.clear()
        self._size = 0
        self._skipping = False


def glimpse_id(text: bytes) -> str | int | None:
    """Return the ID of a request that cannot be read as a whole, if ID and method precede the error.

    On a pipe an error without an id answers nobody: the client would wait for its request to the end. Without a
    method it may be an answer, with an ID of the other side's counting.
    """
    words = text[:_HEAD_BYTES].decode("utf-8", "surrogateescape")
    seen: dict[str, object] = {}
    try:
        place = _after(words, 0, "{")
        while not {"id", "method"} <= seen.keys():
            name, place = _VALUE.raw_decode(words, place)
            if not isinstance(name, str):
                return None
            seen[name], place = _VALUE.raw_decode(words, _after(words, place, ":"))
            place = _after(words, place, ",}")
    except (ValueError, RecursionError):
        if not {"id", "method"} <= seen.keys():
            return None
    return _as_id(seen["id"])


def _after(words: str, place: int, marks: str) -> int:
    """Return the place behind one of `marks`; raise ValueError where none is next."""
    match = _MARKS[marks].match(words, place)
    if match is None:
        raise ValueError(marks)
    return match.end()


def _as_id(value: object) -> str | int | None:
    if isinstance(value, str):
        return None if _NO_TEXT.search(value) else value
    if isinstance(value, int) and not isinstance(value, bool) and SMALLEST_INTEGER <= value <= LARGEST_INTEGER:
        return value
    return None
