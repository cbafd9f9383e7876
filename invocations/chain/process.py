"""The sealing process: `python -m invocations.chain.process`, started by a hub, which configures it over its input.

A process of its own, so that reading and hashing take nothing from the one that serves calls. It ends when its input
ends, however the hub ended, after sealing the remaining rows. It writes its messages to the hub's log as JSON lines:
[level, sentence].
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import sqlite3
import sys
import time
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from invocations.chain import alarms, checking, counting, marks, watching
from invocations.chain.keys import KeyFolder, KeyProblem, KeySource
from invocations.chain.lease import Lease
from invocations.chain.log import Log
from invocations.chain.places import Deliveries, one_line, place_of, undelivered
from invocations.chain.publishing import Publisher
from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Bad
from invocations.chain.watching import Rewritten
from tools_catalog.upstream.confinement.kernel import be_undumpable

if TYPE_CHECKING:
    from sessions_app.protocol.json import Json

TAKEN = 3
"""Exit status: another process seals."""
_RETRY_SECONDS = 5.0
_FORGET_SECONDS = 3600.0
_TURN_SECONDS = 2.0
"""Of one periodic verification, beside the calls: some hundred thousand rows."""
_LAST_PUSH_SECONDS = 5.0
"""At the end, for the last checkpoint to leave."""


class Database:
    """The raw connection, opened when it is needed."""

    def __init__(self, where: dict[str, Json]) -> None:
        self.is_sqlite = where["vendor"] == "sqlite"
        self._where = where["parameters"]
        self._raw: Any = None
        self.errors: type[Exception] = sqlite3.Error

    def __call__(self) -> Any:
        if self._raw is None:
            self._raw = self._open()
        return self._raw

    def _open(self) -> Any:
        if self.is_sqlite:
            raw = sqlite3.connect(self._where["path"], isolation_level=None, timeout=20)
            raw.execute("PRAGMA journal_mode=WAL")
            raw.execute("PRAGMA synchronous=FULL")
            raw.execute("PRAGMA cache_size=-512")  # it reads each page once, in order
            return raw
        import psycopg  # not beside SQLite: it takes ten megabytes

        self.errors = psycopg.Error
        connection = psycopg.connect(**self._where, autocommit=True)
        connection.execute("SET application_name = 'mcphub sealer'")
        return connection

    def close(self) -> None:
        raw, self._raw = self._raw, None
        if raw is not None:
            with contextlib.suppress(Exception):
                raw.close()


def say(level: str, sentence: str) -> None:
    with contextlib.suppress(OSError):
        print(json.dumps([level, sentence]), flush=True)


class SealingWork:
    def __init__(self, options: dict[str, Json]) -> None:
        self._every = options["seal_seconds"]
        self._publish_every = options["checkpoint_seconds"]
        self._database = Database(options["database"])
        self._log = Log(self._database, self._database.is_sqlite)
        beside = Path(options["database"]["parameters"]["path"] + "-sealer") if self._database.is_sqlite else None
        self._lease = Lease(self._log, beside)
        keys = KeyFolder(Path(options["folder"]), KeySource.of(options["signing"]) if options["signing"] else None)
        known = watching.head_of(options["known"]) if options["known"] else None
        self._followers: list[Any] = [import_module(name) for name in options["followers"]]
        watch = watching.Watch(self._log, known, keys.publics)
        self._sealer = Sealer(self._log, keys, watch=watch, followers=self._followers)
        self._keys = keys
        self._sweep: checking.Sweep | None = None
        self._outside = watching.Outside(Path(options["checkpoints"]), keys.publics)
        self._tries = options["checkpoint_tries"]
        self._alarms = alarms.AlarmFile(Path(options["checkpoints"]))
        places = [place_of(words) for words in options["places"]]
        self._deliveries = Deliveries(places, self._tries, min(1.0, self._publish_every))
        self._publisher = Publisher(Path(options["checkpoints"]), self._deliveries)
        self._file_failures = 0
        self._file_problem = ""
        self._undelivered: str | None = None
        self._verify_every = options["verify_seconds"]
        self._compares_at = 0.0
        self._alarm = ""
        self._reminded: set[str] = set()
        self._is_due = False
        self._published_at = -math.inf  # a clock that begins with the machine may stand near zero
        self._forgets_at = 0.0
        self._said = ""
        self._marked = False

    def run(self) -> int:
        ended = False
        while True:
            pause = self._every
            try:
                if not self._lease.take():
                    return TAKEN
                if self._alarm or time.monotonic() >= self._compares_at:
                    self._compare()
                if self._sealer.seal() or not self._marked:
                    marks.follow(self._log, self._log.head().through["invocation"])
                    self._marked = True
                if time.monotonic() >= self._forgets_at:
                    now = datetime.now(UTC)
                    left = [each.forget(self._log, now) for each in (counting, *self._followers)]
                    if any(left):
                        pause = min(pause, _RETRY_SECONDS)
                    else:
                        self._forgets_at = time.monotonic() + _FORGET_SECONDS
                if ended or time.monotonic() - self._published_at >= self._publish_every:
                    self._publish()
                if self._is_due:
                    self._verify()
                self._tell_undelivered()
                self._said = ""
            except (Rewritten, Bad) as problem:
                self._sound(str(problem))
                pause = _RETRY_SECONDS
            except (self._database.errors, OSError, KeyProblem) as error:
                self._complain(error)
                self._database.close()
                pause = _RETRY_SECONDS
            if ended:
                self._deliveries.end(_LAST_PUSH_SECONDS)
                return 0
            ended = bool(select.select([sys.stdin], [], [], pause)[0])

    def _compare(self) -> None:
        """Compare with the memory of this process and the file outside. Raises Rewritten."""
        size = self._sealer.watch.head().tree.size
        if not self._outside.compare(self._log) and size and not self._compares_at:
            say(
                "warning",
                f"There is no checkpoint in {self._outside.file}, and the audit has {size} blocks: if the database was "
                "rolled back or rewritten before now, nothing shows it.",
            )
        if open_ := alarms.reconcile(self._log, self._alarms):
            self._remind(open_)
        if self._alarm:
            say("warning", "The audit's log is again the one that it was, and is sealed on.")
        self._alarm = ""
        self._compares_at = time.monotonic() + self._verify_every
        self._is_due = True

    def _verify(self) -> None:
        """Verify a part; keep the verdict. Where that left signatures of new blocks, the next part is due soon."""
        self._is_due, size, problem = False, self._log.size(), ""
        if self._sweep is None:
            last = watching.verdict(self._log)
            self._sweep = checking.Sweep(self._log, self._keys, signed=last.size if last and not last.problem else 0)
        began = time.monotonic()
        try:
            size = self._sweep.turn(_TURN_SECONDS)
        except Bad as bad:
            problem = str(bad)
        watching.keep(self._log, size, problem)
        if problem:
            self._keep_outside(problem)
        watching.record(self._log, "watch", size, self._sweep.looked_at, time.monotonic() - began, problem)
        if self._sweep.is_behind:
            self._compares_at = min(self._compares_at, time.monotonic() + _RETRY_SECONDS)
        if problem:
            say("error", f"ALARM: the audit is not as it was sealed: {problem} Run `mcphub audit verify`.")

    def _sound(self, problem: str) -> None:
        """Report that sealing has stopped, and why; keep the verdict and its evidence."""
        if problem == self._alarm:
            return
        self._keep_outside(problem)
        with contextlib.suppress(self._database.errors, Bad):
            size = self._log.size()
            watching.keep(self._log, size, problem)
            watching.record(self._log, "watch", size, 0, 0, problem)
        with contextlib.suppress(OSError, KeyProblem):
            self._publisher.testify(self._sealer)
        say("error", f"ALARM: the audit is sealed no more. {problem} Run `mcphub audit verify`.")
        self._alarm = problem

    def _keep_outside(self, problem: str) -> None:
        try:
            self._alarms.sound(problem)
        except OSError as error:
            say("error", f"ALARM: it cannot be written to {self._alarms.path}: {error.strerror}.")

    def _remind(self, found: list[alarms.OpenAlarm]) -> None:
        """Log the alarms that nobody has lifted, once in each process; the journal keeps them, too."""
        for each in found:
            if each.id not in self._reminded:
                self._reminded.add(each.id)
                say("error", f"ALARM: open since {each.at}: {each.problem} Run `mcphub audit verify`.")

    def _publish(self) -> None:
        """Publish the head. Problems with the file do not stop sealing, and are reported after some attempts."""
        try:
            note = self._publisher.publish(self._sealer)
        except OSError as error:
            self._file_failures += 1
            if self._file_failures >= self._tries:
                self._file_problem = undelivered(self._publisher.file, self._tries, error)
            self._published_at = time.monotonic() - self._publish_every + min(self._publish_every, _RETRY_SECONDS)
            return
        self._file_failures, self._file_problem = 0, ""
        if note is not None:
            self._published_at = time.monotonic()
            say("info", "Audit checkpoint: " + one_line(note))

    def _tell_undelivered(self) -> None:
        """Report the places that checkpoints do not reach, and keep them beside the verdict."""
        problem = " ".join(filter(None, [self._file_problem, self._deliveries.problem]))
        if problem == self._undelivered or not watching.keep_undelivered(self._log, problem):
            return
        if problem:
            say("error", f"ALARM: {problem}")
        elif self._undelivered:
            say("info", "Checkpoints arrive everywhere again.")
        self._undelivered = problem

    def _complain(self, error: Exception) -> None:
        sentence = f"The audit cannot be sealed: {str(error).strip() or type(error).__name__}"
        if sentence != self._said:
            say("error", sentence)
        self._said = sentence


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for the hub; our end is that of the input
    with contextlib.suppress(OSError, AttributeError):  # only Linux has it
        be_undumpable()  # it may hold the key
    with contextlib.suppress(OSError):
        os.nice(5)
    return SealingWork(json.loads(sys.stdin.readline())).run()


if __name__ == "__main__":
    raise SystemExit(main())
