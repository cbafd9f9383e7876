"""The parts that measure calls: against peers, on PostgreSQL, with two workers, in sessions, with 1 000 tools."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psycopg

from benchmarks import load
from benchmarks.environments import Environments
from benchmarks.measuring import Bench
from benchmarks.servers import HubPlace, Server, an_answer, hub, peer
from tests.trees import copied
from tests.wire.issuing import foreign_issuer

POSTGRES = "postgres://postgres@127.0.0.1:5432"
_SLICES = 6
"""Of a round where a hundredth is to be seen. Each has a least number of calls: of a few, the time says little."""
RECORDED, READ_ONLY = "add_recorded", "add"


@dataclass
class Place:
    """What the parts share: interpreters, a folder of this run, the hub's places once they are furnished."""

    python: Environments
    folder: Path
    postgres: str
    _hubs: dict[str, HubPlace]

    def hub(self, name: str, *, tools: int = 10, database: str | None = None) -> HubPlace:
        """Return a furnished place of a hub."""
        if name not in self._hubs:
            made = HubPlace(self.python.hub, self.folder / name, database, tools)
            made.furnish()
            self._hubs[name] = made
        return self._hubs[name]


def calls(bench: Bench, place: Place) -> None:
    """The hub on SQLite against bare ASGI, the Python SDK and FastMCP, in the stateless era."""
    part = "calls"
    with contextlib.ExitStack() as running:
        server = running.enter_context(hub("hub", place.hub("sqlite")))
        recorded, reading = server.with_tool("hub, recorded", RECORDED), server.with_tool("hub, read-only", READ_ONLY)
        answer = place.folder / "answer.json"
        answer.write_bytes(an_answer(recorded, load.FIRST_ID))
        bare = running.enter_context(
            peer("bare ASGI", place.python.hub, "bare.py", place.folder, "--answer", str(answer), fixed=True)
        )
        sdk = running.enter_context(peer("SDK, low level", place.python.sdk, "sdk.py", place.folder))
        fast = running.enter_context(peer("FastMCP", place.python.fast, "fast.py", place.folder))
        decorated = running.enter_context(
            peer("SDK, decorated", place.python.sdk, "sdk.py", place.folder, "--decorated")
        )
        goals = {
            1: ((1.4, 2.5), (None, None), (None, None)),
            32: ((10, 15), (2.5, 4), (0.25, 0.40)),
            256: ((None, None), (None, None), (0.45, 0.50)),
        }
        for clients, least in goals.items():
            extra = [decorated] if clients == 32 else []
            found = bench.turns(part, [recorded, reading, bare, sdk, fast, *extra], clients)
            for theirs, wanted in zip((fast, sdk, bare), least, strict=True):
                for ours, factor in zip((recorded, reading), wanted, strict=True):
                    what = f"{ours.name} / {theirs.name}, {_clients(clients)}"
                    bench.compare(part, what, found[ours.name], found[theirs.name], factor)
            if extra:
                what = f"{recorded.name} / {decorated.name}, {_clients(clients)}"
                bench.compare(part, what, found[recorded.name], found[decorated.name])
            busy = max(each["client_busy"] for each in found[bare.name])
            if busy > 0.9:
                bench.notes.append(
                    f"{_clients(clients)}: the client was {busy:.0%} busy against bare ASGI, so its rate may be the "
                    "client's; the ratio of processor time does not depend on that."
                )


