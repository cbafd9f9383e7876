"""Streams that stand for long: what tells that they live, and whose the places of the remote profile are."""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.conftest import TOOLBOX
from tests.wire.remote import Connection, connect
from tests.wire.speech import Speaker, hello, request
from tests.wire.workers import ENOUGH, anew

INTERVAL_MS = 1500
"""After three without a sign of life a place is free, so a stall of the machine must be shorter."""
BEATS = 6
PLACES = 3
FLAGS = ["--heartbeat-interval-ms", str(INTERVAL_MS), "--max-clients", str(PLACES)]
LONGEST = PATIENCE_SECONDS
"""Seconds: in them far more signs of life are due than a test waits for, however fast the answers come."""

PLACE = "sessions_app.RemoteConnection"


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub whose signs of life come often."""
    environment = {"MCPHUB_APPS": "tests.toolbox"}
    with Hub(tmp_path_factory.mktemp("quick"), flags=FLAGS, environment=environment, **TOOLBOX) as running:
        yield running


@pytest.fixture
def speaker(quick: Hub) -> Iterator[Speaker]:
    with Speaker(quick.url, quick.key) as made:
        yield made


def numbers() -> Iterator[int]:
    """Count requests until the time is over."""
    until_then = time.monotonic() + LONGEST
    return itertools.takewhile(lambda _: time.monotonic() < until_then, itertools.count())


def works(line: Connection, beats: int) -> list[int]:
    """Let a client ask without a pause; give when so many beats were sent, in ms."""
    sent: list[int] = []
    for number in numbers():
        assert line.post(request("tools/list", {}, number)).status_code == 202
        kind = ""
        while kind != "message":
            kind, _, data = line.hear(beats=True)
            sent += [data["sentAt"]] if kind == "heartbeat" else []
        if len(sent) >= beats:
            return sent
    raise AssertionError(f"{len(sent)} beats came in {LONGEST} s.")


def at_the_interval(sent: list[int]) -> bool:
    """One that is late, on a busy machine, is no reason for the next to be: as many come as are due."""
    pauses = [(later - sooner) / INTERVAL_MS for sooner, later in pairwise(sent)]
    return sum(pauses) / len(pauses) > 0.7 and min(pauses) < 1.3


def test_a_silent_stream_hears_a_beat_at_each_interval(speaker: Speaker) -> None:
    with connect(speaker) as line:
        heard = [line.hear(beats=True) for _ in range(BEATS)]
    assert line.ready["heartbeatIntervalMs"] == INTERVAL_MS
    assert [(kind, number) for kind, number, _ in heard] == [("heartbeat", number) for number in range(2, BEATS + 2)]
    assert at_the_interval([line.ready["sentAt"], *(data["sentAt"] for _, _, data in heard)])


def test_comments_come_beside_answers_on_an_event_stream(speaker: Speaker) -> None:
    with speaker.http.stream("GET", "/sse", headers=speaker.headers(content_type=None)) as answer:
        lines = answer.iter_lines()
        path = next(line for line in lines if line.startswith("data: ")).removeprefix("data: ")
        comments = 0
        for number in numbers():
            body = hello(id=number) if number == 0 else request("ping", id=number)
            assert speaker.post(body, path).status_code == 202
            for line in lines:
                comments += line.startswith(":")
                if line.startswith("data: "):
                    break
            if comments >= 4:
                return
    raise AssertionError(f"{comments} comments came in {LONGEST} s.")


def test_a_busy_client_hears_a_beat_at_each_interval_and_keeps_its_place(speaker: Speaker) -> None:
    with connect(speaker) as busy:
        assert at_the_interval([busy.ready["sentAt"], *works(busy, beats=BEATS)])
        with connect(speaker), connect(speaker):
            full = speaker.http.get("/mcp/events", headers=speaker.headers(content_type=None))
            assert (full.status_code, full.json()["code"]) == (503, "server_busy")
            assert busy.ask(request("tools/list", {}, "still"))[0] == "message"


def test_a_request_for_a_stream_that_is_gone_is_not_found_rather_than_busy(speaker: Speaker, quick: Hub) -> None:
    with connect(speaker) as line:
        quick.operate(operations.delete, PLACE, pk=line.id)
        until(lambda: line.post(request("tools/list", {}, 1)).status_code in (404, 202))
        beats = [line.hear(beats=True)[0] for _ in range(3)]
        assert "heartbeat" in beats  # and the stream itself takes its place again
        until(lambda: line.post(request("tools/list", {}, 2)).status_code == 202)


@pytest.mark.rig
def test_of_two_workers_each_keeps_its_clients_and_a_killed_one_frees_its_places(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(postgres_database())
        environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_DATABASE_URL": address}
        # The silent one asks nothing until all others came and went.
        flags = [*FLAGS, "--workers", "2", "--request-timeout-ms", str(1000 * 3600)]
        pair = stack.enter_context(Hub(tmp_path, flags=flags, environment=environment, **TOOLBOX))
        one = stack.enter_context(Speaker(pair.url, pair.key))
        two = stack.enter_context(anew(one))
        busy, silent = stack.enter_context(connect(one)), stack.enter_context(connect(two))
        works(busy, beats=BEATS)
        for _ in range(ENOUGH):  # whichever worker is asked
            with anew(one) as other, connect(other) as line, anew(one) as late:
                full = late.http.get("/mcp/events", headers=one.headers(content_type=None))
                assert (full.status_code, full.json()["code"]) == (503, "server_busy")
                assert line.ask(request("tools/list", {}, 1))[0] == "message"
            until(lambda: pair.operate(operations.count, PLACE) == 2)
        assert busy.ask(request("tools/list", {}, "still"))[0] == "message"
        assert silent.ask(request("tools/list", {}, "still"))[0] == "message"
        [process] = pair.operate(operations.values, PLACE, "process_id", pk=silent.id)
        [pid] = pair.operate(operations.values, "sessions_app.ServerProcess", "pid", pk=process)
        os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(httpx2.HTTPError, AssertionError):
            while silent.hear():
                pass
        until(lambda: not Path(f"/proc/{pid}").exists())  # its streams end before it is gone
        with anew(one) as other, connect(other) as line:
            assert line.ask(request("tools/list", {}, 1))[0] == "message"
        assert process not in pair.operate(operations.values, PLACE, "process_id")
