"""A busy and a silent client of the remote profile at once, beside listeners of the other transports: all must stand.

    python -m tests.rigs.streams [--database sqlite|postgresql] [--workers 2] [--seconds 20] [--heartbeat 1]

Newcomers open and close connections all the time, which is when places of others could be given away. The busy client
asks without a pause, each time through whichever worker takes the connection. No stream may end, no request may be
refused, and each stream hears a beat at each interval. Exit status 0, or 1 with the reasons.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import httpx2

from tests import operations
from tests.rigs.process import Hub
from tests.servers import postgres_database
from tests.waiting import PATIENCE_SECONDS
from tests.wire.remote import Connection, connect
from tests.wire.speech import Speaker, request

_LONGEST_SECONDS = 3500
"""A silent client is ended after the request timeout, and a session that asks nothing after an hour."""
_PLACES = 4
"""The busy client, the silent one, a newcomer, and one whose stream has just ended."""
_ATTEMPTS = 12
_PLACE = "sessions_app.RemoteConnection"


@dataclass
class Stream:
    """What one client heard."""

    name: str
    beats: list[float] = field(default_factory=list)
    """When each was sent, as the hub says, or came, where it says nothing; in seconds."""
    problems: list[str] = field(default_factory=list)

    def judge(self, interval: float, seconds: float) -> list[str]:
        """Return what is wrong: too few beats or too many, or a long silence."""
        if len(self.beats) < 2:
            return [*self.problems, f"{self.name}: {len(self.beats)} beats in {seconds:.0f} s"]
        due = (self.beats[-1] - self.beats[0]) / interval
        gap = max(later - sooner for sooner, later in pairwise(self.beats))
        heard = len(self.beats) - 1
        print(f"{self.name}: {heard + 1} beats, longest silence {gap:.2f} s", flush=True)
        found = list(self.problems)
        if abs(heard - due) > 1 + due * 0.02:
            found.append(f"{self.name}: {heard} beats where {due:.1f} were due")
        if gap > interval + max(2.0, interval):
            found.append(f"{self.name}: silent for {gap:.2f} s")
        if self.beats[-1] - self.beats[0] < seconds - 3 * interval - 2:
            found.append(f"{self.name}: beats for {self.beats[-1] - self.beats[0]:.1f} s only")
        return found


class Rig:
    def __init__(self, hub: Hub, seconds: float, interval: float) -> None:
        self.hub = hub
        self.seconds = seconds
        self.patience = 3 * interval + PATIENCE_SECONDS
        """Seconds that a client waits for a line: longer than the silence that is judged."""
        self.until = 0.0
        self.answers = 0
        self.newcomers = 0
        self.streams: list[Stream] = []

    def speaker(self) -> Speaker:
        speaker = Speaker(self.hub.url, self.hub.key)
        speaker.http.timeout = httpx2.Timeout(self.patience)
        return speaker

    def is_over(self) -> bool:
        return time.monotonic() > self.until

    # The clients, each in a thread of its own -------------------------------------------------------

    def busy(self, line: Connection, told: Stream) -> None:
        while not self.is_over():
            with self.speaker() as one:
                accepted = line.post(request("tools/list", {}, self.answers), one)
            if accepted.status_code != 202:
                told.problems.append(f"{told.name}: {accepted.status_code} {accepted.text[:200]}")
                return
            while (event := line.hear(beats=True))[0] == "heartbeat":
                told.beats.append(event[2]["sentAt"] / 1000)
            if event[0] != "message" or event[2]["requestId"] != self.answers:
                told.problems.append(f"{told.name}: {event}")
            self.answers += 1

    def silent(self, line: Connection, told: Stream) -> None:
        while not self.is_over():
            kind, _, data = line.hear(beats=True)
            if kind != "heartbeat":
                told.problems.append(f"{told.name}: {kind} {data}")
                return
            told.beats.append(data["sentAt"] / 1000)

    def listening(self, lines: Iterator[str], told: Stream) -> None:
        for line in lines:
            if line.startswith(":"):
                told.beats.append(time.time())
            if self.is_over():
                return
        told.problems.append(f"{told.name}: the stream ended")

    def coming(self, told: Stream) -> None:
        """Open a connection, ask once, go, and come again."""
        while not self.is_over():
            with self.speaker() as one, connect(one) as line:
                if line.ask(request("tools/list", {}, "n"))[0] != "message":
                    told.problems.append("a newcomer was not answered")
                self.newcomers += 1

    # All of them ------------------------------------------------------------------------------------

    def run(self, workers: int) -> None:
        with contextlib.ExitStack() as stack:
            busy = stack.enter_context(connect(stack.enter_context(self.speaker())))
            silent = self._apart(stack, busy, workers)
            http = stack.enter_context(self.speaker())
            of_session = http.headers(mcp_session_id=http.open_session(), content_type=None)
            listens = self._lines(stack, "/mcp", of_session)
            opens = self._lines(stack, "/sse", http.headers(content_type=None))
            threads = [
                self._client("busy", lambda told: self.busy(busy, told)),
                self._client("silent", lambda told: self.silent(silent, told)),
                self._client("GET /mcp", lambda told: self.listening(listens, told)),
                self._client("GET /sse", lambda told: self.listening(opens, told)),
            ]
            newcomers = Stream("newcomers")
            threads.append(threading.Thread(target=self._kept, args=(newcomers, self.coming)))
            self.until = time.monotonic() + self.seconds
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.streams[0].problems += newcomers.problems

    def _client(self, name: str, work: Callable[[Stream], None]) -> threading.Thread:
        told = Stream(name)
        self.streams.append(told)
        return threading.Thread(target=self._kept, args=(told, work))

    def _kept(self, told: Stream, work: Callable[[Stream], None]) -> None:
        try:
            work(told)
        except (AssertionError, httpx2.HTTPError) as error:
            told.problems.append(f"{told.name}: {error!r}")

    def _lines(self, stack: contextlib.ExitStack, path: str, headers: dict[str, str]) -> Iterator[str]:
        one = stack.enter_context(self.speaker())
        lines = stack.enter_context(one.http.stream("GET", path, headers=headers)).iter_lines()
        assert next(lines)  # the first one is no sign of life
        return lines

    def _apart(self, stack: contextlib.ExitStack, busy: Connection, workers: int) -> Connection:
        """Return a connection that another worker holds, where there is one: who takes it is the kernel's choice."""
        for attempt in range(_ATTEMPTS):
            opened = contextlib.ExitStack()
            line = opened.enter_context(connect(opened.enter_context(self.speaker())))
            ids = (line.id, busy.id)
            holders = {id: self.hub.operate(operations.values, _PLACE, "process_id", pk=id)[0] for id in ids}
            if workers == 1 or holders[line.id] != holders[busy.id] or attempt == _ATTEMPTS - 1:
                print(f"{len({holders[line.id], holders[busy.id]})} workers hold the two streams", flush=True)
                stack.enter_context(opened)
                return line
            opened.close()
        raise AssertionError


