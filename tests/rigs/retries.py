"""The same calls sent several times at once, to two hubs over one database, over every transport, with kills between.

    python -m tests.rigs.retries [--database sqlite|postgresql] [--workers 2] [--calls 40] [--kills 6] [--seed N]

Ways to say that a request is a repeat: an idempotency key, as a header and in `_meta`, by ten clients over five
transports and by the chat at once; a request id, by four clients of one session at both hubs, and several times on one
line of HTTP+SSE, of the remote profile and of stdio. A killed hub is started again, and clients ask until each has an
answer; where their session died with the hub, the call is given up.

Each call must take effect once: not at all only where all were told that it was interrupted, or nobody had an answer.
All answers of one call say the same, and one row of the audit is the first, the others name it. Exit status 0, or 1
with the reasons.
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
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2

from tests import operations
from tests.features.chat.conftest import set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.rigs.clients import Client, Entry, EventStream, Keyed, Lost, Remote, Session, Stateless, Stdio
from tests.rigs.kill_nine import Audit, effects
from tests.rigs.process import Hub, settle
from tests.servers import postgres_database

_KEY = "mcphub/idempotencyKey"
_COPIES = 3
_CHAT = {
    "MCPHUB_EGRESS_ALLOW": "127.0.0.1",
    "MCPHUB_LIMITS": "seal_seconds=0.1, chat_burst=100000, chat_max_content=100000",
    "MCPHUB_CHAT_APPROVAL": "never",
}
_PATIENCE_SECONDS = 240
"""In which one call must be answered to all who send it, with hubs that are killed meanwhile."""


class Group:
    """Those who send the same calls, each at the same moment."""

    def __init__(self, name: str, size: int, calls: int) -> None:
        self.name, self.calls = name, calls
        self.gate = asyncio.Barrier(size)
        self.opening = asyncio.Lock()


class Repeating(Client):
    """Sends the calls of its group, each until it is answered, and then waits for the others."""

    group: Group

    async def _turn(self) -> None:
        if len(self.journal) == 0 or self.journal[-1].answers or self._is_lost:
            await self.group.gate.wait()
            if len(self.journal) == self.group.calls:
                self._stopping.set()
                return
            self._is_lost = False
            self.journal.append(Entry(f"{self.group.name}-{len(self.journal)}", self.way))
        entry = self.journal[-1]
        await self._call(entry)
        if not entry.answers:
            await asyncio.sleep(0.05)

    _is_lost = False


class InMeta(Repeating):
    """Names the key in `_meta`, under which a call outlives the session that it began in."""

    def _body(self, entry: Entry, **more: Any) -> dict[str, Any]:
        return super()._body(entry, **{**more, "_meta": {**more.get("_meta", {}), _KEY: entry.name}})


class InHeader(Repeating):
    """Names the key in the header."""

    async def _post(self, body: Any, path: str = "/mcp", **headers: str) -> httpx2.Response:
        named = {"Idempotency-Key": self.journal[-1].name} if self.journal else {}
        return await super()._post(body, path, **{**headers, **named})


class StatelessMeta(InMeta, Stateless):
    way = "stateless, key in _meta"


class StatelessHeader(Repeating, Keyed):
    way = "stateless, key in a header"


class SessionHeader(InHeader, Session):
    way = "session, key in a header"


class SessionMeta(InMeta, Session):
    way = "session, key in _meta"


class EventStreamMeta(InMeta, EventStream):
    way = "sse, key in _meta"


class RemoteMeta(InMeta, Remote):
    way = "remote, key in _meta"


class StdioMeta(InMeta, Stdio):
    way = "stdio, key in _meta"


class Chat(Repeating):
    """Asks a model that makes the call; the turn's key is the call's."""

    way = "chat"

    async def _call(self, entry: Entry) -> None:
        entry.attempts += 1
        content = script(calls(("count", {"name": entry.name})), say("Done."))
        body = {"content": content, "tools": ["count"]}
        headers = {"Idempotency-Key": entry.name}
        answer = (await self._post(body, "/api/query", **headers)).json()
        if "error" in answer:
            entry.refusals.append(answer["error"]["code"] + ("" if answer["error"]["retryable"] else "!"))
            return
        for made in answer["tool_calls"]:
            entry.answers.append((made["id"], made["error"] is not None, made["result"] or "", False))


class OneSession(Repeating, Session):
    """One of several who share a session, and send the same request under the same id."""

    way = "session, request id"
    shared: dict[str, str]

    @contextlib.asynccontextmanager
    async def _line(self) -> AsyncIterator[None]:
        async with self.group.opening:
            if not self.shared:
                async with super()._line():
                    self.shared.update(self._headers)
        self._headers = self.shared
        yield

    def _body(self, entry: Entry, **more: Any) -> dict[str, Any]:
        return {**super()._body(entry, **more), "id": len(self.journal)}


class Copying(Repeating):
    """Sends each request several times on the line that it has, under one id. The call is lost with the line."""

    async def _call(self, entry: Entry) -> None:
        self._is_lost = True
        await super()._call(entry)


class EventStreamCopies(Copying, EventStream):
    """Half of the copies goes to the other hub, which does not hold the stream."""

    way = "sse, request id"
    other: str

    async def _ask(self, path: str, body: Any, id: Any, entry: Entry | None = None) -> None:
        if entry is None:
            return await super()._ask(path, body, id)
        paths = [path, self.other + path.removeprefix(self.url), path]
        await _copies(self, paths, body, id, entry)
        return None


class RemoteCopies(Copying, Remote):
    way = "remote, request id"
    other: str

    async def _ask(self, path: str, body: Any, id: Any, entry: Entry | None = None) -> None:
        if entry is None:
            return await super()._ask(path, body, id)
        await _copies(self, [path, self.other + path, path], body, id, entry)
        return None


async def _copies(client: Any, paths: list[str], body: Any, id: Any, entry: Entry) -> None:
    """Post a message at once to each path, and hear an answer to each that was taken."""
    answers = await asyncio.gather(*(client._post(body, path) for path in paths), return_exceptions=True)
    wanted = 0
    for answer in answers:
        if isinstance(answer, httpx2.Response) and answer.status_code == 202:
            wanted += 1
        elif isinstance(answer, httpx2.Response) and answer.status_code != 404:
            entry.told(answer.json())
    while wanted:
        _, message = await client._hear()
        if message.get("id", message.get("requestId")) == id:
            entry.told(message)
            wanted -= 1


class StdioCopies(Copying, Stdio):
    way = "stdio, request id"

    async def _call(self, entry: Entry) -> None:
        self._is_lost = True
        body = self._body(entry)
        for _ in range(_COPIES - 1):
            self._say(body)
        entry.told(await self._ask(body))
        for _ in range(_COPIES - 1):
            entry.told(await self._hear(body["id"]))

    async def _hear(self, id: Any) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        while True:
            line = await asyncio.wait_for(self._process.stdout.readline(), 60)
            if not line.endswith(b"\n"):
                raise Lost
            answer = json.loads(line)
            if answer.get("id") == id:
                return answer


def crowd(hubs: list[Hub], key: str, calls: int) -> list[Repeating]:
    """Return all who send, in their groups."""
    keyed: list[type[Repeating]] = [
        StatelessMeta,
        StatelessHeader,
        SessionHeader,
        SessionMeta,
        EventStreamMeta,
        EventStreamMeta,
        RemoteMeta,
        RemoteMeta,
        StdioMeta,
        StdioMeta,
    ]
    groups: list[tuple[str, list[type[Repeating]]]] = [
        ("keyed", keyed),
        ("session", [OneSession] * 4),
        ("sse", [EventStreamCopies]),
        ("remote", [RemoteCopies]),
        ("stdio", [StdioCopies]),
        ("chat", [Chat] * 3),
    ]
    found = []
    for name, kinds in groups:
        group, shared = Group(name, len(kinds), calls), dict[str, str]()
        for number, kind in enumerate(kinds):
            hub, other = hubs[number % 2], hubs[1 - number % 2]
            client = kind(f"{name}{number}", hub.url, key, asyncio.Event())
            client.group = group
            if isinstance(client, Stdio):
                client.environment = hub.environment
            if isinstance(client, OneSession):
                client.shared = shared
            if isinstance(client, EventStreamCopies | RemoteCopies):
                client.other = other.url
            found.append(client)
    return found


_MAY_BE_LOST = {EventStreamCopies.way, RemoteCopies.way, StdioCopies.way}
"""A line that breaks takes its session with it, and under another session an id is another call's."""
_AGAIN = {
    "audit_unavailable",
    "server_busy",
    "session_not_found!",
    "AUDIT_UNAVAILABLE",
    "SERVER_BUSY",
    "PROVIDER_UNAVAILABLE",
}
"""What a client may be told by a hub that was killed or is up again."""


