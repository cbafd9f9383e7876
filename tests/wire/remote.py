"""A connection over HTTP+SSE."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx2

from tests.servers import until
from tests.wire.speech import Speaker


class Connection:
    """An open `/mcp/events`. Each event is its name, its id and its data."""

    def __init__(self, speaker: Speaker, answer: httpx2.Response) -> None:
        self._speaker = speaker
        self._lines = answer.iter_lines()
        self.answer = answer
        self.id = ""
        self._number = 0
        kind, number, ready = self.hear()
        assert (kind, number) == ("ready", 1)
        self.ready = ready
        self.id = ready["connectionId"]

    def hear(self, *, beats: bool = False) -> tuple[str, int, Any]:
        """The next event; heartbeats are skipped unless asked for, and counted like the others."""
        found: dict[str, str] = {}
        for line in self._lines:
            if line == "" and "data" in found:
                data = json.loads(found["data"])
                assert data["connectionId"] == (self.id or data["connectionId"])
                assert isinstance(data["sentAt"], int)
                assert "requestId" in data
                self._number += 1
                assert int(found["id"]) == self._number
                if found["event"] != "heartbeat" or beats:
                    return found["event"], int(found["id"]), data
                found = {}
            elif line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value
        raise AssertionError("The stream ended.")

    def ended(self) -> bool:
        return all(not line or line.startswith((":", "event: heartbeat", "id:", "data:")) for line in self._lines)

    def post(self, message: Any, speaker: Speaker | None = None) -> httpx2.Response:
        return (speaker or self._speaker).post({"connectionId": self.id, "message": message}, "/mcp/messages")

    def ask(self, message: Any) -> tuple[str, int, Any]:
        accepted = self.post(message)
        assert accepted.status_code == 202, accepted.text
        assert accepted.json() == {"status": "accepted", "connectionId": self.id, "requestId": message["id"]}
        return self.hear()


@contextlib.contextmanager
def connect(speaker: Speaker) -> Iterator[Connection]:
    """Open a stream. The place of one that was just closed is free a moment later."""
    headers = speaker.headers(accept="text/event-stream", content_type=None)
    with contextlib.ExitStack() as stack:

        def opened() -> httpx2.Response | None:
            answer = stack.enter_context(speaker.http.stream("GET", "/mcp/events", headers=headers))
            if answer.status_code != 503:
                return answer
            answer.close()
            return None

        answer = until(opened)
        assert answer is not None
        assert answer.status_code == 200, answer.read()
        connection = Connection(speaker, answer)  # named: when nobody holds its lines, the stream is closed
        yield connection
