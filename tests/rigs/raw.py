"""HTTP by hand over one kept connection: sends what no client library would, and reads whatever comes back."""

from __future__ import annotations

import contextlib
import socket
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from sessions_app.protocol import sse
from tests.rigs.mutating import Call
from tests.waiting import PATIENCE_SECONDS


class Broken(Exception):
    """No whole answer came."""


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes = b""
    events: list[bytes] = field(default_factory=list)
    """The data of each event, where the answer was a stream; read until its first result, error or acknowledgement."""

    @property
    def is_stream(self) -> bool:
        return self.headers.get("content-type", "").startswith("text/event-stream")


class Connection:
    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._address = (parts.hostname or "", parts.port or 80)
        self._socket: socket.socket | None = None
        self._file: Any = None

    def close(self) -> None:
        if self._socket is not None:
            self._file.close()
            self._socket.close()
            self._socket = None

    def ask(self, call: Call) -> Answer:
        """Send a request and read its answer; a kept connection that the server closed is opened again."""
        fresh = self._socket is None
        try:
            return self._once(call)
        except (Broken, OSError):
            self.close()
            if fresh:
                raise
            return self._once(call)

    def _once(self, call: Call) -> Answer:
        if self._socket is None:
            self._socket = socket.create_connection(self._address, timeout=PATIENCE_SECONDS)
            self._file = self._socket.makefile("rb")
        lines = [b"%b: %b" % each for each in call.headers if each[0] != b"content-length"]
        lines.append(b"content-length: %d" % len(call.body))
        head = b"\r\n".join([f"{call.method} {call.path} HTTP/1.1".encode(), *lines, b"", b""])
        with contextlib.suppress(OSError):  # a refusal may come before the body was taken
            self._socket.sendall(head + call.body)
        answer = self._head()
        if answer.is_stream:
            self._stream(call, answer)
            self.close()
        elif call.method == "HEAD" or (answer.status in (202, 204, 304) and "content-length" not in answer.headers):
            pass
        else:
            length = int(answer.headers.get("content-length", -1))
            answer.body = self._file.read(length) if length >= 0 else b"".join(self._chunks(answer))
            if length > len(answer.body):
                raise Broken("The body ended early.")
        if answer.headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def _head(self) -> Answer:
        first = self._file.readline()
        if not first.startswith(b"HTTP/1.1 "):
            raise Broken(f"No answer but {first[:80]!r}.")
        headers = {}
        while (line := self._file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            headers[name.decode("latin-1").lower()] = value.strip().decode("latin-1")
        return Answer(int(first.split()[1]), headers)

    def _chunks(self, answer: Answer) -> Any:
        if answer.headers.get("transfer-encoding") != "chunked":
            yield self._file.read()
            return
        while size := int(self._file.readline().split(b";")[0] or b"0", 16):
            yield self._file.read(size)
            self._file.readline()
        self._file.readline()

    def _stream(self, call: Call, answer: Answer) -> None:
        if call.method != "POST":
            return  # it stays open until somebody goes: the caller does
        decoder = sse.Decoder()
        for chunk in self._chunks(answer):
            for event in decoder.feed(chunk):
                if not event.data:
                    continue  # tells an id to come back with, and nothing else
                answer.events.append(event.data.encode())
                if '"result"' in event.data or '"error"' in event.data or "acknowledged" in event.data:
                    return