def main() -> int:
    options = _options()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="streams-")))
        is_sqlite = options.database == "sqlite"
        address = "" if is_sqlite else stack.enter_context(postgres_database())
        workers = 1 if is_sqlite else options.workers
        hub = Hub(folder, database=address, workers=workers)
        hub.environment |= {
            "MCPHUB_LIMITS": f"heartbeat_seconds={options.heartbeat}, max_clients={_PLACES}",
            "MCPHUB_CALL_TIMEOUT_SECONDS": str(options.seconds + 90),
            "MCPHUB_LEDGER_TIMEOUT_SECONDS": "20",  # no request is refused because the machine is busy
        }
        hub.prepare()
        hub.start()
        stack.callback(hub.stop)
        rig = Rig(hub, options.seconds, options.heartbeat)
        rig.run(workers)
        problems = [each for stream in rig.streams for each in stream.judge(options.heartbeat, options.seconds)]
        problems += hub.errors()[-5:]
        print(f"{options.database}, {workers} workers: {rig.answers} answers, {rig.newcomers} newcomers", flush=True)
        for problem in problems[:40]:
            print(f"WRONG: {problem}")
    return 1 if problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=2, help="on PostgreSQL")
    parser.add_argument("--seconds", type=float, default=20, help=f"at most {_LONGEST_SECONDS}")
    parser.add_argument("--heartbeat", type=float, default=1, help="interval in seconds")
    options = parser.parse_args()
    if options.seconds > _LONGEST_SECONDS:
        parser.error(f"--seconds is at most {_LONGEST_SECONDS}")
    return options


if __name__ == "__main__":
    sys.exit(main())