def traces(bench: Bench, place: Place) -> None:
    """What traces cost, sent to a collector that takes them at once: none, one in a hundred, all.

    And what the steps of a call cost where nobody records them: a hub whose `tracing.span` and its like do nothing at
    all, not even look whether somebody does. It is there twice, so that what differs by chance is seen beside it.
    Nothing is sealed meanwhile: the sealing process of one hub would run while the next one is measured. And a call
    may wait for its commit as long as on a machine that has much else to do.
    """
    part, quiet = "traces", {"MCPHUB_LIMITS": "seal_seconds=3600", "MCPHUB_LEDGER_TIMEOUT_SECONDS": "60"}
    with contextlib.ExitStack() as running:
        address = running.enter_context(_collector())
        plain = place.hub("untold")
        plain.settings = quiet
        off = running.enter_context(hub("off", plain))
        servers = [off.with_tool("traces off", RECORDED)]
        home = untraced(place.folder / "untraced")
        for words in ("no steps", "no steps, again"):
            without = place.hub(words.replace(", ", "-").replace(" ", "-"))
            without.root, without.settings = home, quiet
            servers.append(running.enter_context(hub(words, without)).with_tool(words, RECORDED))
        for share, words in (("0.01", "1 % traced"), ("1", "all traced")):
            traced = place.hub(f"traced-{share}")
            traced.settings = {**quiet, "MCPHUB_OTLP_ENDPOINT": address, "MCPHUB_TRACE_SHARE": share}
            servers.append(running.enter_context(hub(words, traced)).with_tool(words, RECORDED))
        for clients in (1, 32):
            found = bench.turns(part, servers, clients, slices=_SLICES, least_calls=50 + 10 * clients)
            off_name, bare, again, *traced_names = (each.name for each in servers)
            pairs = [(again, bare, None), (off_name, bare, 0.99), *((name, off_name, None) for name in traced_names)]
            for one, other, least in pairs:
                what = f"{one} / {other}, {_clients(clients)}"
                bench.compare(part, what, found[one], found[other], least, by_processor=True)


def untraced(home: Path) -> Path:
    """Make a copy of the hub in which no step of a call is one; give its folder."""
    with (copied(home) / "sessions_app" / "kit" / "tracing.py").open("a") as module:
        module.write(_NO_STEPS)
    return home


_NO_STEPS = """

def span(*_: object, **__: object) -> NoSpan:
    return NO_SPAN


served = sent = of_call = current = span


def session_ended(*_: object) -> None:
    pass
"""


@contextlib.contextmanager
def _collector() -> Iterator[str]:
    """Return the address of a program that takes what it is sent, and forgets it."""
    words = [sys.executable, "-u", "-c", _COLLECTOR]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.kill()


_COLLECTOR = """
from http.server import BaseHTTPRequestHandler, HTTPServer
class Taker(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()
    def log_message(self, *words):
        pass
server = HTTPServer(("127.0.0.1", 0), Taker)
print(server.server_address[1])
server.serve_forever()
"""


def intents(bench: Bench, place: Place) -> None:
    """What it costs that the calls of read-only tools have their intents on record, too."""
    part = "intents"
    every = place.hub("every-intent")
    every.settings = {"MCPHUB_AUDIT_EVERY_INTENT": "1"}
    with hub("read-only", place.hub("sqlite")) as usual, hub("read-only, every intent", every) as told:
        pair = [server.with_tool(server.name, READ_ONLY) for server in (usual, told)]
        for clients in (1, 32):
            found = bench.turns(part, pair, clients)
            bench.compare(
                part, f"every intent / as usual, {_clients(clients)}", found[pair[1].name], found[pair[0].name]
            )


_TOKENS = """
from datetime import timedelta
from django.contrib.auth.models import User
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application
from sessions_app import tokens
person, client = User.objects.create_user("bench"), Application.objects.create(name="bench")
texts = [tokens.new_text(tokens.ACCESS) for _ in range(COUNT)]
for text in texts:
    row = AccessToken(user=person, application=client, scope="tools:call", resource=["RESOURCE"])
    row.expires, row._raw_token = timezone.now() + timedelta(hours=1), text
    row.save()
print(texts[0])
"""


_ISSUER = """
from mcphub.features.signin.models import Issuer
row = Issuer(name="bench", issuer="URL", enabled=True, keys_address="URL/realms/work/keys")
row.full_clean()
row.save()
"""


