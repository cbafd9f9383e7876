"""A recorded call beside many on record against one in an empty PostgreSQL database, with the same tools.

    python -m benchmarks.beside --filled ADDRESS --data-dir DIR --empty ADDRESS [--rounds 20] [--calls 400] [--clients 4]

`benchmarks.months --data-dir DIR --calls 10000000 …` fills a database. Two hubs run at once, and take turns. By
processor time of the hub, with its children, and of its database's backends; nothing is sealed meanwhile. Prints;
asserts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import psycopg

from benchmarks.processes import processor_seconds
from benchmarks.servers import HubPlace, Server, hub, load

_TOOLS = 50
_SEALING = 0x6D637061
"""The advisory lock of who seals (`invocations/chain/lease.py`)."""
_CALLS = "SELECT reltuples::bigint FROM pg_class WHERE relname LIKE 'invocations_mcptoolinvocation%' AND relkind = 'r'"
Costs = dict[str, list[float]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filled", required=True, help="address of the database with calls on record")
    parser.add_argument("--empty", required=True, help="address of an empty database")
    parser.add_argument("--data-dir", required=True, type=Path, help="of the filled database")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=400, help="in one turn of one hub")
    parser.add_argument("--clients", type=int, default=4)
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-beside-")))
        places = {"filled": (options.filled, options.data_dir), "empty": (options.empty, folder / "empty")}
        turns = {name: stack.enter_context(_hub(name, *where)) for name, where in places.items()}
        costs: dict[str, Costs] = {name: {"hub": [], "database": []} for name in turns}
        for number in range(options.rounds + 1):
            for name in sorted(turns, reverse=bool(number % 2)):
                hub_us, database_us = turns[name].take(options.clients, options.calls)
                if number:  # the first calls compile and plan
                    costs[name]["hub"].append(hub_us)
                    costs[name]["database"].append(database_us)
        _report(costs)


class Turns:
    def __init__(self, server: Server, database: psycopg.Connection[Any]) -> None:
        self._server, self._database = server, database

    def take(self, clients: int, calls: int) -> tuple[float, float]:
        """Make calls; return the processor time of the hub and of the database for each, in microseconds."""
        began = processor_seconds(self._backends())
        found = load(self._server, clients=clients, seconds=0, warm=0, calls=calls)
        return found["server_us_per_call"], (processor_seconds(self._backends()) - began) / found["calls"] * 1e6

    def _backends(self) -> list[int]:
        query = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        return [pid for (pid,) in self._database.execute(query).fetchall()]


@contextlib.contextmanager
def _hub(name: str, address: str, data: Path) -> Any:
    place = HubPlace(Path(sys.executable), data, address, _TOOLS)
    place.furnish()
    with psycopg.connect(address, autocommit=True) as database:
        database.execute("SELECT pg_advisory_lock(%s)", [_SEALING])
        calls = sum(max(0, rows) for (rows,) in database.execute(_CALLS).fetchall())
        print(f"{name}: {calls} calls in about {len(database.execute(_CALLS).fetchall())} tables", flush=True)
        with hub(name, place, pinned=False) as server:
            yield Turns(server.with_tool(name, "add_recorded"), database)


def _report(costs: dict[str, Costs]) -> None:
    for name, each in costs.items():
        print(f"{name}: hub {median(each['hub']):.0f} µs, database {median(each['database']):.0f} µs a call")
    for what in ("hub", "database", "both"):
        empty, filled = (
            [sum(of) for of in zip(*(costs[name].values()), strict=True)] if what == "both" else costs[name][what]
            for name in ("empty", "filled")
        )
        ratios = [one / other for one, other in zip(empty, filled, strict=True)]
        print(
            f"{what}: {median(ratios):.3f} of an empty one ({min(ratios):.2f} to {max(ratios):.2f}, {len(ratios)} turns)"
        )


if __name__ == "__main__":
    main()
