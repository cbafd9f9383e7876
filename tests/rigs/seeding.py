"""Fill a hub with what years leave behind, fast: calls, sessions, processes, tools and connections.

    python -m tests.rigs.seeding --data-dir /tmp/big --calls 1000000 --tools 5000 --connections 50 [--seal]
        [--database postgres://...] [--days 30] [--seed 1]

Rows are as the ledger writes them: few tools and callers make most calls, sequence follows the time at which a call
ended, one in thirty fails. One seed and time give the same rows. From Python, with Django set up: `calls(...)`,
`catalogue(...)`.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import os
import random
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from sessions_app.protocol import json

Row = tuple[Any, ...]

_AT_ONCE = 20_000
_CALLS_A_SESSION = 50
_CITIES = ["Berlin", "Paris", "Kraków", "Lagos", "Quito", "Osaka", "Perth", "Oslo"]
_PLACES = ["berlin", "paris", "krakow", "lagos", "quito", "osaka", "perth", "oslo"]
_CLIENTS = [
    ("claude-code", "2.1"),
    ("cursor", "1.9"),
    ("vscode", "1.106"),
    ("inspector", "0.17"),
    ("zed", "0.210"),
    ("goose", "1.4"),
    ("own-script", "1"),
    ("old-desktop", "0.3"),
]
_TRANSPORTS = [
    ("streamable-http", "2025-11-25", 50),
    ("streamable-http", "2026-07-28", 34),
    ("stdio", "2025-06-18", 8),
    ("sse", "2024-11-05", 3),
    ("chat", "", 2),
    ("rest", "", 1),
    ("remote", "", 1),
    ("admin", "", 1),
]
_FAILURES = [
    ("execution_error", -31033, False, 40),
    ("invalid_arguments", -32602, False, 25),
    ("timeout", -31012, False, 12),
    ("rate_limited", -31005, True, 9),
    ("upstream_error", -31032, False, 8),
    ("tool_not_found", -32602, False, 4),
    ("forbidden", -31003, False, 1),
    ("interrupted", -31031, False, 1),
]
"""Internal code, JSON-RPC code, retryable, weight."""
_REFUSED = {"invalid_arguments", "rate_limited", "tool_not_found", "forbidden"}


@dataclass
class Seeded:
    """What the rows hold, for who looks for it."""

    tools: list[str] = field(default_factory=list)
    sessions: list[str] = field(default_factory=list)
    processes: list[str] = field(default_factory=list)
    principals: list[str] = field(default_factory=list)
    first: datetime = datetime.min
    last: datetime = datetime.min
    calls: int = 0
    envelopes: int = 0


@dataclass(frozen=True)
class _Session:
    id: str
    principal: str
    label: str
    client: tuple[str, str]
    transport: str
    revision: str
    address: str


_ENVELOPE_COLUMNS = [
    "invocation_id",
    "session_id",
    "process_id",
    "request_id",
    "method",
    "params",
    "tool_name",
    "tool_version",
    "tool_digest",
    "principal",
    "context",
    "received_at",
]
_INVOCATION_COLUMNS = [
    "invocation_id",
    "session_id",
    "process_id",
    "request_id",
    "tool_name",
    "tool_version",
    "tool_digest",
    "arguments",
    "arguments_digest",
    "status",
    "result",
    "error",
    "error_code",
    "jsonrpc_code",
    "retryable",
    "received_at",
    "started_at",
    "finished_at",
    "duration_ms",
    "duplicate_of",
    "occurrences",
    "left_out",
    "connection",
    "transport",
    "protocol_version",
    "principal",
    "caller_label",
    "client_name",
    "client_version",
    "client_address",
    "trace_id",
    "continues",
    "turn_id",
    "tool_call_id",
    "turn_round",
    "replay_of",
]
"""In the order of the rows that are made here."""


class _Choices:
    """Where few are chosen often: the one of rank n about 1/n as often as the first."""

    def __init__(self, values: list[Any], rng: random.Random) -> None:
        self._values, self._rng = values, rng
        self._weights = list(itertools.accumulate(1 / rank for rank in range(1, len(values) + 1)))

    def __call__(self) -> Any:
        return self._rng.choices(self._values, cum_weights=self._weights)[0]


class _Calls:
    """Makes the rows of calls, oldest first: (envelope or None, invocation)."""

    def __init__(self, tools: list[str], days: float, seed: int, end: datetime, moments: str) -> None:
        rng = self.rng = random.Random(seed)
        self._zone = moments
        self._begin, self._days = end.timestamp() - days * 86400, days
        self._tool = _Choices(tools, rng)
        people = [(f"key:{n}", f"team {n}") for n in range(1, 41)] + [(f"user:{n}", f"person{n}") for n in range(1, 11)]
        self._person = _Choices([*people, ("anonymous", "")], rng)
        self._client = _Choices(_CLIENTS, rng)
        self._ways = [way for *way, weight in _TRANSPORTS for _ in range(weight)]
        self._failures = [failure for *failure, weight in _FAILURES for _ in range(weight)]
        self.seeded = Seeded(
            tools,
            [],
            [f"process-{n:04d}" for n in range(20)],
            [name for name, _ in people],
            datetime.fromtimestamp(self._begin, UTC),
            end,
        )
        self.sessions: list[_Session] = []
        self._live = [self._session() for _ in range(30)]
        self._digests = {tool: hashlib.sha256(tool.encode()).hexdigest() for tool in tools}
        self._trace, self._recent = "", [""] * 64

    def _session(self) -> _Session:
        principal, label = self._person()
        transport, revision = self.rng.choice(self._ways)
        made = _Session(
            f"seeded-{len(self.sessions):07d}",
            principal,
            label,
            self._client(),
            transport,
            revision,
            f"10.0.{self.rng.randrange(4)}.{self.rng.randrange(250)}",
        )
        self.sessions.append(made)
        self.seeded.sessions.append(made.id)
        return made

    def _moment(self, seconds: float) -> str:
        whole = int(seconds)
        if whole != self._whole:
            self._whole, self._text = whole, datetime.fromtimestamp(whole, UTC).strftime("%Y-%m-%d %H:%M:%S.")
        return f"{self._text}{int((seconds - whole) * 1e6):06d}{self._zone}"

    _whole, _text = -1, ""

    def rows(self, count: int) -> Iterator[tuple[Row | None, Row]]:
        rng, step = self.rng, self._days * 86400 / max(1, count)
        for number in range(count):
            if number % _CALLS_A_SESSION == 0:
                self._live[rng.randrange(len(self._live))] = self._session()
            at = rng.randrange(len(self._live))
            ended = self._begin + (number + rng.random()) * step
            yield self._call(number, self._live[at], ended)
            self.seeded.calls += 1

    def _call(self, number: int, session: _Session, ended: float) -> tuple[Row | None, Row]:
        rng = self.rng
        tool, process = self._tool(), self.seeded.processes[number * 20 // 10**6 % 20]
        milliseconds = int(rng.lognormvariate(3, 1.4))
        received = ended - milliseconds / 1000
        invocation_id = _uuid7(received, rng)
        arguments = (
            f'{{"city":"{rng.choice(_CITIES)}","items":[{{"count":{rng.randrange(9)},"sku":"a-{rng.randrange(5000)}"}}]'
            f',"note":"{"as asked by the customer " * rng.randrange(1, 5)}"}}'
        )
        digest = hashlib.sha256(arguments.encode()).hexdigest()
        code, jsonrpc, retryable = rng.choice(self._failures) if rng.random() < 0.033 else ("", None, None)
        result = error = None
        if code:
            data = f'{{"errorCode":"{code}","invocationId":"{invocation_id}","retryable":{str(retryable).lower()}}}'
            error = f'{{"code":{jsonrpc},"data":{data},"message":"The call failed."}}'
        else:
            result = f'{{"content":[{{"text":"{"an answer of some length, " * rng.randrange(1, 16)}","type":"text"}}]}}'
        duplicate = self._recent[number % 64] if not code and rng.random() < 0.004 else ""
        rounds = self._recent[number % 64] if not duplicate and rng.random() < 0.002 else None
        self._recent[rng.randrange(64)] = invocation_id
        if rng.random() < 0.3:
            self._trace = f"{rng.getrandbits(128):032x}"
        trace = self._trace if session.revision == "2026-07-28" else ""
        version = str(1 + self._digest_number(tool) % 3)
        moment = self._moment(received)
        request_id = str(number % 977)
        invocation = (
            invocation_id,
            session.id,
            process,
            request_id,
            tool,
            version,
            self._digests[tool],
            arguments,
            digest,
            "error" if code else "ok",
            result,
            error,
            code,
            jsonrpc,
            retryable,
            moment,
            moment,
            self._moment(ended),
            milliseconds,
            duplicate,
            40 if code == "rate_limited" and rng.random() < 0.1 else 1,
            None,
            None,
            session.transport,
            session.revision,
            session.principal,
            session.label,
            *session.client,
            session.address,
            trace,
            rounds,
            None,
            None,
            None,
            None,
        )
        if code in _REFUSED or duplicate or self._digest_number(tool) % 10 < 3:
            return None, invocation
        self.seeded.envelopes += 1
        params = f'{{"arguments":{arguments},"name":{json.canonical(tool)}}}'
        return (
            invocation_id,
            session.id,
            process,
            request_id,
            "tools/call",
            params,
            tool,
            version,
            self._digests[tool],
            session.principal,
            "{}",
            moment,
        ), invocation

    def _digest_number(self, tool: str) -> int:
        return int(self._digests[tool][:4], 16)


def calls(count: int, tools: list[str], *, days: float = 30, seed: int = 1, end: datetime | None = None) -> Seeded:
    """Append `count` calls that ended in the `days` before `end` (now, if absent), with sessions and processes."""
    from invocations.models import McpRequestEnvelope
    from sessions_app.kit.database import Dedicated

    is_first = not McpRequestEnvelope.objects.exists()  # an older one may be open
    database = Dedicated()
    made = _Calls(tools, days, seed, end or datetime.now(UTC), "" if database.is_sqlite else "+00")
    try:
        (_into_sqlite if database.is_sqlite else _into_postgresql)(database.raw, made.rows(count))
    finally:
        database.close()
    _owners(made)
    if is_first:
        _answered()
    return made.seeded


def _answered() -> None:
    """Mark the envelopes as looked at: none of the calls is open, and no hub searches them for one."""
    from django.db.models import Max

    from invocations.models import McpRequestEnvelope, OpenCallMark

    through = McpRequestEnvelope.objects.order_by().aggregate(through=Max("pk"))["through"] or 0
    OpenCallMark.objects.update_or_create(pk=OpenCallMark.ONLY, defaults={"through": through})


def _into_sqlite(raw: Any, rows: Iterator[tuple[Row | None, Row]]) -> None:
    from invocations.ledger.statements import ENVELOPE, INVOCATION

    def statement(table: Any, columns: list[str]) -> str:
        return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})"

    into_envelopes = statement(ENVELOPE, _ENVELOPE_COLUMNS)
    into_invocations = statement(INVOCATION, _INVOCATION_COLUMNS)

    raw.execute("PRAGMA synchronous=OFF")
    raw.execute("PRAGMA cache_size=-400000")
    raw.execute("BEGIN IMMEDIATE")
    for part in _parts(rows):
        raw.executemany(into_envelopes, [envelope for envelope, _ in part if envelope is not None])
        raw.executemany(into_invocations, [invocation for _, invocation in part])
    raw.execute("COMMIT")
    raw.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def _into_postgresql(raw: Any, rows: Iterator[tuple[Row | None, Row]]) -> None:
    from invocations.ledger.statements import ENVELOPE, INVOCATION

    for part in _parts(rows):
        envelopes = [row for row, _ in part if row is not None]
        with raw.transaction(), raw.cursor() as cursor:
            calls_made = [row for _, row in part]
            each = (ENVELOPE, _ENVELOPE_COLUMNS, envelopes), (INVOCATION, _INVOCATION_COLUMNS, calls_made)
            for table, columns, found in each:
                with cursor.copy(f"COPY {table.name} ({', '.join(columns)}) FROM STDIN") as copy:
                    for row in found:
                        copy.write_row(row)
    raw.execute("ANALYZE")


def _parts(rows: Iterator[Any]) -> Iterator[list[Any]]:
    while part := list(itertools.islice(rows, _AT_ONCE)):
        yield part


def _owners(made: _Calls) -> None:
    """The sessions and processes that the calls name: all ended, but for the last ones."""
    from sessions_app.models import McpSession, ServerProcess

    began, ended, seeded = made.seeded.first, made.seeded.last, made.seeded
    have = set(ServerProcess.objects.filter(pk__in=seeded.processes).values_list("pk", flat=True))
    ServerProcess.objects.bulk_create(
        ServerProcess(
            process_id=name,
            version="0.1.0",
            status="stopped",
            host="seeded",
            pid=1,
            started_at=began,
            last_seen_at=ended,
            stopped_at=ended,
        )
        for name in seeded.processes
        if name not in have
    )
    taken = set(McpSession.objects.filter(pk__startswith="seeded-").values_list("pk", flat=True))
    each = (ended - began) / max(1, len(made.sessions))
    McpSession.objects.bulk_create(
        [
            McpSession(
                session_id=of.id,
                transport=of.transport,
                state="closed",
                protocol_version=of.revision,
                client_name=of.client[0],
                client_version=of.client[1],
                principal=of.principal,
                caller_label=of.label,
                created_at=began + at * each,
                initialized_at=began + at * each,
                last_activity_at=began + (at + 1) * each,
                ended_at=began + (at + 1) * each,
                end_reason="seeded",
            )
            for at, of in enumerate(made.sessions)
            if of.id not in taken
        ],
        batch_size=1000,
    )


def catalogue(tools: int, connections: int, seed: int = 1) -> list[str]:
    """Add connections to nowhere, disabled, and `tools` HTTP tools with versions; give the tools' names."""
    from django.db import transaction

    from tools_catalog.models import McpToolDefinition, McpToolVersion
    from tools_catalog.models.upstream import McpConnection

    rng = random.Random(seed)
    made = []
    for number in range(tools):
        name = f"{rng.choice(['list', 'get', 'create', 'delete', 'find'])}_{_PLACES[number % len(_PLACES)]}_{number}"
        properties = {f"field_{n}": {"type": "string", "description": "One of many."} for n in range(number % 6)}
        made.append(
            McpToolDefinition(
                name=name,
                title=name.replace("_", " "),
                description=f"Does what team {number % 50} needs. " * 3,
                input_schema={"type": "object", "properties": properties},
                backend="http",
                read_only=number % 3 == 0,
                destructive=number % 3 == 1,
                enabled=number % 20 != 7,
                timeout_seconds=30.0,
                configuration={"url": f"https://api{number % 50}.example.org/v1/{number}"},
            )
        )
    with transaction.atomic():
        for number in range(connections):
            McpConnection.objects.create(
                slug=f"upstream{number:03d}",
                title=f"Team {number}",
                transport="streamable-http",
                enabled=False,
                url=f"https://mcp{number}.example.org/mcp",
            )
        McpToolDefinition.objects.bulk_create(made, batch_size=500)
        of = McpToolDefinition.objects.in_bulk([tool.name for tool in made], field_name="name")
        McpToolVersion.objects.bulk_create(
            (
                McpToolVersion(
                    tool=tool,
                    version=tool.version,
                    digest=tool.digest(),
                    definition=tool._snapshot(),
                    author_label="seeded",
                )
                for tool in of.values()
            ),
            batch_size=500,
        )
    return [tool.name for tool in made]