async def _torment(hubs: list[Hub], clients: list[Repeating], kills: int, rng: random.Random) -> list[str]:
    """Let all send their calls, and kill hubs meanwhile; give what did not come to an end."""
    tasks = [asyncio.create_task(client.run()) for client in clients]
    killed, until = 0, time.monotonic() + _PATIENCE_SECONDS
    seen = -1
    while any(not task.done() for task in tasks):
        if killed < kills:
            await asyncio.sleep(rng.uniform(0.2, 2))
            killed += 1
            hub = rng.choice(hubs)
            if len(hub.processes()) > 3 and rng.random() < 0.5:
                hub.kill_one_worker(rng.random())
                continue
            hub.kill()
            await asyncio.to_thread(hub.start)
            continue
        await asyncio.wait(tasks, timeout=1)
        told = sum(len(client.journal) for client in clients)
        if told != seen:
            seen, until = told, time.monotonic() + _PATIENCE_SECONDS
        if time.monotonic() > until:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            return [f"{client.way} waits for {client.journal[-1:]}: {client.troubles[-1:]}" for client in clients]
    for task in tasks:
        task.result()
    print(f"{killed} kills", flush=True)
    return []


def check(clients: list[Repeating], audit: Audit, done: dict[str, int], kills: int) -> list[str]:
    """Return what contradicts the promise, in words."""
    told: dict[str, list[Entry]] = defaultdict(list)
    for client in clients:
        for entry in client.journal:
            told[entry.name].append(entry)
    firsts: dict[str, list[dict[str, Any]]] = defaultdict(list)
    rows = {row["invocation_id"]: row for row in audit.invocations}
    for row in audit.invocations:
        name = json.loads(row["arguments"])["name"]
        if not row["duplicate_of"] and row["error_code"] != "audit_unavailable":
            firsts[name].append(row)
    problems = [f"{name} took effect {count} times" for name, count in done.items() if count != 1]
    problems += [f"{name} took effect and nobody asked for it" for name in done if name not in told]
    for name, entries in told.items():
        first = firsts[name]
        if len(first) > 1:
            problems.append(f"{name} has {len(first)} first rows: {[row['error_code'] for row in first]}")
        for entry in entries:
            problems += [f"{name} ({entry.way}) was told {code}" for code in entry.refusals if code not in _AGAIN]
            if not entry.answers and entry.way not in _MAY_BE_LOST:
                problems.append(f"{name} ({entry.way}) was not answered")
            for invocation_id, is_error, text, _ in entry.answers:
                row = rows.get(invocation_id)
                if row is None:
                    problems.append(f"{name} ({entry.way}) was answered and is not in the audit")
                elif is_error and (row["error_code"] != "interrupted" or not kills):
                    problems.append(f"{name} ({entry.way}) ended as {row['error_code']}: {text!r}")
                elif not is_error and (text != "call number 1" or name not in done):
                    problems.append(f"{name} ({entry.way}) was told {text!r}, effects: {done.get(name, 0)}")
                elif first and (row["duplicate_of"] or invocation_id) != first[0]["invocation_id"]:
                    problems.append(f"{name} ({entry.way}): its row names another first call")
        if len({answer[1] for entry in entries for answer in entry.answers}) > 1:
            problems.append(f"{name}: some were told that it failed, others not")
    return problems


