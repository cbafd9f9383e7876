"""A million calls on record, and the next version migrates them while the old one answers.

    python -m tests.rigs.million [--rows 1000000] [--database both|postgresql|sqlite] [--clients 4] [--answers 300]
        [--seed 1]

The data is what 1.0.0 left (tests/releases), filled up to `--rows` calls and sealed. The next version adds a column to
the calls. On PostgreSQL two hubs serve the one database; the column comes in under both, then each is replaced, and
the record is partitioned by month. On SQLite the hub is stopped, and the next version migrates as it starts. Clients
call all the time and repeat, under the same idempotency key, what got no answer. Prints how long each step took, how
many calls were answered meanwhile, and the longest that a client waited for one. Exit status 1 where a call was lost
or repeated, or the audit does not verify; 0 otherwise. No time decides.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import httpx2

from tests import operations
from tests.releases import keeping
from tests.rigs.balancer import Balancer
from tests.rigs.machines import COPIED, outcome
from tests.rigs.process import TOOLBOX, Hub
from tests.servers import ROOT, postgres_database, until
from tests.trees import NEXT, next_version
from tests.wire.speech import Speaker

_RELEASE = "1.0.0"
_PATIENCE_SECONDS = 3600
"""For what reads or writes all rows; a machine with other work is slow."""
_AGAIN_SECONDS = 0.05
"""Between an attempt that nobody answered and the next one."""
_PACE_SECONDS = 0.02
"""Between an answer and the next call: the rig asks whether calls go on, not how many fit."""
_LONG_SECONDS = 1.0
"""Of a wait beyond this the rig says what its attempts came to."""
_CALLS = "invocations.McpToolInvocation"


@dataclass
class Call:
    """One call as its client knows it."""

    name: str
    asked_at: float
    answered_at: float = 0.0
    attempts: list[tuple[float, str]] = field(default_factory=list)
    """Of each how long it took, in seconds, and what it came to."""
    said: str = ""

    @property
    def waited(self) -> float:
        return self.answered_at - self.asked_at

    @property
    def story(self) -> str:
        return ", then ".join(f"{came_to} after {seconds:.1f} s" for seconds, came_to in _joined(self.attempts))


def _joined(attempts: Sequence[tuple[float, str]]) -> Iterator[tuple[float, str]]:
    """Put attempts that came to the same, one after the other, into one."""
    for came_to, alike in itertools.groupby(attempts, key=lambda attempt: attempt[1]):
        times = [seconds for seconds, _ in alike]
        yield sum(times), f"{len(times)} × {came_to}"


@dataclass
class Callers:
    """Clients that call without an end. Enter: they begin; leave: each has had its last answer."""

    url: str
    key: str
    count: int
    calls: list[Call] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    """Of the clients, as the audit has them."""

    def __enter__(self) -> Callers:
        self._over = threading.Event()
        self._is_in_vain = False
        self._threads = [threading.Thread(target=self._call, args=(number,)) for number in range(self.count)]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self._is_in_vain = True
        self._over.set()
        for thread in self._threads:
            thread.join()

    def _call(self, number: int) -> None:
        with Speaker(self.url, self.key) as speaker:
            speaker.http.close()
            limits = httpx2.Limits(max_keepalive_connections=0)
            speaker.http = httpx2.Client(base_url=self.url, timeout=60, limits=limits)
            self.names.append(speaker.name)
            for step in itertools.count():
                if self._over.is_set():
                    return
                call = Call(f"n{number}x{step}", time.monotonic())
                self.calls.append(call)
                deadline = call.asked_at + _PATIENCE_SECONDS
                while not call.said and time.monotonic() < deadline and not self._is_in_vain:
                    began = time.monotonic()
                    is_answered, came_to = self._attempt(speaker, call.name)
                    call.attempts.append((time.monotonic() - began, came_to))
                    call.said = came_to if is_answered else ""
                    if not is_answered:
                        time.sleep(_AGAIN_SECONDS)
                call.answered_at = time.monotonic()
                self._over.wait(_PACE_SECONDS)

    @staticmethod
    def _attempt(speaker: Speaker, name: str) -> tuple[bool, str]:
        """Return whether the call was answered, or has to be asked again, and what it came to."""
        try:
            answer = speaker.modern_call("count", {"name": name}, **{"mcphub/idempotencyKey": name})
        except httpx2.HTTPError as error:
            return False, type(error).__name__
        return answer.status_code != 503, outcome(answer)

    def answered(self) -> int:
        return sum(1 for call in list(self.calls) if call.answered_at)

    def await_answers(self, more: int) -> None:
        """Wait until so many further calls were answered."""
        enough = self.answered() + more
        until(lambda: self.answered() >= enough, _PATIENCE_SECONDS)


@dataclass
class Stretch:
    """What calls met in a stretch of the rig."""

    what: str
    began: float
    ended: float

    def told(self, calls: Sequence[Call]) -> str:
        """A call belongs where the middle of its wait lies."""
        met = [call for call in calls if self.began <= (call.asked_at + call.answered_at) / 2 < self.ended]
        longest = max(met, key=lambda call: call.waited, default=Call("", 0.0))
        again = sum(len(call.attempts) > 1 for call in met)
        story = f" ({longest.story})" if longest.waited > _LONG_SECONDS else ""
        return (
            f"{self.what}: {self.ended - self.began:.2f} s, {len(met)} calls answered, the longest wait for one "
            f"{longest.waited:.2f} s{story}, {again} asked again"
        )


class Rig:
    def __init__(self, hubs: Sequence[Hub], callers: Callers) -> None:
        self.hubs, self.callers = hubs, callers
        self.stretches: list[Stretch] = []
        self.problems: list[str] = []

    @contextlib.contextmanager
    def stretch(self, what: str) -> Iterator[None]:
        began = time.monotonic()
        yield
        self.stretches.append(Stretch(what, began, time.monotonic()))

    def told(self, words: str, holds: object = True) -> None:
        print(f"{'ok   ' if holds else 'WRONG'} {words}", flush=True)
        if not holds:
            self.problems.append(words)

    def check(self) -> None:
        """Hold what clients were told against what ran and what is on record."""
        calls = self.callers.calls
        for stretch in self.stretches:
            print(f"      {stretch.told(calls)}", flush=True)
        wrong = Counter(call.said or "no answer" for call in calls) - Counter({"call number 1": len(calls)})
        self.told(f"{len(calls)} calls, each answered: {dict(wrong) or 'as they must be'}", not wrong)
        ran = Counter(marks(self.hubs, call.name) for call in calls)
        self.told(f"each ran once; how often they ran: {dict(ran)}", set(ran) == {1})
        found = self.hubs[0].operate(operations.counted, self.callers.names)
        lost = [call.name for call in calls if not found.get(call.name)]
        twice = [name for name, times in found.items() if times > 1]
        self.told(
            f"each is on record once; lost: {len(lost)} {lost[:3]}, twice: {len(twice)} {twice[:3]}", not lost + twice
        )


def marks(hubs: Sequence[Hub], name: str) -> int:
    """How often the tool left the mark of a call, at all hubs together."""
    files = (hub.data / "toolbox" / f"{name}.counted" for hub in hubs)
    return sum(file.stat().st_size for file in files if file.exists())


# What is brought in -----------------------------------------------------------------------------------------


def prepared(folder: Path, kind: str, variables: Mapping[str, str], rows: int, seed: int) -> Hub:
    """Return a hub on what 1.0.0 left, with so many calls, and a key of its own."""
    keeping.unpack(keeping.FOLDER / f"{_RELEASE}.{kind}.tar.xz", folder, variables)
    hub = Hub(folder, database=variables.get("MCPHUB_DATABASE_URL", ""))
    hub.patience_seconds = _PATIENCE_SECONDS
    hub.command("migrate")
    hub.command("catalog", "load", str(TOOLBOX))
    hub.key = hub.operate(operations.issue_key, "million")
    missing = rows - hub.operate(operations.count, _CALLS)
    if missing > 0:
        began = time.monotonic()
        words = ["--data-dir", str(hub.data), "--database", hub.database, "--tools", "200", "--seal"]
        fill = [sys.executable, "-m", "tests.rigs.seeding", *words, "--calls", str(missing), "--seed", str(seed)]
        subprocess.run(fill, cwd=ROOT, env=hub.environment, check=True, stdout=subprocess.DEVNULL)
        print(f"      {missing} calls filled in and sealed in {time.monotonic() - began:.0f} s", flush=True)
    return hub


def beside(hub: Hub, folder: Path) -> Hub:
    """Return a second hub on the database of the first, as on a machine of its own."""
    other = Hub(folder, database=hub.database)
    other.patience_seconds = hub.patience_seconds
    other.data.mkdir(parents=True)
    for name in COPIED:
        (shutil.copytree if (hub.data / name).is_dir() else shutil.copy)(hub.data / name, other.data / name)
    other.data.chmod(0o700)
    return other


def on_postgresql(stack: ExitStack, folder: Path, options: argparse.Namespace) -> Rig:
    """Two hubs over one database: migrate under both, then replace one after the other."""
    variables = {"MCPHUB_DATABASE_URL": stack.enter_context(postgres_database(is_empty=True))}
    first = prepared(folder / "one", "postgresql", variables, options.rows, options.seed)
    hubs = [first, beside(first, folder / "two")]
    new = next_version(folder / "next")
    for hub in hubs:
        hub.start()
        stack.callback(hub.stop)
        hub.await_ready()
    url = stack.enter_context(Balancer([hub.port for hub in hubs])).url
    with Callers(url, first.key, options.clients) as callers:
        rig = Rig(hubs, callers)
        with rig.stretch("before it"):
            callers.await_answers(options.answers)
        old, first.home = first.home, new
        with rig.stretch("`mcphub migrate` of the next version"):
            first.command("migrate")
        with rig.stretch("`mcphub migrate` again, which finds nothing to do"):
            first.command("migrate")
        first.home = old
        with rig.stretch("the old version on the tables of the next one"):
            callers.await_answers(options.answers)
        with rig.stretch("two hubs replaced, one after the other"):
            for hub in hubs:
                rig.told("a hub of the old version stops in order", hub.stop() == 0)
                hub.home = new
                hub.start()
                hub.await_ready()
        with rig.stretch("after it"):
            callers.await_answers(options.answers)
        with rig.stretch("`mcphub audit partition`"):
            first.command("audit", "partition")
        with rig.stretch("with one table a month"):
            callers.await_answers(options.answers)
    return rig


def on_sqlite(stack: ExitStack, folder: Path, options: argparse.Namespace) -> Rig:
    """One hub: it stops, the next version migrates as it starts; and once more without anything to migrate."""
    hub = prepared(folder / "one", "sqlite", {}, options.rows, options.seed)
    new = next_version(folder / "next")
    hub.start()
    stack.callback(hub.stop)
    hub.await_ready()
    with Callers(hub.url, hub.key, options.clients) as callers:
        rig = Rig([hub], callers)
        with rig.stretch("before it"):
            callers.await_answers(options.answers)
        for what in ("a restart that migrates", "a restart that finds nothing to do"):
            with rig.stretch(what):
                rig.told("the hub stops in order", hub.stop() == 0)
                hub.home = new
                seconds = hub.start()
                hub.await_ready()
            print(f"      {what}: ready {seconds:.2f} s after the command", flush=True)
            with rig.stretch("after it"):
                callers.await_answers(options.answers)
    return rig


_PARTS = {"postgresql": on_postgresql, "sqlite": on_sqlite}


def run(kind: str, options: argparse.Namespace) -> list[str]:
    """Return what was wrong."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="million-")))
        print(f"{kind}, {options.rows} calls", flush=True)
        rig = _PARTS[kind](stack, folder, options)
        rig.check()
        rows = rig.hubs[0].operate(operations.count, _CALLS)
        versions = rig.hubs[0].operate(operations.values, "sessions_app.ServerProcess", "version", status="running")
        rig.told(
            f"{rows} calls on record, {NEXT} runs: {Counter(versions)}",
            rows >= options.rows and set(versions) == {NEXT},
        )
        for hub in rig.hubs:
            rig.told(f"a hub logged no error {hub.errors()[:1]}", not hub.errors())
        began = time.monotonic()
        said = rig.hubs[0].command("audit", "verify").strip().splitlines()[-1]
        rig.told(f"the audit verifies in {time.monotonic() - began:.0f} s: {said}")
        return rig.problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000, help="calls on record before the migration")
    parser.add_argument("--database", choices=["both", *_PARTS], default="both")
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--answers", type=int, default=300, help="that clients get before, between and after")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if min(options.rows, options.clients, options.answers) < 1:
        parser.error("--rows, --clients and --answers are at least 1")
    kinds = list(_PARTS) if options.database == "both" else [options.database]
    problems = [problem for kind in kinds for problem in run(kind, options)]
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
