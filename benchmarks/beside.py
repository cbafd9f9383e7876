"""A recorded call beside many on record against one in an empty PostgreSQL database, with the same tools.

    python -m benchmarks.beside --filled ADDRESS --data-dir DIR --empty ADDRESS [--rounds 40] [--calls 50]

`benchmarks.months --data-dir DIR --calls 10000000 …` fills a database. Two hubs run at once, and get one call each in
turn. By processor time of the hub, with its children, and of its database's backends; nothing is sealed meanwhile.
Prints; asserts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from benchmarks import wire
from benchmarks.processes import processor_seconds, tree
from benchmarks.servers import HubPlace, Server, hub

_TOOLS = 50
_SEALING = 0x6D637061
"""The advisory lock of who seals (`invocations/chain/lease.py`)."""
_TABLES = "SELECT reltuples FROM pg_class WHERE relname LIKE 'invocations_mcptoolinvocation%' AND relkind = 'r'"
_WARM = 200
"""Calls that compile, connect and plan."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filled", required=True, help="address of the database with calls on record")
    parser.add_argument("--empty", required=True, help="address of an empty database")
    parser.add_argument("--data-dir", required=True, type=Path, help="of the filled database")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=50, help="to each hub in a round")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-beside-")))
        filled = stack.enter_context(_caller("filled", options.filled, options.data_dir))
        empty = stack.enter_context(_caller("empty", options.empty, folder / "empty"))
        _turns([filled, empty], _WARM)
        rounds = [_turns([filled, empty], options.calls) for _ in range(options.rounds)]
        _report(rounds, options.calls)


class Caller:
    """Calls one hub, one call after the other, on one connection."""

    def __init__(self, server: Server, database: psycopg.Connection[Any]) -> None:
        self._server, self._database = server, database
        self._connection = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self._number = 10_000_000

    def call(self) -> None:
        self._number += 1
        server = self._server
        self._connection.sendall(wire.request(server.port, server.key, "tools/call", server.tool, self._number))
        raw = b""
        while True:
            raw += self._connection.recv(65536)
            head, found, body = raw.partition(b"\r\n\r\n")
            if found and len(body) >= int(wire.headers_of(head)["content-length"]):
                assert b'"result":42' in body, raw
                return

    def costs(self) -> list[float]:
        """Return the processor time, in seconds, of the hub and of its database's backends."""
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        backends = [pid for (pid,) in self._database.execute(query).fetchall()]
        return [processor_seconds(tree(self._server.process.pid)), processor_seconds(backends)]


@contextlib.contextmanager
def _caller(name: str, address: str, data: Path) -> Iterator[Caller]:
    place = HubPlace(Path(sys.executable), data, address, _TOOLS)
    place.furnish()
    with psycopg.connect(address, autocommit=True) as database:
        database.execute("SELECT pg_advisory_lock(%s)", [_SEALING])
        tables = [max(0, rows) for (rows,) in database.execute(_TABLES).fetchall()]
        print(f"{name}: about {sum(tables):.0f} calls in {len(tables)} tables", flush=True)
        with hub(name, place, pinned=False) as server:
            yield Caller(server.with_tool(name, "add_recorded"), database)


def _turns(callers: list[Caller], calls: int) -> list[tuple[float, float, float]]:
    """Return of each hub what so many calls cost: of the hub, of the database, and how long they took."""
    began, waited = [each.costs() for each in callers], [0.0 for _ in callers]
    for number in range(calls):
        for at in (0, 1) if number % 2 else (1, 0):
            start = time.perf_counter()
            callers[at].call()
            waited[at] += time.perf_counter() - start
    ended = [each.costs() for each in callers]
    return [(b[0] - a[0], b[1] - a[1], wait) for a, b, wait in zip(began, ended, waited, strict=True)]


def _report(rounds: list[list[tuple[float, float, float]]], calls: int) -> None:
    parts = {
        "hub": lambda cost: cost[0],
        "database": lambda cost: cost[1],
        "both": lambda cost: cost[0] + cost[1],
        "time waited": lambda cost: cost[2],
    }
    for name, of in parts.items():
        filled, empty = ([of(each[at]) / calls * 1e6 for each in rounds] for at in (0, 1))
        ratios = sorted(other / one for one, other in zip(filled, empty, strict=True))
        print(
            f"{name}: filled {median(filled):.0f} µs, empty {median(empty):.0f} µs a call; {median(ratios):.3f} of an "
            f"empty one (quartiles {ratios[len(ratios) // 4]:.2f} to {ratios[-len(ratios) // 4]:.2f})"
        )


if __name__ == "__main__":
    main()