def main() -> int:
    options = _options()
    rng = random.Random(options.seed)
    print(f"seed {options.seed}, {options.calls} calls a group, {options.database}", flush=True)
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="retries-")))
        is_sqlite = options.database == "sqlite"
        address = "" if is_sqlite else stack.enter_context(postgres_database())
        workers = 1 if is_sqlite else options.workers
        # Two machines share a database; on SQLite two processes share the folder, too.
        hubs = [Hub(folder, database=address, workers=workers, data=folder / "data") for _ in range(2)]
        provider = stack.enter_context(ScriptedProvider("sk-scripted"))
        for hub in hubs:
            hub.environment |= _CHAT
        hubs[0].prepare()
        for hub in hubs:
            hub.start()
        set_up(hubs[0], {"openai": provider})
        settle(hubs, hubs[0].operate(operations.issue_key, "settles"))
        key = hubs[0].command("token", "create", "retries", "--scope", "tools:call", "--scope", "chat").split()[-1]
        clients = crowd(hubs, key, options.calls)
        began = time.monotonic()
        problems = asyncio.run(_torment(hubs, clients, options.kills, rng))
        audit = Audit(address or str(hubs[0].data / "hub.sqlite3"))
        audit.settle()
        problems += [f"a hub ended with status {status}" for hub in hubs if (status := hub.stop())]
        audit.read()
        done = effects(hubs[0].data / "toolbox")
        problems += check(clients, audit, done, options.kills)
        _report(clients, audit, done, time.monotonic() - began)
        for problem in problems[:40]:
            print(f"WRONG: {problem}")
        if problems:
            print(f"{len(problems)} problems", *(line for hub in hubs for line in hub.errors()[-5:]), sep="\n")
    return 1 if problems else 0


def _report(clients: list[Repeating], audit: Audit, done: dict[str, int], seconds: float) -> None:
    names = {entry.name for client in clients for entry in client.journal}
    sent = sum(entry.attempts for client in clients for entry in client.journal)
    told = Counter(entry.way for client in clients for entry in client.journal for _ in entry.answers)
    codes = Counter(row["error_code"] or "ok" for row in audit.invocations)
    repeats = sum(bool(row["duplicate_of"]) for row in audit.invocations)
    print(
        f"{len(names)} calls, sent {sent} times in {seconds:.0f} s: {sum(done.values())} effects of {len(done)} calls"
    )
    print(f"audit: {len(audit.envelopes)} envelopes, {dict(codes)}, {repeats} repeats")
    print("answers by way: " + ", ".join(f"{way} {count}" for way, count in sorted(told.items())), flush=True)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--database", choices=["sqlite", "postgresql"], default="sqlite")
    parser.add_argument("--workers", type=int, default=2, help="of each hub, on PostgreSQL")
    parser.add_argument("--calls", type=int, default=40, help="that each group makes")
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
