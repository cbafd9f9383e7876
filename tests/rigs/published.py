"""Servers as npm and PyPI publish them, as confined children of a hub: connected, listed, approved, called.

    python -m tests.rigs.published [NAME]... [--known 12]

Each runs offline. It is called directly first, then through the hub, in a folder that is made anew in between, with the
same arguments. Printed for each: its protocol, how many tools it lists, and how many calls gave the same JSON, with the
same order of members, except what docs/integrate/upstreams.md names. Then its process is ended from
outside, and it is called again. Complaints: a server that does not connect or come back, an offer that cannot be
approved, a call that differs, and fewer than `--known` servers that are installed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2

from benchmarks.processes import tree
from tests import operations
from tests.rigs.published_table import SERVERS, Calls, Published, placed
from tests.servers import Hub, until
from tests.upstreams import direct
from tests.upstreams.conftest import Operator
from tests.wire.speech import Speaker, events

_OF_THE_HUB = re.compile("The connection (broke|ended)|closed the connection|not connected")
"""Words of a call that did not reach the program."""
OFFERS = "tools_catalog.McpUpstreamTool"
_LISTED_TWICE = "as a resource"
"""One of them lists a resource among its templates, too; see docs/integrate/upstreams.md for the one that is served."""


class Rig:
    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub = hub
        self.operator = Operator(hub)
        self.folder = folder
        self.complaints: list[str] = []

    def try_out(self, server: Published) -> None:
        """Run one server; one that breaks the trial is a complaint, and the others go on."""
        try:
            self.run(server)
        except (AssertionError, KeyError, OSError, queue.Empty) as error:
            self._complain(server, f"ends its trial: {error!r}"[:600])
            with contextlib.suppress(AssertionError):
                self.operator.change(server.name, enabled=False)

    def run(self, server: Published) -> None:
        command = server.command(self.folder)
        if command is None:
            print(f"{server.name:12} not installed")
            return
        environment: dict[str, str] = placed(dict(server.environment), self.folder)
        calls: Calls = placed([list(call) for call in server.calls], self.folder)
        self._make_folder()
        with direct.over_stdio(command, environment) as session:
            expected = [json.dumps(session.call(tool, words)) for tool, words in calls]
        self._make_folder()
        place = {"readable": [*_around(command), str(self.folder)], "writable": [str(self.folder)]}
        profile = {"name": server.name, "command": command[0], "arguments": command[1:], "environment": environment}
        before = set(tree(self.hub.pid))
        # Some look at the network when they begin, and none is there for them.
        self.operator.connect(
            server.name, transport="stdio", profile={**profile, **place}, policy="hold_all", connect_seconds=60
        )
        row = self.operator.row(server.name)
        if not row["discovered"]:
            self._complain(server, f"does not connect: {row['error']} {row['stderr'][-400:]}")
            return
        refused = self.hub.operate(operations.values, OFFERS, "refusal", connection__slug=server.name)
        for refusal in (words for words in refused if words and _LISTED_TWICE not in words):
            self._complain(server, f"has an offer that cannot be approved: {refusal}")
        self.operator.approve(server.name)
        same = list(self._compared(server, row["prefix"], calls, expected))
        version = until(lambda: self.operator.row(server.name)["version"])
        offers = f"{version:12} {len(row['states']):3} offers"
        survived = "survives its end" if self._survives(server, before, row["prefix"], calls[0]) else ""
        print(f"{server.name:12} {offers}  {sum(same)}/{len(calls)} calls the same  {survived}", flush=True)
        self.operator.change(server.name, enabled=False)

    def _compared(self, server: Published, prefix: str, calls: Calls, expected: list[str]) -> Iterator[bool]:
        with Speaker(self.hub.url, self.hub.key) as speaker:
            until(lambda: f'"{prefix}{calls[0][0]}"' in speaker.modern("tools/list").text)
            session = speaker.open_session()
            for (tool, words), before in zip(calls, expected, strict=True):
                answer = _answer(speaker.call(session, prefix + tool, words))
                result = answer.get("result")
                came = json.dumps(direct.without_the_hubs(result) if result is not None else answer["error"])
                if came != before and (server.is_alike or result is None):
                    self._complain(server, f"answers {tool} otherwise:\n    {before[:600]}\n    {came[:600]}")
                yield came == before or (result is not None and not server.is_alike)

    def _survives(self, server: Published, before: set[int], prefix: str, first: tuple[str, dict[str, Any]]) -> bool:
        """End the hub's processes that are not among `before` from outside, and call the server again."""
        ended = [pid for pid in tree(self.hub.pid) if pid not in before and _ended(pid)]
        if not ended:
            self._complain(server, "has no process to end")
            return False
        with Speaker(self.hub.url, self.hub.key) as speaker:
            session = speaker.open_session()
            answers = (_answer(speaker.call(session, prefix + first[0], first[1])) for _ in range(2))
            # The call that finds the program gone may fail; the next one has a new program.
            answered = [answer for answer in answers if "result" in answer and not _OF_THE_HUB.search(str(answer))]
        if not answered:
            self._complain(server, "does not come back after its process ended")
        return bool(answered)

    def _make_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "note.txt").write_text("hello from a file\nsecond line\n")
        (self.folder / "vault" / ".obsidian").mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "-b", "trunk", str(self.folder / "tree")], check=True)

    def _complain(self, server: Published, words: str) -> None:
        print(f"{server.name:12} {words}")
        self.complaints.append(f"{server.name} {words}")


def _answer(response: httpx2.Response) -> dict[str, Any]:
    """Return the answer to a call; one that takes long comes on a stream."""
    if response.headers["content-type"].startswith("text/event-stream"):
        return next(message for message in events(response) if "method" not in message and "id" in message)
    found: dict[str, Any] = response.json()
    return found


def _ended(pid: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False


def _around(command: list[str]) -> list[str]:
    """Return the folder of everything that npm or pip installed together."""
    program = Path(command[0])
    return [str(program.parents[2] if "node_modules" in program.parts else program.parents[1])]


def main(names: list[str], known: int) -> int:
    chosen = [server for server in SERVERS if not names or server.name in names]
    with tempfile.TemporaryDirectory() as place:
        data, folder = Path(place) / "hub", Path(place) / "work"
        with Hub(data, environment={"MCPHUB_CHILDREN_WRITABLE": str(data.parent)}) as hub:
            rig = Rig(hub, folder)
            for server in chosen:
                rig.try_out(server)
    installed = sum(server.command(Path("/")) is not None for server in SERVERS)
    if not names and installed < known:
        rig.complaints.append(f"Only {installed} servers are installed: python -m tests.clients.install")
    print(f"{len(chosen)} servers, {len(rig.complaints)} complaints")
    return 1 if rig.complaints else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--known", type=int, default=12)
    given = parser.parse_args()
    sys.exit(main(given.names, given.known))
