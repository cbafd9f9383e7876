"""Kill the hub at random instants under 16 clients over all transports, start it again, compare journals and audit.

    python -m tests.rigs.kill_nine --kills 20 [--database sqlite|postgresql|cluster] [--workers N] [--seed N]
        [--victim hub|database|both] [--with keys|tokens|both]

A `cluster` is a PostgreSQL server of the rig's own, which is killed too: `both` kills now the hub, now the server, now
both at once. Where PostgreSQL is not installed there is none, and it says so. Programs that speak over stdio are
killed with the hub, every fourth time.

With `tokens` the clients hold access tokens of people, each for its endpoint, and renew them all the while; with `both`
the second half of them does. Programs over stdio keep their key. A row must name the person and the client, no refresh
token may lead to two pairs, and whoever lost an answer goes on with the old refresh token or signs in again.

Every answer must be in the audit once, with the same words; what was not answered is absent, interrupted or
final; every side effect has its envelope; nothing ran twice. Exit status 0, or 1 with the reasons.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import shutil
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from tests.rigs import token_holders
from tests.rigs.clients import Client, Entry, Stdio, crowd
from tests.rigs.cluster import Cluster, binaries
from tests.rigs.process import Hub
from tests.rigs.token_holders import GOAL_SECONDS, LAST, Holder
from tests.servers import postgres_database
from tests.waiting import PATIENCE_SECONDS

_VICTIMS: dict[str, list[set[str]]] = {
    "hub": [{"hub"}],
    "database": [{"database"}],
    "both": [{"hub", "database"}, {"database"}, {"hub"}],
}
_UNAVAILABLE = {"audit_unavailable", "server_busy", "session_not_found!"}
"""What a client may be told by a hub that is up again, or whose database is away."""


def main() -> int:
    options = _options()
    rng = random.Random(options.seed)
    print(
        f"seed {options.seed}, {options.kills} kills, {options.clients} clients, {options.database}, "
        f"{options.workers} worker(s)",
        flush=True,
    )
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="kill-nine-")))
        cluster = None
        address = ""
        if options.database == "cluster":
            if binaries() is None:
                print("PostgreSQL's programs are not here: left out")
                return 0
            cluster = stack.enter_context(Cluster(folder))
            address = cluster.address
        elif options.database == "postgresql":
            address = stack.enter_context(postgres_database())
        hub = Hub(folder, database=address, workers=options.workers)
        hub.prepare()
        began = time.monotonic()
        run = asyncio.run(_torment(hub, cluster, options, rng))
        seconds = time.monotonic() - began
        audit = Audit(address or str(hub.data / "hub.sqlite3"))
        audit.settle()
        status = hub.stop()
        audit.read()
        problems = [*run.problems, *check(run.journal, audit, effects(hub.data / "toolbox"))]
        if options.holding != "keys":
            problems += token_holders.check(list(run.held.values()), audit.query)
            problems += check_names(run.held, audit, options.workers)
        try:  # its sealing process was killed with it each time
            print(hub.command("audit", "verify").strip())
        except AssertionError as error:
            problems.append(f"the audit does not verify: {error}")
        if status:
            problems.append(f"the hub ended with status {status}")
        slowest = max([*hub.ready_seconds[1:], *run.recovered], default=0)
        if slowest > options.ready_seconds:
            problems.append(f"the slowest restart took {slowest:.1f} s")
        _report(run, audit, hub, seconds)
        for problem in problems[:40]:
            print(f"WRONG: {problem}")
        if problems:
            print(f"{len(problems)} problems. Lines at error level: {len(hub.errors())}", *hub.errors()[-5:], sep="\n")
            shutil.copy(hub.log, "kill-nine.log")
            print("The hub's log: kill-nine.log")
    return 1 if problems else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--database", choices=["sqlite", "postgresql", "cluster"], default="sqlite")
    parser.add_argument("--victim", choices=["hub", "database", "both"], default="hub")
    parser.add_argument("--with", dest="holding", choices=["keys", "tokens", "both"], default="keys")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=600, help="after which no more are killed")
    parser.add_argument("--ready-seconds", type=float, default=5)
    return parser.parse_args()


@dataclass
class Run:
    """What clients and rig know when all is over."""

    journal: list[Entry] = field(default_factory=list)
    recovered: list[float] = field(default_factory=list)
    """Seconds after which a hub was ready again whose database had come back."""
    held: dict[str, Holder] = field(default_factory=dict)
    """By the label of the client that calls with it."""
    problems: list[str] = field(default_factory=list)
    revoked_seconds: float = 0.0


async def _torment(hub: Hub, cluster: Cluster | None, options: argparse.Namespace, rng: random.Random) -> Run:
    """Start, call, kill, start again, so often."""
    stopping, run = asyncio.Event(), Run()
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(4))
    await asyncio.to_thread(hub.start)
    clients = crowd(options.clients, hub.url, hub.key, stopping, hub.environment)
    if options.holding != "keys":
        run.held = await asyncio.to_thread(_let_in, hub, clients, options, rng)
    keeping = [asyncio.create_task(holder.keep(stopping)) for holder in run.held.values()]
    tasks = [asyncio.create_task(client.run()) for client in clients]
    until = time.monotonic() + options.minutes * 60
    for number in range(options.kills):
        if time.monotonic() > until:
            print(f"{number} kills in {options.minutes:g} minutes", flush=True)
            break
        await asyncio.sleep(rng.uniform(0.05, 1.5))
        if run.held and rng.random() < 0.5:  # many renewals are under way when it ends
            for holder in run.held.values():
                holder.hurry()
            await asyncio.sleep(rng.uniform(0, 0.1))
        await _kill(number, hub, cluster, options, rng, clients, run)
    await asyncio.sleep(1)
    stopping.set()
    await asyncio.gather(*tasks)
    for holder in run.held.values():
        holder.hurry()
    await asyncio.gather(*keeping)
    if of_mcp := [holder for holder in run.held.values() if holder.endpoint == "/mcp"]:
        found, run.revoked_seconds = await token_holders.revoked_at_once(of_mcp[:3])
        run.problems += found
    run.journal = [entry for client in clients for entry in client.journal]
    return run


async def _kill(
    number: int,
    hub: Hub,
    cluster: Cluster | None,
    options: argparse.Namespace,
    rng: random.Random,
    clients: Sequence[Client],
    run: Run,
) -> None:
    """Kill whose turn it is, and start it again."""
    victims = {"hub"} if cluster is None else _VICTIMS[options.victim][number % len(_VICTIMS[options.victim])]
    if cluster is not None and "database" in victims:
        if "hub" in victims:
            hub.kill()
        await asyncio.to_thread(cluster.kill)
        await asyncio.sleep(rng.uniform(0, 3))  # longer than the ledger's bound, or not
        await asyncio.to_thread(cluster.start)
        if "hub" not in victims:
            run.recovered.append(await asyncio.to_thread(hub.await_ready))
    elif options.workers > 1 and rng.random() < 0.5:
        hub.kill_one_worker(rng.random())
        return
    else:
        hub.kill()
    if "hub" in victims:
        if number % 4 == 1:
            for client in clients:
                if isinstance(client, Stdio):
                    client.kill()
        await asyncio.to_thread(hub.start)


def _let_in(hub: Hub, clients: Sequence[Client], options: argparse.Namespace, rng: random.Random) -> dict[str, Holder]:
    """Return clients tokens in place of the key; give those that have one, by their label."""
    of = clients if options.holding == "tokens" else clients[len(clients) // 2 :]
    chosen = [client for client in of if client.endpoint]
    held = token_holders.holders(hub, [client.endpoint for client in chosen], rng)
    for client, holder in zip(chosen, held, strict=True):
        client.bearer = holder
    return {client.label: holder for client, holder in zip(chosen, held, strict=True)}


class Audit:
    """The audit as plain SQL gives it."""

    def __init__(self, address: str) -> None:
        self._address = address
        self.invocations: list[dict[str, Any]] = []
        self.envelopes: list[dict[str, Any]] = []

    def query(self, query: str) -> list[tuple[Any, ...]]:
        if self._address.startswith("postgres"):
            with psycopg.connect(self._address) as connection:
                return connection.execute(query.encode()).fetchall()
        with contextlib.closing(sqlite3.connect(self._address, timeout=20)) as raw:
            return raw.execute(query).fetchall()

    def settle(self) -> None:
        """Wait until no envelope is without its outcome; what stays open is found by `check`."""
        until = time.monotonic() + PATIENCE_SECONDS
        query = (
            "SELECT count(*) FROM invocations_mcprequestenvelope e WHERE NOT EXISTS "
            "(SELECT 1 FROM invocations_mcptoolinvocation i WHERE i.invocation_id = e.invocation_id)"
        )
        while self.query(query)[0][0] and time.monotonic() < until:
            time.sleep(0.2)

    def read(self) -> None:
        columns = (
            "invocation_id, status, error_code, arguments, result, duplicate_of, occurrences, principal, caller_label, "
            "allowed_client, client_name, process_id"
        )
        rows = self.query(f"SELECT {columns} FROM invocations_mcptoolinvocation")
        self.invocations = [dict(zip(columns.split(", "), row, strict=True)) for row in rows]
        rows = self.query("SELECT invocation_id, params FROM invocations_mcprequestenvelope")
        self.envelopes = [{"invocation_id": row[0], "params": row[1]} for row in rows]


def check(journal: list[Entry], audit: Audit, done: dict[str, int]) -> list[str]:
    """Return what contradicts the promises, in words."""
    problems = []
    rows = {row["invocation_id"]: row for row in audit.invocations}
    if len(rows) != len(audit.invocations):
        problems.append("an invocation id stands twice in the audit")
    intended = {row["invocation_id"]: json.loads(row["params"])["arguments"]["name"] for row in audit.envelopes}
    for entry in journal:
        strange = set(entry.refusals) - _UNAVAILABLE
        problems += [f"{entry.name} ({entry.way}) was told {code}" for code in strange]
        for invocation_id, is_error, text, repeated in entry.answers:
            row = rows.get(invocation_id)
            if row is None:
                problems.append(f"{entry.name} was answered and is not in the audit")
                continue
            result = json.loads(row["result"]) if row["result"] else {}
            said = result["content"][0]["text"] if result.get("content") else ""
            if (said, row["status"] == "error") != (text, is_error):
                problems.append(f"{entry.name} was told {text!r}, recorded is {said!r} ({row['status']})")
            if bool(row["duplicate_of"]) != repeated:
                problems.append(f"{entry.name}: the row and the answer disagree on whether it was a repeat")
            if not is_error and text != "call number 1":
                problems.append(f"{entry.name} ({entry.way}) ran more than once: {text!r}")
    firsts = Counter(intended.values())
    # An intent whose caller was told in time that nothing runs is closed so, and its key may be used again.
    unused = {id_ for id_, row in rows.items() if row["error_code"] == "audit_unavailable"}
    for name, count in Counter(name for id_, name in intended.items() if id_ not in unused).items():
        if count > 1:
            problems.append(f"{name} has {count} envelopes")
    for name, count in done.items():
        if count != 1:
            problems.append(f"{name} took effect {count} times")
        if name not in firsts:
            problems.append(f"{name} took effect without an envelope")
    for invocation_id, name in intended.items():
        row = rows.get(invocation_id)
        if row is None:
            problems.append(f"the envelope of {name} has no outcome")
        elif row["status"] == "ok" and name not in done:
            problems.append(f"{name} is recorded as done and took no effect")
        elif row["status"] == "error" and row["error_code"] not in ("interrupted", "cancelled", "audit_unavailable"):
            problems.append(f"{name} ended as {row['error_code']}")
    return problems


def check_names(held: Mapping[str, Holder], audit: Audit, workers: int) -> list[str]:
    """Return the rows that do not name who called: the person and the client of a token, or the key."""
    problems = []
    for row in audit.invocations:
        name = json.loads(row["arguments"] or "{}").get("name", "")
        holder = held.get(name.rpartition("-")[0])
        if row["client_name"] == LAST:
            continue
        said = (row["principal"], row["caller_label"], row["allowed_client"])
        if holder is None:
            is_right = said[0].startswith("key:") and not said[2]
        else:
            is_right = said[0] == holder.principal and said[1].startswith(f"{holder.person} via {holder.client.name} (")
            is_right = is_right and str(said[2]).startswith(f"{holder.client.name} (client ")
        if not is_right:
            problems.append(f"{name} is recorded as of {said}")
    asked = {row["process_id"] for row in audit.invocations if row["client_name"] == LAST}
    if len(asked) < workers:
        problems.append(f"tokens that were revoked were shown to {len(asked)} of {workers} workers")
    return problems


def effects(folder: Path) -> dict[str, int]:
    # The file is made before the byte is written: an empty one is a tool that was killed in between.
    sizes = {path.stem: path.stat().st_size for path in folder.glob("*.counted")}
    return {name: size for name, size in sizes.items() if size}


def _report(run: Run, audit: Audit, hub: Hub, seconds: float) -> None:
    journal, recovered = run.journal, run.recovered
    answered = sum(bool(entry.answers) for entry in journal)
    codes = Counter(row["error_code"] or "ok" for row in audit.invocations)
    repeats = sum(bool(row["duplicate_of"]) for row in audit.invocations)
    refused = Counter(code for entry in journal for code in entry.refusals)
    starts = hub.ready_seconds
    ways: dict[str, list[int]] = {}
    for entry in journal:
        counts = ways.setdefault(entry.way, [0, 0])
        counts[0] += 1
        counts[1] += bool(entry.answers)
    print(f"{len(journal)} calls in {seconds:.0f} s, {answered} answered, {len(journal) - answered} not")
    print(f"audit: {len(audit.envelopes)} envelopes, {dict(codes)}, {repeats} repeats; refusals heard: {dict(refused)}")
    print("answered by way: " + ", ".join(f"{way} {told} of {asked}" for way, (asked, told) in sorted(ways.items())))
    if run.held:
        told = sum((holder.told for holder in run.held.values()), Counter())
        print(f"{len(run.held)} holders of tokens: " + ", ".join(f"{count} {what}" for what, count in told.items()))
        late = f"{run.revoked_seconds * 1000:.0f} ms after; the goal is {GOAL_SECONDS * 1000:.0f}"
        print(f"the last call that a revoked token made was sent {late}")
    print(f"{len(starts)} starts, ready after {_spread(starts)}", flush=True)
    if recovered:
        print(f"{len(recovered)} returns of the database alone, ready after {_spread(recovered)}", flush=True)


def _spread(seconds: list[float]) -> str:
    ordered = sorted(seconds)
    return f"{ordered[0]:.1f} to {ordered[-1]:.1f} s, median {ordered[len(ordered) // 2]:.1f} s"


if __name__ == "__main__":
    sys.exit(main())