def tokens(bench: Bench, place: Place) -> None:
    """What it costs that a person signed the client in, here or at another issuer: a call by token against one by key.

    The hub has 10 000 tokens of its own; the other issuer's is a JWT. And what those add to a start.
    """
    part = "tokens"
    hub_place = place.hub("tokens")
    hub_place.settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1"}
    with foreign_issuer() as issuer, hub("by key", hub_place) as by_key:
        resource = f"http://127.0.0.1:{by_key.port}/mcp"
        script = _TOKENS.replace("COUNT", "10000").replace("RESOURCE", resource)
        token = place.hub("tokens").command("shell", "--verbosity", "0", "-c", script).split()[-1]
        hub_place.command("shell", "--verbosity", "0", "-c", _ISSUER.replace("URL", issuer.origin))
        signed = issuer.token(resource, "bench", iss=issuer.origin)
        by_token = Server(**{**by_key.__dict__, "name": "by token", "key": token})
        by_jwt = Server(**{**by_key.__dict__, "name": "by JWT", "key": signed})
        all_three = [each.with_tool(each.name, READ_ONLY) for each in (by_token, by_jwt, by_key)]
        for clients in (1, 32):
            found = bench.turns(part, all_three, clients)
            for name, least in (("by token", 0.97), ("by JWT", 0.9)):
                bench.compare(part, f"{name} / by key, {_clients(clients)}", found[name], found["by key"], least)
    added = [_start_seconds(hub_place) - _start_seconds(place.hub("sqlite")) for _ in range(bench.rounds)]
    bench.limit(part, "10 000 tokens, added to a start", added, 0.1, "s")


def _start_seconds(where: HubPlace) -> float:
    with hub("hub", where, pinned=False) as server:
        return float(server.extra["start_seconds"])


def before(bench: Bench, place: Place, earlier: HubPlace) -> None:
    """This hub against an earlier one, both on SQLite: what the changes between them cost."""
    part, current = "before", place.hub("sqlite")
    earlier.furnish()
    with hub("now", current) as now, hub("before", earlier) as then:
        for tool, kind in ((RECORDED, "recorded"), (READ_ONLY, "read-only")):
            pair = [server.with_tool(f"{server.name}, {kind}", tool) for server in (now, then)]
            for clients in (1, 32, 256):
                found = bench.turns(part, pair, clients)
                what = f"now / before, {kind}, {_clients(clients)}"
                bench.compare(part, what, found[pair[0].name], found[pair[1].name], 0.97)
        for server in (now, then):
            bench.limit(part, f"resident after it, {server.name}", [server.resident_kib() / 1024], None, "MiB")
    pairs = [(_start_seconds(current), _start_seconds(earlier)) for _ in range(bench.rounds)]
    bench.limit(part, "start on an existing database, now / before", [ours / its for ours, its in pairs], 1.0, "×")


def postgres(bench: Bench, place: Place) -> None:
    """One worker on PostgreSQL against FastMCP."""
    part = "postgres"
    with contextlib.ExitStack() as running:
        server = running.enter_context(_on_postgres(place, bench, part))
        fast = running.enter_context(peer("FastMCP", place.python.fast, "fast.py", place.folder))
        recorded = server.with_tool("hub on PostgreSQL, recorded", RECORDED)
        reading = server.with_tool("hub on PostgreSQL, read-only", READ_ONLY)
        found = bench.turns(part, [recorded, reading, fast], 32)
        for ours, factor in ((recorded, 8), (reading, 12)):
            note = "the database's own processor time is not counted"
            what = f"{ours.name} / FastMCP, 32 clients"
            bench.compare(part, what, found[ours.name], found[fast.name], factor, note=note)


def workers(bench: Bench, place: Place) -> None:
    """Two workers against one, on PostgreSQL. Nothing is pinned here."""
    part = "workers"
    cores = len(os.sched_getaffinity(0))
    note = "" if cores >= 4 else f"{cores} cores for two workers, the database and the client"
    with a_database(place) as database:
        where = place.hub("postgres-workers", database=database)
        with (
            hub("one worker", where, pinned=False) as one,
            hub("two workers", where, "--workers", "2", pinned=False) as two,
        ):
            for tool, kind in ((RECORDED, "recorded"), (READ_ONLY, "read-only")):
                pair = [one.with_tool(f"one worker, {kind}", tool), two.with_tool(f"two workers, {kind}", tool)]
                found = bench.turns(part, pair, 32)
                what = f"two workers / one, {kind}, 32 clients"
                bench.compare(part, what, found[pair[1].name], found[pair[0].name], 1.6, note=note, shown=cores >= 4)


