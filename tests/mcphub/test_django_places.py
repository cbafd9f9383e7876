"""How many requests Django answers at once, and whose."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcphub.process.django_places import DjangoPlaces
from tests.waiting import PATIENCE_SECONDS


class Django:
    """An application that answers when it is told to."""

    def __init__(self, content_type: bytes = b"text/html") -> None:
        self.release = asyncio.Event()
        self.at_work: list[str] = []
        self._content_type = content_type

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.at_work.append(scope["client"][0])
        headers = [(b"content-type", self._content_type)]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.release.wait()
        await send({"type": "http.response.body", "body": b""})
        self.at_work.remove(scope["client"][0])


class Answer:
    def __init__(self, places: DjangoPlaces, path: str, address: str, method: str = "GET") -> None:
        self.messages: list[Any] = []
        scope = {"type": "http", "path": path, "method": method, "headers": [], "client": (address, 1)}
        self.task = asyncio.create_task(places(scope, None, self._send))

    async def _send(self, message: Any) -> None:
        self.messages.append(message)

    @property
    def status(self) -> int:
        return int(self.messages[0]["status"])

    @property
    def headers(self) -> dict[bytes, bytes]:
        return dict(self.messages[0]["headers"])


def run(scenario: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            await scenario()

    asyncio.run(bounded())


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize(
    ("path", "method"),
    [
        ("/api/invocations/", "GET"),
        ("/api/invocations/facets", "GET"),
        ("/api/audit/export/", "GET"),
        ("/admin/", "GET"),
        ("/admin/invocations/mcptoolinvocation/", "GET"),
        ("/admin/invocations/mcptoolinvocation/export/", "POST"),
        ("/admin/sessions_app/apikey/1/calls/", "GET"),
    ],
)
def test_a_caller_who_asks_costly_questions_leaves_a_place_to_others_and_all_pages(path: str, method: str) -> None:
    async def scenario() -> None:
        django = Django()
        places = DjangoPlaces(django)
        greedy = [Answer(places, path, "10.0.0.1", method) for _ in range(8)]
        await settle()
        assert django.at_work == ["10.0.0.1"] * 3
        others = [Answer(places, path, "10.0.0.2", method), Answer(places, "/admin/login/", "10.0.0.1")]
        await settle()
        assert django.at_work == ["10.0.0.1"] * 3 + ["10.0.0.2", "10.0.0.1"]
        django.release.set()
        await asyncio.gather(*(answer.task for answer in [*greedy, *others]))
        assert {answer.status for answer in greedy} == {200}

    run(scenario)


def test_pages_are_bounded_too_and_callers_of_one_network_are_one() -> None:
    async def scenario() -> None:
        django = Django()
        places = DjangoPlaces(django, pages=(4, 10))
        for number in range(5):
            Answer(places, "/api/tasks/", f"2001:db8::{number}")
        await settle()
        assert len(django.at_work) == 3
        Answer(places, "/api/invocations/1/replay", "10.0.0.1", "POST")
        await settle()
        assert len(django.at_work) == 4
        django.release.set()

    run(scenario)


@pytest.mark.parametrize("patience", [0.01, 60])
def test_who_finds_no_place_is_told_when_to_come_back(patience: float) -> None:
    async def scenario() -> None:
        django = Django()
        waiting = 5 if patience < 1 else 0
        places = DjangoPlaces(django, questions=(1, waiting), patience_seconds=patience)
        held = Answer(places, "/api/invocations/", "10.0.0.1")
        await settle()
        program, person = Answer(places, "/api/invocations/", "10.0.0.1"), Answer(places, "/admin/", "10.0.0.1")
        await asyncio.gather(program.task, person.task)
        for refused in (program, person):
            assert (refused.status, refused.headers[b"retry-after"]) == (429, b"5")
            assert {b"x-request-id", b"content-security-policy"} <= refused.headers.keys()
        error = json.loads(program.messages[1]["body"])["error"]
        assert (error["code"], error["retryable"]) == ("rate_limited", True)
        assert b"busy with other pages" in person.messages[1]["body"]
        django.release.set()
        await held.task
        assert held.status == 200
        last = Answer(places, "/api/invocations/", "10.0.0.1")
        await last.task
        assert last.status == 200

    run(scenario)


def test_a_live_stream_gives_its_place_back_when_it_begins() -> None:
    async def scenario() -> None:
        django = Django(b"text/event-stream")
        places = DjangoPlaces(django, questions=(1, 0))
        streams = []
        for _ in range(5):
            streams.append(Answer(places, "/api/invocations/stream", "10.0.0.1"))
            await settle()
        assert len(django.at_work) == 5
        django.release.set()
        await asyncio.gather(*(stream.task for stream in streams))
        again = Answer(places, "/api/invocations/stream", "10.0.0.1")
        await again.task
        assert again.status == 200

    run(scenario)
