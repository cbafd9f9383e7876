"""The sealing process: `python -m invocations.chain.process`, started by a hub, which tells it all on its input.

A process of its own, so that reading and hashing take nothing from the one that serves calls. It ends when its
input ends, however the hub went, after it has sealed what is there. What it has to say goes to the hub's log as
JSON lines: [level, sentence].
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sqlite3
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from invocations.chain import counting, marks
from invocations.chain.keys import KeyFolder, KeyProblem
from invocations.chain.lease import Lease
from invocations.chain.log import Log
from invocations.chain.publishing import Publisher
from invocations.chain.sealer import Sealer

TAKEN = 3
"""Exit status: another process seals."""
_RETRY_SECONDS = 5.0
_FORGET_SECONDS = 3600.0


class Database:
    """The raw connection, opened when it is needed."""

    def __init__(self, where: dict[str, Any]) -> None:
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


class Work:
    def __init__(self, told: dict[str, Any]) -> None:
        self._every = told["seal_seconds"]
        self._publish_every = told["checkpoint_seconds"]
        self._database = Database(told["database"])
        self._log = Log(self._database, self._database.is_sqlite)
        beside = Path(told["database"]["parameters"]["path"] + "-sealer") if self._database.is_sqlite else None
        self._lease = Lease(self._log, beside)
        self._sealer = Sealer(self._log, KeyFolder(Path(told["folder"])))
        self._publisher = Publisher(Path(told["folder"]) / "checkpoints")
        self._published_at = 0.0
        self._forgets_at = 0.0
        self._said = ""
        self._marked = False

    def run(self) -> int:
        ended = looked = False
        while True:
            pause = self._every
            try:
                if not self._lease.take():
                    return TAKEN
                if not looked and self._publisher.is_ahead(self._sealer):
                    say("error", "The audit's log is shorter than a checkpoint that was published: it was cut, or an "
                        "old copy was restored. Run `mcphub audit verify`.")  # fmt: skip
                looked = True
                if self._sealer.seal() or not self._marked:
                    marks.follow(self._log, self._log.head().through["invocation"])
                    self._marked = True
                if time.monotonic() >= self._forgets_at:
                    if counting.forget(self._log, datetime.now(UTC)):
                        pause = min(pause, _RETRY_SECONDS)
                    else:
                        self._forgets_at = time.monotonic() + _FORGET_SECONDS
                if ended or time.monotonic() - self._published_at >= self._publish_every:
                    self._publish()
                self._said = ""
            except (self._database.errors, OSError, KeyProblem) as error:
                self._complain(error)
                self._database.close()
                pause = _RETRY_SECONDS
            if ended:
                return 0
            ended = bool(select.select([sys.stdin], [], [], pause)[0])

    def _publish(self) -> None:
        note = self._publisher.publish(self._sealer)
        if note is not None:
            self._published_at = time.monotonic()
            say("info", "Audit checkpoint: " + note.strip("\n").replace("\n", " | "))

    def _complain(self, error: Exception) -> None:
        sentence = f"The audit cannot be sealed: {str(error).strip() or type(error).__name__}"
        if sentence != self._said:
            say("error", sentence)
        self._said = sentence


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for the hub; our end is that of the input
    with contextlib.suppress(OSError):
        os.nice(5)
    return Work(json.loads(sys.stdin.readline())).run()


if __name__ == "__main__":
    raise SystemExit(main())
