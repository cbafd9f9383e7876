"""Server-sent events: frames out, an incremental decoder in (WHATWG HTML, section 9.2). No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass

MAX_EVENT_BYTES = 16 * 1024 * 1024

_LINE_END = re.compile(rb"\r\n|\n|\r")
_UNSAFE_FIELD = re.compile(r"[\r\n\0]")


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event as a client sees it; `id` is the last id of the stream so far."""

    data: str
    event: str = "message"
    id: str | None = None


class EventTooLarge(ValueError):
    """An event outgrew the limit; `events` were complete before it."""

    def __init__(self, limit_bytes: int, events: list[ServerSentEvent]) -> None:
        super().__init__(f"A server-sent event is larger than {limit_bytes} bytes.")
        self.events = events


def frame(data: bytes, *, event: str | None = None, id: str | None = None, retry_ms: int | None = None) -> bytes:
    """One event in wire form; raises `ValueError` for a line break or NUL in `event` or `id`."""
    head = b""
    if event is not None:
        head += b"event: %b\n" % _field(event)
    if id is not None:
        head += b"id: %b\n" % _field(id)
    if retry_ms is not None:
        head += b"retry: %d\n" % retry_ms
    if b"\n" in data or b"\r" in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"%bdata: %b\n\n" % (head, data)


def comment(text: str = "") -> bytes:
    """A line that parsers skip, to keep a connection alive."""
    return b"".join(b": %b\n" % line for line in _LINE_END.split(text.encode())) + b"\n"


class Decoder:
    """Turn chunks into events, wherever the chunks are cut.

    An event without a data line is not reported, following the standard, but its ID and retry time are kept in
    `last_event_id` and `retry_ms`. After `EventTooLarge` the decoder is spent and raises again.
    """

    def __init__(self, *, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self.last_event_id: str | None = None
        self.retry_ms: int | None = None
        self._max_event_bytes = max_event_bytes
        self._line: list[bytes] = []
        self._data: list[bytes] = []
        self._event = b""
        self._size = 0
        self._skip_newline = False
        self._first_line = True
        self._spent = False

    def feed(self, chunk: bytes) -> list[ServerSentEvent]:
        """The events that this chunk completes; raises `EventTooLarge`."""
        events: list[ServerSentEvent] = []
        if self._skip_newline and chunk:
            self._skip_newline = False
            if chunk.startswith(b"\n"):
                chunk = chunk[1:]
        # Nearly all write line feeds alone, and to look for one byte takes a hundredth of what the pattern takes.
        *lines, rest = chunk.split(b"\n") if chunk.find(b"\r") < 0 else _LINE_END.split(chunk)
        # A carriage return ends the line now; the line feed that may follow in the next chunk belongs to it.
        self._skip_newline = self._skip_newline or chunk.endswith(b"\r")
        for line in lines:
            self._grow(line, events)
            whole = b"".join(self._line)
            self._line.clear()
            self._take(whole, events)
        self._grow(rest, events)
        return events

    def _grow(self, piece: bytes, events: list[ServerSentEvent]) -> None:
        self._size += len(piece)
        if self._spent or self._size > self._max_event_bytes:
            self._spent = True
            raise EventTooLarge(self._max_event_bytes, events)
        if piece:
            self._line.append(piece)

    def _take(self, line: bytes, events: list[ServerSentEvent]) -> None:
        if self._first_line:
            self._first_line = False
            line = line.removeprefix(b"\xef\xbb\xbf")
        if not line:
            self._dispatch(events)
            return
        if line.startswith(b":"):
            self._size -= len(line)  # comments belong to no event
            return
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            self._data.append(value)
        elif name == b"event":
            self._event = value
        elif name == b"id" and b"\0" not in value:
            self.last_event_id = value.decode("utf-8", "replace")
        elif name == b"retry" and value.isdigit() and len(value) < 10:
            self.retry_ms = int(value)

    def _dispatch(self, events: list[ServerSentEvent]) -> None:
        if self._data:
            data = b"\n".join(self._data)
            kind = self._event.decode("utf-8", "replace") or "message"
            events.append(ServerSentEvent(data.decode("utf-8", "replace"), kind, self.last_event_id))
        self._data.clear()
        self._event = b""
        self._size = 0


def _field(value: str) -> bytes:
    if _UNSAFE_FIELD.search(value):
        raise ValueError("A field of a server-sent event holds no line break and no NUL.")
    return value.encode()
