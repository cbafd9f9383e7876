"""A watched test shows what its program does while it does it, and ends when nobody watches."""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from mcphub.commands.connection_trial import TrialLines
from sessions_app.protocol.errors import ServerBusy
from tests.factories import LaunchProfileFactory, McpConnectionFactory
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.discovery import watching
from tools_catalog.discovery.watching import TrialState
from tools_catalog.upstream import probe
from tools_catalog.upstream.spec import ConnectionSpec, LaunchSpec

SMALL = Path(__file__).parents[1] / "upstreams" / "peers" / "small.py"
SLOW = """
import os, sys
open(os.path.join(os.environ["HOME"], "package"), "wb").write(b"0" * 3_000_000)
print("downloading the package", file=sys.stderr, flush=True)
open(sys.argv[1]).close()  # until somebody opens the other end
print("it goes on", file=sys.stderr, flush=True)
os.execv(sys.executable, [sys.executable, sys.argv[2], "slow"])
"""


def slow(tmp_path: Path, **more: float) -> tuple[ConnectionSpec, Path]:
    """A program that answers once its pipe is opened."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    launch = LaunchSpec(
        name="slow",
        command=sys.executable,
        arguments=("-c", SLOW, str(gate), str(SMALL)),
        folder=str(tmp_path / "children"),
        readable=(str(tmp_path), str(SMALL.parent)),
    )
    return ConnectionSpec(id=1, slug="slow", transport="stdio", launch=launch, **more), gate


async def watched(spec: ConnectionSpec, until_seen: Callable[[TrialState], bool]) -> list[TrialState]:
    """Watch a test to its end, or until this is true of what is seen."""
    seen: list[TrialState] = []
    async with contextlib.aclosing(watching.watch(spec, look_seconds=0.01)) as sights:
        async for sight in sights:
            seen.append(sight)
            if until_seen(sight):
                break
    return seen


@pytest.mark.program
def test_stderr_seconds_and_what_is_loaded_are_seen_before_the_program_answers(tmp_path: Path) -> None:
    spec, gate = slow(tmp_path, connect_seconds=PATIENCE_SECONDS)
    before: list[TrialState] = []

    def let_go(sight: TrialState) -> bool:
        if not before and sight.loaded_bytes >= 3_000_000 and "downloading the package" in sight.stderr:
            before.append(sight)
            gate.open("w").close()
        return False

    seen = asyncio.run(watched(spec, let_go))
    assert (before[0].is_done, before[0].stage, before[0].steps) == (False, probe.CONNECT, ())
    assert [(step.kind, step.is_good) for step in seen[-1].steps] == [(probe.CONNECT, True), (probe.LIST, True)]
    assert [sight.is_done for sight in seen] == [False] * (len(seen) - 1) + [True]
    assert (seen[0].seconds, seen[0].stderr) == (0, "")
    assert "it goes on" in seen[-1].stderr
    watching.check_room()


@pytest.mark.program
def test_a_program_ends_when_nobody_watches_its_test_any_longer(tmp_path: Path) -> None:
    spec, gate = slow(tmp_path, connect_seconds=PATIENCE_SECONDS)
    asyncio.run(watched(spec, lambda sight: "downloading" in sight.stderr))
    # The child waits at the pipe's other end for as long as it lives.
    with pytest.raises(OSError, match="No such device"):
        os.open(gate, os.O_WRONLY | os.O_NONBLOCK)


def test_a_process_runs_so_many_tests_at_once() -> None:
    spec = ConnectionSpec(id=1, slug="far", transport="streamable-http", url="http://127.0.0.1:1/mcp")

    async def fill() -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(watching.MOST_TESTS):
                watching.check_room()
                await anext(await stack.enter_async_context(contextlib.aclosing(watching.watch(spec))))
            with pytest.raises(ServerBusy, match="20 tests already"):
                watching.check_room()

    asyncio.run(fill())
    watching.check_room()


def test_a_first_start_may_take_four_times_as_long(tmp_path: Path) -> None:
    spec, _gate = slow(tmp_path, connect_seconds=30.0)
    assert (spec.begins_within, spec.as_first().begins_within) == (30, 120)
    assert spec.as_first() == spec  # so what is under way goes on when the first start is over
    far = ConnectionSpec(id=1, slug="far", transport="streamable-http", url="https://x.example", connect_seconds=30)
    assert far.as_first().begins_within == 30


@pytest.mark.django_db
def test_a_program_that_has_listed_its_tools_starts_within_its_timeout() -> None:
    row = McpConnectionFactory(transport="stdio", url="", profile=LaunchProfileFactory(), connect_seconds=20)
    assert row.spec().begins_within == 80
    row.discovered_at = row.created_at
    assert row.spec().begins_within == 20


def test_a_terminal_gets_new_lines_at_once_and_a_word_every_five_seconds() -> None:
    to = io.StringIO()
    tell = TrialLines(to)
    tell("one", TrialState(seconds=1, stage="connect", stderr="fetching\nhalf a li"))
    tell("one", TrialState(seconds=2, stage="connect", stderr="fetching\nhalf a line\n"))
    tell("one", TrialState(seconds=4, stage="connect", stderr="fetching\nhalf a line\n", loaded_bytes=2_500_000))
    tell("one", TrialState(seconds=6, stage="connect", stderr="fetching\nhalf a line\n", loaded_bytes=2_500_000))
    tell("one", TrialState(seconds=8, stage="list", stderr="fetching\nhalf a line\n\x1b[31mlast", is_done=True))
    assert to.getvalue().splitlines() == [
        "one: 1 s: fetching",
        "one: 2 s: half a line",
        "one: 6 s: waiting (connect, 2.5 MB in its folder)",
        "one: 8 s: \\u001b[31mlast",
    ]