def handshake(bench: Bench, place: Place) -> None:
    """Established sessions of the handshake era, one for each client."""
    part = "handshake"
    with contextlib.ExitStack() as running:
        server = running.enter_context(hub("hub", place.hub("sqlite"))).in_era("hub", "handshake")
        recorded, reading = server.with_tool("hub, recorded", RECORDED), server.with_tool("hub, read-only", READ_ONLY)
        sdk = running.enter_context(
            peer("SDK, stateful", place.python.sdk, "sdk.py", place.folder, "--stateful", era="handshake")
        )
        fast = running.enter_context(
            peer("FastMCP, stateful", place.python.fast, "fast.py", place.folder, "--stateful", era="handshake")
        )
        found = bench.turns(part, [recorded, reading, sdk, fast], 32)
        for ours in (recorded, reading):
            for theirs, factor in ((fast, 10), (sdk, None)):
                what = f"{ours.name} / {theirs.name}, 32 clients"
                bench.compare(part, what, found[ours.name], found[theirs.name], factor)


def tools(bench: Bench, place: Place) -> None:
    """1 000 tools instead of 10: the rate of calls, and of lists against FastMCP."""
    part = "tools"
    with contextlib.ExitStack() as running:
        many = running.enter_context(hub("hub, 1000 tools", place.hub("thousand", tools=1000)))
        few = running.enter_context(hub("hub, 10 tools", place.hub("sqlite")))
        fast = running.enter_context(
            peer("FastMCP, 1000 tools", place.python.fast, "fast.py", place.folder, "--tools", "1000", tools=1000)
        )
        for tool, kind in ((RECORDED, "recorded"), (READ_ONLY, "read-only")):
            pair = [many.with_tool(f"1000 tools, {kind}", tool), few.with_tool(f"10 tools, {kind}", tool)]
            found = bench.turns(part, pair, 32)
            what = f"1000 tools / 10, {kind}, 32 clients"
            bench.compare(part, what, found[pair[0].name], found[pair[1].name], 0.95)
        # A list takes FastMCP so long that a short round would hold a handful.
        longer = {"seconds": max(2.0, bench.seconds), "warm": max(0.5, bench.warm)}
        found = bench.turns("tools/list", [many, fast], 4, method="tools/list", tools=1000, **longer)
        what = "tools/list of 1000 tools / FastMCP, 4 clients"
        bench.compare(part, what, found[many.name], found[fast.name], 250)


# PostgreSQL ----------------------------------------------------------------------------------------------


@contextlib.contextmanager
def _on_postgres(place: Place, bench: Bench, part: str) -> Iterator[Server]:
    with a_database(place) as database, hub("hub", place.hub(f"postgres-{part}", database=database)) as server:
        yield server


def reachable(address: str) -> str:
    """Say why no database can be made there; an empty text if one can."""
    try:
        with psycopg.connect(f"{address}/postgres", connect_timeout=3) as connection:
            row = connection.execute("SELECT rolcreatedb OR rolsuper FROM pg_roles WHERE rolname = user").fetchone()
    except psycopg.Error as error:
        return str(error).strip().splitlines()[0]
    return "" if row and row[0] else "the user may not make databases"


@contextlib.contextmanager
def a_database(place: Place) -> Iterator[str]:
    """Make a database, give its address, and drop it."""
    name = f"mcphub_bench_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(f"{place.postgres}/postgres", autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")  # type: ignore[call-overload]
    try:
        yield f"{place.postgres}/{name}"
    finally:
        with psycopg.connect(f"{place.postgres}/postgres", autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")  # type: ignore[call-overload]


def _clients(number: int) -> str:
    return "1 client" if number == 1 else f"{number} clients"
