"""A real hub for tests: `mcphub serve` in a process of its own, stopped the way an operator stops it."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import http.client
import itertools
import json
import os
import queue
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, TypeVar

import httpx2
import psycopg

from tests import forking, operations, template
from tests.waiting import PATIENCE_SECONDS

ROOT = forking.ROOT
POSTGRES = os.environ.get("MCPHUB_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432")
"""A PostgreSQL server on which databases may be made and dropped."""

FIXTURES = "tests.conformance.fixtures"
"""The tools that MCP's official suite calls, as a pack of an operator's own."""


_FIRST_PORT, _EPHEMERAL_PORT = 10_000, 32_768
_ports = itertools.count()
_claimed: set[int] = set()
_running: list[Hub] = []
_STUCK_SECONDS = 20
"""For how long `operate` waits for a change: a test may have stopped or cut off the hub on purpose."""

Found = TypeVar("Found")


class Hub:
    """One `mcphub serve`. Enter it: the hub accepts connections; leave it: it has stopped with status 0."""

    python: Sequence[str] = (sys.executable,)

    def __init__(
        self,
        folder: Path,
        *,
        flags: Sequence[str] = (),
        packs: Sequence[str] = (),
        bundle: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.folder = folder
        self.data = folder / "data"
        self._port = 0
        self.key = ""
        """The key of the first start; it may list, call, and read the audit."""
        self._flags = [*flags, *(word for pack in packs for word in ("--pack", pack))]
        self._bundle = bundle
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")},
            "MCPHUB_DATA_DIR": str(self.data),
            "MCPHUB_ALLOW_NOT_DURABLE": "1",  # temporary files may lie in memory
            "MCPHUB_LEDGER_TIMEOUT_SECONDS": "20",  # a machine that runs many of these hubs is slow
            "PYTHONUNBUFFERED": "1",
            **(environment or {}),
        }
        own = [pack for pack in packs if "." in pack]  # an app that is a pack
        if own:
            apps = self.environment.get("MCPHUB_APPS", "")
            self.environment["MCPHUB_APPS"] = ",".join(filter(None, [apps, *own]))
        self._process: subprocess.Popen[str] | None = None
        self._operator: subprocess.Popen[str] | None = None
        self._operating = threading.Lock()
        self._lines: queue.Queue[str | None] = queue.Queue()

    def __enter__(self) -> Hub:
        began_at = time.monotonic()
        self.folder.mkdir(parents=True, exist_ok=True)
        self._make_database()
        if self._bundle is not None and self._bundle != self._kept_bundle():
            self.command("catalog", "load", str(self._bundle))
        with (self.folder / "stderr.log").open("w") as log:
            self.environment["MCPHUB_PORT"] = str(self._port)  # 0: the hub takes a free one
            self._process = self._spawn(
                "mcphub.cli", "serve", *self._flags, stdout=subprocess.PIPE, stderr=log, text=True
            )
        threading.Thread(target=self._read, daemon=True).start()
        self._await_ready()
        _running.append(self)
        sys.audit("tests.hub_ready", time.monotonic() - began_at)
        return self

    def __exit__(self, *_: object) -> None:
        status = self.stop()
        assert status == 0, f"The hub stopped with status {status}.\n{self.log()}"

    @property
    def port(self) -> int:
        """The port that the hub took at its first start, and takes again; before, one that is free."""
        if not self._port:
            self._port = free_port()
        return self._port

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self) -> int:
        """Send SIGTERM and give the exit status; kill what does not stop in time."""
        self.end_operator()
        if self in _running:
            _running.remove(self)
        process = self._process
        assert process is not None
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            return process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return -signal.SIGKILL

    def kill(self) -> None:
        """Send SIGKILL, as a crash would; another Hub may then be entered over the same folder."""
        assert self._process is not None
        if self in _running:
            _running.remove(self)
        self._process.kill()
        self._process.wait()
        self.end_operator()

    def end_operator(self) -> None:
        """End the process that `operate` uses; the next use starts another."""
        if self._operator is not None:
            self._operator.communicate("")
            self._operator = None

    def command(self, *words: str, stdin: str | None = None) -> str:
        """Run another `mcphub` command over the same data, in a process of its own; give what it prints."""
        self._make_database()
        done = forking.run("mcphub.cli", *words, env=self.environment, input=stdin, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        if self.key and self.is_running():
            self._take_effect(self.operate(operations.newest_change))
        return done.stdout

    def operate(self, function: Callable[..., Found], *arguments: Any, **named: Any) -> Found:
        """Run a function of `tests.operations` or its like in a process beside the hub; give its result, as of JSON.

        Each worker works by what the function changed when this returns, if the hub can be asked for that.
        """
        asked = json.dumps([function.__module__, function.__qualname__, arguments, named])
        with self._operating:
            if self._operator is None:
                self._operator = forking.start(
                    "tests.operations", env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            assert self._operator.stdin is not None
            assert self._operator.stdout is not None
            self._operator.stdin.write(asked + "\n")
            self._operator.stdin.flush()
            result, failure, change = json.loads(self._operator.stdout.readline())
        assert not failure, failure
        if change:
            self._take_effect(change)
        given: Found = result
        return given

    def settle(self) -> None:
        """Wait until each worker works by everything that was changed before, through whichever door.

        Until then one may still answer by what it held, or drop what it has just learned: a test that counts requests,
        or speaks with whichever worker it meets, settles the hub after its changes. `operate` does so by itself.
        """
        mark = self.operate(operations.mark)
        until(lambda: change_in_force(self._metrics_port, self.key) >= mark)

    def _take_effect(self, change: int) -> None:
        """Wait for the change in each process on this database, but not for one that is stopped, stuck or restarted."""
        for hub in [each for each in _running if each._database == self._database]:
            if hub.key and hub.is_running():
                deadline = time.monotonic() + _STUCK_SECONDS
                with contextlib.suppress(AssertionError):  # this key may not read metrics
                    while change_in_force(hub._metrics_port, hub.key, _STUCK_SECONDS) < change:
                        if time.monotonic() > deadline:
                            break
                        time.sleep(0.01)  # a hub signals nobody what it works by

    @property
    def _database(self) -> str:
        return self.environment.get("MCPHUB_DATABASE_URL") or str(self.data)

    @property
    def _metrics_port(self) -> int:
        return int(self.environment.get("MCPHUB_METRICS_PORT", self.port))

    def rows(self, **filters: Any) -> list[dict[str, Any]]:
        """The recorded calls, newest first, as the auditor reads them."""
        answer = httpx2.get(
            f"{self.url}/api/invocations/",
            params={"limit": 100, **filters},
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=PATIENCE_SECONDS,
        )
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()["results"]
        return rows

    def row(self, **filters: Any) -> dict[str, Any]:
        """The one recorded call, which may still be on its way."""
        rows = until(lambda: self.rows(**filters))
        assert len(rows) == 1, rows
        return rows[0]

    def resident_mib(self) -> float:
        return int(Path(f"/proc/{self.pid}/statm").read_text().split()[1]) * 4096 / 2**20

    def log(self) -> str:
        return (self.folder / "stderr.log").read_text()

    def _spawn(self, module: str, *words: str, **options: Any) -> subprocess.Popen[str]:
        return forking.start(module, *words, env=self.environment, **options)

    def _make_database(self) -> None:
        if "MCPHUB_DATABASE_URL" not in self.environment:
            apps = self.environment.get("MCPHUB_APPS", "")
            template.copy_to(self.data / "hub.sqlite3", bundle=self._kept_bundle(), apps=apps)

    def _kept_bundle(self) -> Path | None:
        """The bundle that comes with the copied database: one of this tree, which loads alike under any settings."""
        is_kept = self._bundle is not None and self._bundle.is_relative_to(ROOT)
        return self._bundle if is_kept and "MCPHUB_DATABASE_URL" not in self.environment else None

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._lines.put(line)
        self._lines.put(None)

    def _await_ready(self) -> None:
        assert self._process is not None
        deadline = time.monotonic() + PATIENCE_SECONDS
        said = []
        try:
            while True:
                line = self._lines.get(timeout=deadline - time.monotonic())
                if line is None:
                    raise AssertionError(f"The hub did not start.\n{''.join(said)}{self.log()}")
                said.append(line)
                if line.startswith("ready "):
                    self._port = int(line.rsplit(":", 1)[1].partition("/")[0])
                    self.environment["MCPHUB_PORT"] = str(self._port)
                    break
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        found = re.search(r"^API key +(\S+)$", "".join(said), re.MULTILINE)
        self.key = found[1] if found else ""


def change_in_force(port: int, key: str, seconds: float = PATIENCE_SECONDS) -> float:
    """Return the newest change by which all workers work; -1 where one is being replaced, or reports nothing of itself.

    The key may read metrics.
    """
    with contextlib.closing(http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)) as connection:
        try:
            connection.request("GET", "/metrics", headers={"Authorization": f"Bearer {key}"})
            answer = connection.getresponse()
            told = answer.read().decode()
        except (OSError, http.client.HTTPException):
            return -1
    if answer.status >= 500:  # it could not look up the key just now, or is stopping
        return -1
    assert answer.status == 200, told
    up, newest = (
        [float(value) for value in re.findall(rf'^{name}{{worker="\d+"}} (\S+)$', told, re.MULTILINE)]
        for name in ("mcphub_worker_up", "mcphub_change_in_force")
    )
    return min(newest) if all(up) else -1


def until(ask: Callable[[], Found], seconds: float = PATIENCE_SECONDS) -> Found:
    """Ask again and again until the answer is true; return it. Nobody waits for less than a busy machine may need."""
    deadline = time.monotonic() + max(seconds, PATIENCE_SECONDS)
    while True:
        answer = ask()
        if answer:
            return answer
        assert time.monotonic() < deadline, "It did not come about in time."
        time.sleep(0.02)


def kill_processes(pids: Collection[int]) -> None:
    """Send SIGKILL, and wait until they are gone: a worker that is dying resets what a client sends to it."""
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))


def free_port(in_a_row: int = 1) -> int:
    """Return a port, the first of so many `in_a_row`, that nobody has and no other process of the tests gets.

    The kernel assigns none of them by itself. A port stays this process's, for what it starts may end and start again.
    """
    while True:
        first = _FIRST_PORT + (os.getpid() * 97 + next(_ports)) % (_EPHEMERAL_PORT - _FIRST_PORT - in_a_row)
        if all(_claim(port) for port in range(first, first + in_a_row)):
            return first


def _claim(port: int) -> bool:
    if port in _claimed:
        return False
    try:
        fcntl.lockf(_claims(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)  # until this process ends
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
    except OSError:
        return False
    _claimed.add(port)
    return True


@functools.cache
def _claims() -> IO[bytes]:
    return (Path(tempfile.gettempdir()) / f"mcphub-test-ports-{os.getuid()}").open("ab")


@contextlib.contextmanager
def postgres_database(*, is_empty: bool = False) -> Iterator[str]:
    """Make a database with all migrations, give its address, and drop it."""
    name = f"mcphub_test_{uuid.uuid4().hex[:12]}"
    if is_empty:
        with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True, connect_timeout=PATIENCE_SECONDS) as connection:
            connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    else:
        template.copy_in(POSTGRES, name)
    try:
        yield f"{POSTGRES}/{name}"
    finally:
        with psycopg.connect(f"{POSTGRES}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]