def _uuid7(seconds: float, rng: random.Random) -> str:
    bits = int(seconds * 1000) << 80 | 0x7 << 76 | rng.getrandbits(12) << 64 | 0b10 << 62 | rng.getrandbits(62)
    return str(uuid.UUID(int=bits))


def seal() -> int:
    """Seal what stands there, as the sealing process would; give how many rows that was."""
    from invocations.chain import marks, service
    from sessions_app.kit.database import Dedicated

    database = Dedicated()
    try:
        rows = service.sealer_of(database).seal()
        log = service.log_of(database)
        marks.follow(log, log.head().through["invocation"])
        return rows
    finally:
        database.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", required=True)
    parser.add_argument("--database", default="")
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--tools", type=int, default=500)
    parser.add_argument("--connections", type=int, default=0)
    parser.add_argument("--days", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seal", action="store_true")
    options = parser.parse_args()
    setup(options.data_dir, options.database)
    began = time.monotonic()

    def told(what: str) -> None:
        print(f"{what} after {time.monotonic() - began:.1f} s", flush=True)

    tools = catalogue(options.tools, options.connections, options.seed)
    told(f"{len(tools)} tools, {options.connections} connections")
    seeded = calls(options.calls, tools, days=options.days, seed=options.seed)
    told(f"{seeded.calls} calls, {seeded.envelopes} envelopes, {len(seeded.sessions)} sessions")
    if options.seal:
        told(f"{seal()} rows sealed")


def setup(data_dir: str, database: str = "") -> None:
    """Begin Django over a data directory, with a database that is migrated."""
    os.environ |= {"MCPHUB_DATA_DIR": data_dir, "MCPHUB_ALLOW_NOT_DURABLE": "1"}
    if database:
        os.environ["MCPHUB_DATABASE_URL"] = database
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    import django

    django.setup()
    from mcphub.process import first_run

    first_run.migrate()


__all__ = ["Seeded", "calls", "catalogue", "seal", "setup"]

if __name__ == "__main__":
    main()
