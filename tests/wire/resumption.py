"""Streams that are read in part, and resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx2

from tests.wire.speech import Speaker, request


@dataclass(frozen=True)
class Frame:
    id: str
    data: str
    retry: str = ""

    @property
    def message(self) -> Any:
        return json.loads(self.data)


def frames(answer: httpx2.Response) -> Iterator[Frame]:
    """The events of a stream, those without data too; comments are no events."""
    fields: dict[str, str] = {}
    for line in answer.iter_lines():
        name, _, value = line.partition(":")
        if name:
            fields[name] = value.removeprefix(" ")
        elif line == "" and fields:
            yield Frame(fields.get("id", ""), fields.get("data", ""), fields.get("retry", ""))
            fields = {}


def call_body(tool: str, arguments: Any, id: Any = None) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": "t"}}, id)


def begin(speaker: Speaker, session: str, tool: str, arguments: Any, count: int, id: Any = None) -> list[Frame]:
    """Call a tool, read so many frames, and let the connection break."""
    with speaker.streaming("POST", call_body(tool, arguments, id), mcp_session_id=session) as (answer, _):
        heard = frames(answer)
        return [next(heard) for _ in range(count)]


def resume(speaker: Speaker, session: str, event_id: str) -> Any:
    return speaker.streaming("GET", mcp_session_id=session, last_event_id=event_id, content_type=None)


def rest(speaker: Speaker, session: str, event_id: str) -> list[Frame]:
    with resume(speaker, session, event_id) as (answer, _):
        assert answer.status_code == 200, answer.read()
        return list(frames(answer))
