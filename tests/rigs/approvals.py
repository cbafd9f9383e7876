"""Calls that wait for a yes at two hubs over one database, decided by REST at the other one, with kills between.

    python -m tests.rigs.approvals [--database sqlite|postgresql] [--workers 2] [--kills 20] [--clients 10] [--seed N]

Clients over all transports call a tool whose every call waits; some calls need two persons. Calls are held for two
seconds, then answered as pending and sent again. Two people look into the inbox of the hub that does not hold a call,
and approve it, deny it, or edit its arguments. Meanwhile hubs and single workers are killed with signal 9 and started
again, and so are the processes of stdio.

No call may run without its yes, none twice, none after a no, and none may be lost: each is asked until it has its
answer, and each effect has an approval with these very arguments, an envelope and a row. Exit status 0, or 1 with the
reasons.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import httpx2

from tests import operations
from tests.rigs.clients import Client, Entry, EventStream, Keyed, Remote, Session, Stateless, Stdio
from tests.rigs.kill_nine import Audit, effects
from tests.rigs.process import Hub
from tests.servers import postgres_database
from tests.waiting import PATIENCE_SECONDS
from tests.wire import approving
from tests.wire.signing_in import make_person

_PENDING = "Not run yet"
_EDITED = "-edited"
_PEOPLE = ("ann", "bob")
_CSRF = "c" * 32
_AGAIN = {"audit_unavailable", "server_busy", "session_not_found!"}
"""What a client may be told by a hub that was killed or is up again."""

_FAILED = {"execution_error!", "interrupted!", "interrupted"}


class Waiting(Client):
    """Sends one call until it has its answer, and then the next."""

    is_draining = False
    pending = 0
    """Answers that said that the call waits."""

    async def _turn(self) -> None:
        if not self.journal or self.journal[-1].answers:
            if self.is_draining:
                self._stopping.set()
                return
            self.journal.append(Entry(f"{self.label}-{len(self.journal)}", self.way))
        entry = self.journal[-1]
        await self._call(entry)
        if entry.answers and entry.answers[-1][2].startswith(_PENDING):
            entry.answers.clear()
            self.pending += 1
        if not entry.answers:
            await asyncio.sleep(0.1)


class WaitingStateless(Waiting, Stateless):
    pass


class WaitingKeyed(Waiting, Keyed):
    pass


class WaitingSession(Waiting, Session):
    pass


class WaitingStream(Waiting, EventStream):
    pass


class WaitingRemote(Waiting, Remote):
    """Its profile tells of a failed call by an error, which names no invocation."""

    async def _call(self, entry: Entry) -> None:
        await super()._call(entry)
        if entry.refusals and entry.refusals[-1] in _FAILED:
            entry.answers.append(("", True, entry.refusals.pop(), False))


class WaitingStdio(Waiting, Stdio):
    pass


_ROUND: list[type[Waiting]] = [
    WaitingStateless,
    WaitingSession,
    WaitingStream,
    WaitingKeyed,
    WaitingRemote,
    WaitingSession,
    WaitingStateless,
    WaitingStdio,
]


class Inbox:
    """Two people who decide what waits, each call at the hub that its caller does not speak to."""

    def __init__(self, hubs: list[Hub], rng: random.Random) -> None:
        self._hubs = hubs
        self._rng = rng
        self.said: Counter[str] = Counter()
        self.refused: list[str] = []
        logins = {name: hubs[0].operate(make_person, name, ["Operator", "Auditor"], staff=True) for name in _PEOPLE}
        self._headers = {
            name: {
                "Cookie": f"{made['named']}={made['cookie']}; {made['named'].replace('_admin_', '_csrf_')}={_CSRF}",
                "X-CSRFToken": _CSRF,
            }
            for name, made in logins.items()
        }

    async def run(self) -> None:
        async with httpx2.AsyncClient(timeout=PATIENCE_SECONDS) as http:
            while True:
                with contextlib.suppress(httpx2.HTTPError):
                    await self._look(http, self._rng.choice(self._hubs))
                await asyncio.sleep(0.1)

    async def _look(self, http: httpx2.AsyncClient, hub: Hub) -> None:
        address = f"{hub.url}/api/approvals/?status=pending&limit=100"
        answer = await http.get(address, headers=self._headers["ann"])
        if answer.status_code != 200:
            if answer.status_code < 500:
                self.refused.append(f"the inbox: {answer.status_code} {answer.text[:200]}")
            return
        for row in answer.json()["results"]:
            if self._rng.random() < 0.4:  # others wait on, and some meet a kill
                await self._decide(http, row)

    async def _decide(self, http: httpx2.AsyncClient, row: dict[str, Any]) -> None:
        name: str = row["arguments"]["name"]
        lot = random.Random(name).random()
        who = _PEOPLE[row["given"]]
        verb, body = "approve", dict[str, Any]()
        if lot < 0.15:
            verb, body = "deny", {"reason": "By lot."}
        elif lot < 0.35 and row["edited"] is None:
            body = {"arguments": {"name": f"{name}{_EDITED}"}}
        number = int(name.partition("-")[0].removeprefix("c"))
        other = self._hubs[1 - number % 2]
        answer = await http.post(
            f"{other.url}/api/approvals/{row['id']}/{verb}/", json=body, headers=self._headers[who]
        )
        if answer.status_code == 200:
            self.said["edit" if body.get("arguments") else verb] += 1
        elif answer.status_code not in (409, 503):  # decided before, or a hub without its database
            self.refused.append(f"{verb} of {name} by {who}: {answer.status_code} {answer.text[:200]}")


async def _torment(hubs: list[Hub], clients: list[Waiting], inbox: Inbox, kills: int, rng: random.Random) -> list[str]:
    """Let all send their calls, and kill hubs meanwhile; give what did not come to an end."""
    deciding = asyncio.create_task(inbox.run())
    tasks = [asyncio.create_task(client.run()) for client in clients]
    for number in range(kills):
        await asyncio.sleep(rng.uniform(0.2, 2))
        hub = rng.choice(hubs)
        if number % 4 == 1:
            for client in clients:
                if isinstance(client, Stdio):
                    client.kill()
        if len(hub.processes()) > 3 and rng.random() < 0.6:
            hub.kill_one_worker(rng.random())
            continue
        hub.kill()
        await asyncio.to_thread(hub.start)
    for client in clients:
        client.is_draining = True
    _, late = await asyncio.wait(tasks, timeout=PATIENCE_SECONDS)
    deciding.cancel()
    for task in (*late, deciding):
        task.cancel()
    await asyncio.gather(*tasks, deciding, return_exceptions=True)
    for task in (deciding, *tasks):
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error
    idle = [f"{client.label} ({client.way}) made no call" for client in clients if not client.journal]
    return idle + [
        f"{client.way} waits for {[entry.name for entry in client.journal[-1:]]}: {client.troubles[-1:]}"
        for client, task in zip(clients, tasks, strict=True)
        if task in late
    ]


def check(clients: list[Waiting], audit: Audit, approvals: list[dict[str, Any]], done: dict[str, int]) -> list[str]:
    """Return what contradicts the promise, in words."""
    problems = [f"{name} took effect {count} times" for name, count in done.items() if count != 1]
    yes, no = dict[str, str](), set[str]()
    for row in approvals:
        asked = json.loads(row["arguments"])["name"]
        made = json.loads(row["edited"])["name"] if row["edited"] else asked
        if row["status"] == "denied":
            no.add(asked)
        elif row["status"] in ("approved", "used"):
            yes[made] = asked
            if row["given"] < row["needed"]:
                problems.append(f"{asked} was approved by {row['given']} of {row['needed']}")
        if row["status"] == "used" and row["invocation_id"] not in {each["invocation_id"] for each in audit.envelopes}:
            problems.append(f"{asked} is marked as called by {row['invocation_id']}, which is no envelope")
    intended = Counter(json.loads(row["params"])["arguments"]["name"] for row in audit.envelopes)
    closed = {row["invocation_id"] for row in audit.invocations if row["error_code"] == "audit_unavailable"}
    intended -= Counter(
        json.loads(row["params"])["arguments"]["name"] for row in audit.envelopes if row["invocation_id"] in closed
    )
    problems += [f"{name} has {count} envelopes" for name, count in intended.items() if count > 1]
    problems += [f"{name} took effect without a yes" for name in done if name not in yes]
    problems += [f"{name} took effect without an envelope" for name in done if name not in intended]
    problems += [f"{name} has an intent without a yes" for name in intended if name not in yes]
    made_of = {asked: made for made, asked in yes.items()}
    rows = {row["invocation_id"]: row for row in audit.invocations}
    for entry in (entry for client in clients for entry in client.journal):
        problems += [f"{entry.name} ({entry.way}) was told {code}" for code in entry.refusals if code not in _AGAIN]
        if not entry.answers:
            problems.append(f"{entry.name} ({entry.way}) was not answered")
        for invocation_id, is_error, text, _ in entry.answers:
            found = rows.get(invocation_id)
            made = made_of.get(entry.name)
            if found is None and not invocation_id:
                if text == "execution_error!" and entry.name not in no:
                    problems.append(f"{entry.name} ({entry.way}) failed without a no")
            elif found is None:
                problems.append(f"{entry.name} was answered and is not in the audit")
            elif not is_error and (text != "call number 1" or made not in done):
                problems.append(f"{entry.name} ({entry.way}) was told {text!r}; its yes: {made}")
            elif is_error and found["error_code"] != "interrupted" and entry.name not in no:
                problems.append(f"{entry.name} ({entry.way}) ended as {found['error_code']}: {text!r}")
        if entry.name in no and (entry.name in done or f"{entry.name}{_EDITED}" in done):
            problems.append(f"{entry.name} ran after a no")
    return problems


def main() -> int:
    options = _options()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}, {options.kills} kills, {options.clients} clients, {options.database}", flush=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="approvals-")))
        is_sqlite = options.database == "sqlite"
        address = "" if is_sqlite else stack.enter_context(postgres_database())
        workers = 1 if is_sqlite else options.workers
        # Two machines share a database; on SQLite two processes share the folder, too.
        hubs = [Hub(folder, database=address, workers=workers, data=folder / "data") for _ in range(2)]
        for hub in hubs:
            hub.environment["MCPHUB_LIMITS"] += ", approval_hold_seconds=2"
        hubs[0].prepare()
        hubs[0].operate(approving.demand, "count")
        two = {"effect": "ask", "applies_to": "tool", "target": "count", "ask_needed": 2}
        hubs[0].operate(
            operations.create, "tools_catalog.McpPolicyRule", name="two", condition="args.name.endsWith('3')", **two
        )
        for hub in hubs:
            hub.start()
        inbox = Inbox(hubs, rng)  # the first start makes the groups
        clients = []
        for number in range(options.clients):
            hub = hubs[number % 2]
            client = _ROUND[number % len(_ROUND)](f"c{number}", hub.url, hubs[0].key, asyncio.Event())
            if isinstance(client, Stdio):
                client.environment = hub.environment
            clients.append(client)
        began = time.monotonic()
        problems = asyncio.run(_torment(hubs, clients, inbox, options.kills, rng))
        seconds = time.monotonic() - began
        audit = Audit(address or str(hubs[0].data / "hub.sqlite3"))
        audit.settle()
        problems += [f"a hub ended with status {status}" for hub in hubs if (status := hub.stop())]
        audit.read()
        columns = "id, status, arguments, edited, invocation_id, given, needed"
        found = audit.query(f"SELECT {columns} FROM invocations_mcpapproval WHERE tool_name = 'count'")
        approvals = [dict(zip(columns.split(", "), row, strict=True)) for row in found]
        done = effects(hubs[0].data / "toolbox")
        problems += inbox.refused
        problems += check(clients, audit, approvals, done)
        _report(clients, audit, inbox, approvals, done, seconds)
        try:  # its sealing process was killed each time
            print(hubs[0].command("audit", "verify").strip())
        except AssertionError as error:
            problems.append(f"the audit does not verify: {error}")
        for problem in problems[:40]:
            print(f"WRONG: {problem}")
        if problems:
            print(f"{len(problems)} problems", *(line for hub in hubs for line in hub.errors()[-5:]), sep="\n")
    return 1 if problems else 0


def _report(
    clients: list[Waiting],
    audit: Audit,
    inbox: Inbox,
    approvals: list[dict[str, Any]],
    done: dict[str, int],
    seconds: float,
) -> None:
    entries = [entry for client in clients for entry in client.journal]
    codes = Counter(row["error_code"] or "ok" for row in audit.invocations)
    print(f"{len(entries)} calls in {seconds:.0f} s, sent {sum(entry.attempts for entry in entries)} times")
    print(f"decisions by REST: {dict(inbox.said)}; approvals: {dict(Counter(row['status'] for row in approvals))}")
    pending = sum(client.pending for client in clients)
    two = sum(row["needed"] == 2 and row["status"] != "pending" for row in approvals)
    print(f"{len(done)} effects, {two} calls that needed two persons, {pending} answers that said pending")
    print(f"audit: {len(audit.envelopes)} envelopes, {dict(codes)}", flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=2, help="of each hub, on PostgreSQL")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
