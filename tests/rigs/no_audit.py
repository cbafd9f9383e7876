"""No audit, no side effect: take the database away in every way, and compare what tools did with what is on record.

    python -m tests.rigs.no_audit [--database sqlite|cluster] [--only FAULT]... [--seconds 4] [--bound 10]

Faults of a PostgreSQL server of the rig's own: stopped, frozen, read-only, locked, no connection left, disk full. Of
SQLite: locked, disk full. A full disk is a small tmpfs where one may be mounted, else a limit of the size of files; it
says which. While a fault lasts every call must be refused within the bound, as one to try again; `/ready` must turn
red and name a part, `/live` stay green; after it the hub must recover alone. In the end what took effect must be what
was intended on record, once each. Exit status 0, or 1 with the reasons.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import copy
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg

from tests.rigs.clients import Client, crowd
from tests.rigs.cluster import Cluster, binaries
from tests.rigs.kill_nine import Audit, check, effects
from tests.rigs.process import Hub
from tests.waiting import PATIENCE_SECONDS

_AUDIT = "invocations_mcprequestenvelope, invocations_mcptoolinvocation"
_REFUSALS = {"audit_unavailable", "server_busy", "session_not_found!"}
"""A session that ended is opened again, so a client tries that in its own way."""

Fault = Callable[[], contextlib.AbstractContextManager[None]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "cluster"], default="sqlite")
    parser.add_argument("--only", action="append")
    parser.add_argument("--seconds", type=float, default=4, help="how long each fault goes on once it shows")
    parser.add_argument("--bound", type=float, default=10, help="seconds in which a call must be answered")
    parser.add_argument("--clients", type=int, default=8)
    options = parser.parse_args()
    if options.database == "cluster" and binaries() is None:
        print("PostgreSQL's programs are not here: left out")
        return 0
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="no-audit-")))
        small = stack.enter_context(_small_disk(folder / "disk"))
        if options.database == "cluster":
            cluster = stack.enter_context(Cluster(folder / "disk" if small else folder))
            stack.callback(cluster.thaw)
            hub = Hub(folder, database=cluster.database())
            faults = _of_postgresql(cluster, folder / "disk" if small else None)
        else:
            hub = Hub(folder, data=folder / "disk" / "data")
            hub.environment["MCPHUB_LIMITS"] += ", min_free_disk_bytes=0"  # the disk is to fill up under the ledger
            faults = _of_sqlite(hub, folder / "disk" if small else None)
        (folder / "toolbox").mkdir()
        hub.data.mkdir(parents=True, exist_ok=True, mode=0o700)
        (hub.data / "toolbox").symlink_to(folder / "toolbox")  # what tools do does not need the disk that is full
        hub.prepare()
        hub.start()
        stack.callback(hub.stop)
        print(f"disk full: {'a small tmpfs' if small else 'a limit of the size of files'}", flush=True)
        audit = Audit(hub.database or str(hub.data / "hub.sqlite3"))
        problems = []
        for name, fault in faults.items():
            if not options.only or name in options.only:
                problems += [f"{name}: {problem}" for problem in asyncio.run(_suffer(hub, name, fault, options))]
                audit.settle()
                audit.read()
                problems += [f"{name}: {problem}" for problem in check([], audit, effects(folder / "toolbox"))]
        done, meant = effects(folder / "toolbox"), len(audit.envelopes)
        failed = sum(bool(row["error_code"]) for row in audit.invocations)
        print(f"{len(done)} effects, {meant} intents on record, {failed} calls on record as failed", flush=True)
        for problem in problems[:40]:
            print(f"WRONG: {problem}")
        if problems:
            print(f"{len(problems)} problems", *hub.errors()[-10:], sep="\n")
    return 1 if problems else 0


async def _suffer(hub: Hub, name: str, fault: Fault, options: argparse.Namespace) -> list[str]:
    stopping = asyncio.Event()
    clients = crowd(options.clients, hub.url, hub.key, stopping, hub.environment, name.replace(" ", "-"))
    tasks = [asyncio.create_task(client.run()) for client in clients]
    watch = asyncio.create_task(_watch(hub, stopping))
    problems: list[str] = []
    try:
        await _served(clients, [0] * len(clients), "before")
        before = [len(client.journal) for client in clients]
        with fault():
            began = time.monotonic()
            red = await _color(hub, ready=False)
            red_after = time.monotonic() - began
            marks = [len(client.journal) for client in clients]
            await asyncio.sleep(options.seconds)
            lives = await _lives(hub)
            # With the call that each was in when it showed, for a refusal may take half of the time; as it stands now,
            # for what is told after the end counts elsewhere.
            during = copy.deepcopy(
                [entry for client, mark in zip(clients, marks, strict=True) for entry in client.journal[mark - 1 :]]
            )
        healed = time.monotonic()
        green = await _color(hub, ready=True)
        counts = [len(client.journal) for client in clients]
        await _served(clients, [max(0, count - 1) for count in counts], "again")
        recovered = time.monotonic() - healed
    finally:
        stopping.set()
        await asyncio.gather(*tasks)
        dark = await watch
    refusals = Counter(code for entry in during for code in entry.refusals)
    waits = [
        wait
        for client, start in zip(clients, before, strict=True)
        for entry in client.journal[start:]
        for wait in entry.waits
    ]
    answered = sum(bool(entry.answers) for entry in during)
    told = sum(len(entry.waits) for entry in during)
    if red is None:
        problems.append(f"/ready stayed green for {PATIENCE_SECONDS} s")
    if green is None:
        problems.append(f"/ready stayed red for {PATIENCE_SECONDS} s after the end")
    if not lives:
        problems.append("/live was not answered well while it lasted")
    if dark:
        problems.append(f"/live failed {dark} times")
    if not told:
        problems.append("nobody was told anything while it lasted")
    problems += [f"{count} calls were told {code}" for code, count in refusals.items() if code not in _REFUSALS]
    if max(waits, default=0) > options.bound:
        problems.append(f"a call was answered after {max(waits):.1f} s")
    print(
        f"{name}: red after {red_after:.1f} s ({red}); {told} answers meanwhile, {answered} of calls made, told "
        f"{dict(refusals)}; longest wait {max(waits, default=0):.1f} s; all served again after {recovered:.1f} s",
        flush=True,
    )
    return problems


async def _served(clients: list[Client], since: list[int], when: str) -> None:
    """Wait until each client was answered a call that stands in its journal from `since` on."""
    until = time.monotonic() + PATIENCE_SECONDS
    while waiting := [
        client
        for client, first in zip(clients, since, strict=True)
        if not any(entry.answers for entry in client.journal[first:])
    ]:
        if time.monotonic() > until:
            told = [(client.way, client.troubles[-3:], client.journal[-1:]) for client in waiting]
            raise SystemExit(f"Not served {when} in {PATIENCE_SECONDS} s: {told}")
        await asyncio.sleep(0.02)


async def _color(hub: Hub, *, ready: bool) -> str | None:
    """Wait until `/ready` says so; give what it says, or None where it never does."""
    until = time.monotonic() + PATIENCE_SECONDS
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as http:
        while time.monotonic() < until:
            answer = await http.get(f"{hub.url}/ready")
            if (answer.status_code == 200) == ready:
                return ", ".join(
                    f"{name} {state}"
                    for name, state in answer.json()["parts"].items()
                    if state != "ok" and not state.startswith("not promised")
                )
            await asyncio.sleep(0.02)
    return None


async def _lives(hub: Hub) -> bool:
    """Return whether `/live` is green; to be asked in a fault, which ends after the answer."""
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as http:
        try:
            return (await http.get(f"{hub.url}/live")).status_code == 200
        except httpx2.HTTPError:
            return False


async def _watch(hub: Hub, stopping: asyncio.Event) -> int:
    """Ask `/live` all the time; give how often it was not green."""
    dark = 0
    async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as http:
        while not stopping.is_set():
            try:
                dark += (await http.get(f"{hub.url}/live")).status_code != 200
            except httpx2.HTTPError:
                dark += 1
            await asyncio.sleep(0.1)
    return dark


# Faults ----------------------------------------------------------------------------------------------


def _of_sqlite(hub: Hub, disk: Path | None) -> dict[str, Fault]:
    @contextlib.contextmanager
    def locked() -> Iterator[None]:
        with contextlib.closing(sqlite3.connect(hub.data / "hub.sqlite3", isolation_level=None, timeout=20)) as raw:
            raw.execute("BEGIN IMMEDIATE")
            yield
            raw.execute("ROLLBACK")

    return {"locked": locked, "disk full": lambda: _full(disk) if disk else _limited(hub)}


def _of_postgresql(cluster: Cluster, disk: Path | None) -> dict[str, Fault]:
    @contextlib.contextmanager
    def stopped() -> Iterator[None]:
        cluster.stop()
        yield
        cluster.start()

    @contextlib.contextmanager
    def frozen() -> Iterator[None]:
        cluster.freeze()
        yield
        cluster.thaw()

    @contextlib.contextmanager
    def read_only() -> Iterator[None]:
        with _admin(cluster) as run:
            run("ALTER SYSTEM SET default_transaction_read_only = on")
            run("SELECT pg_reload_conf()")
            yield
            run("SET default_transaction_read_only = off")
            run("ALTER SYSTEM RESET default_transaction_read_only")
            run("SELECT pg_reload_conf()")

    @contextlib.contextmanager
    def locked() -> Iterator[None]:
        with psycopg.connect(cluster.database()) as connection:
            connection.execute(f"LOCK TABLE {_AUDIT} IN EXCLUSIVE MODE".encode())
            yield

    @contextlib.contextmanager
    def no_connection() -> Iterator[None]:
        with _admin(cluster) as run:
            run("ALTER ROLE hub CONNECTION LIMIT 0")
            run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hub'")
            yield
            run("ALTER ROLE hub CONNECTION LIMIT -1")

    @contextlib.contextmanager
    def full() -> Iterator[None]:
        assert disk is not None
        with _full(disk):
            yield
        cluster.revive()  # it ends itself where it cannot write its log, now or in a moment

    faults: dict[str, Fault] = {
        "stopped": stopped,
        "frozen": frozen,
        "read-only": read_only,
        "locked": locked,
        "no connection left": no_connection,
    }
    return {**faults, "disk full": full} if disk else faults


@contextlib.contextmanager
def _admin(cluster: Cluster) -> Iterator[Callable[[str], Any]]:
    with psycopg.connect(cluster.address, autocommit=True) as connection:
        yield lambda statement: connection.execute(statement.encode())


@contextlib.contextmanager
def _small_disk(place: Path) -> Iterator[bool]:
    """Make a folder, on a small file system of its own where that may be mounted."""
    place.mkdir()
    mounted = (
        os.getuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=160m,mode=755", "tmpfs", place], capture_output=True, check=False
        ).returncode
    )
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", place], check=False)


@contextlib.contextmanager
def _full(disk: Path) -> Iterator[None]:
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(65536))
    with ballast.open("ab", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(b"0")
    try:
        yield
    finally:
        ballast.unlink()


@contextlib.contextmanager
def _limited(hub: Hub) -> Iterator[None]:
    """No file of the hub's processes may grow beyond a page of the database."""
    pids = hub.processes()
    for pid in pids:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
    try:
        yield
    finally:
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


if __name__ == "__main__":
    sys.exit(main())
