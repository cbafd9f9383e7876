"""How fast an audit of a million calls is read: the first page of each filter, an export, a verification.

    python -m benchmarks.audit [--calls 1000000] [--rounds 20] [--postgres ADDRESS] [--data-dir DIR] [--only PART]...

Seeds the database (`tests/rigs/seeding.py`) unless --data-dir holds one, starts a hub over it, and asks over REST.
Each filter is asked for what is frequent, for what is rare and for what is not there. Prints; asserts nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx2

from tests.servers import ROOT, Hub, postgres_database

PARTS = ("filters", "figures", "export", "verify")
ABSENT = "0" * 32


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=20, help="requests a filter")
    parser.add_argument("--database", default="", help="address of a PostgreSQL database that is seeded, or empty")
    parser.add_argument("--postgresql", action="store_true", help="on a PostgreSQL database of its own")
    parser.add_argument("--data-dir", type=Path, help="keep, or use again, what is seeded there")
    parser.add_argument("--only", action="append", choices=PARTS)
    parser.add_argument("--limit-ms", type=float, default=300, help="marks the filters whose p95 is above")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        address = options.database
        if options.postgresql:
            address = stack.enter_context(postgres_database())
        folder = options.data_dir or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mcphub-audit-")))
        environment = {"MCPHUB_DATABASE_URL": address} if address else {}
        seeded = (folder / "data" / "seeded").exists()
        if not seeded:
            _seed(folder / "data", address, options.calls)
        parts = options.only or PARTS
        if "filters" in parts or "figures" in parts:
            with Hub(folder, environment=environment) as hub:
                hub.key = hub.command("token", "create", "bench", "--scope", "audit:read").split()[-1]
                with httpx2.Client(base_url=hub.url, timeout=120) as http:
                    http.headers["Authorization"] = f"Bearer {hub.key}"
                    if "filters" in parts:
                        _filters(http, options.rounds, options.limit_ms)
                    if "figures" in parts:
                        _figures(http, max(3, options.rounds // 4))
        if "export" in parts:
            _command(folder, environment, "export", "audit", "export", "-o", os.devnull)
            _command(folder, environment, "export as CSV", "audit", "export", "--format", "csv", "-o", os.devnull)
        if "verify" in parts:
            _command(folder, environment, "verify", "audit", "verify")
    return 0


def _seed(data: Path, address: str, calls: int) -> None:
    words = ["--data-dir", str(data), "--database", address, "--calls", str(calls), "--tools", "500", "--seal"]
    subprocess.run([sys.executable, "-m", "tests.rigs.seeding", *words], cwd=ROOT, check=True)
    (data / "seeded").touch()


def questions(
    newest: dict[str, Any], oldest: dict[str, Any], rare: dict[str, Any]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Return (name, query). Values are taken of rows: the newest, the oldest, one that failed."""
    now = datetime.fromisoformat(newest["started_at"])
    begin = datetime.fromisoformat(oldest["started_at"])

    def at(part: float) -> str:
        return (begin + (now - begin) * part).isoformat()

    yield "none", {}
    for part in (0.0, 0.5, 0.99, 1.1):
        yield f"started_after, {part:.0%} of the time", {"started_after": at(part)}
    for part in (-0.1, 0.01, 0.5, 1.1):
        yield f"started_before, {part:.0%} of the time", {"started_before": at(part)}
    yield "an hour in the middle", {"started_after": at(0.5), "started_before": at(0.5014)}
    yield "half of the time", {"started_after": at(0.25), "started_before": at(0.75)}
    columns = {
        "tool": "tool_name",
        "version": "tool_version",
        "tool_digest": "tool_digest",
        "principal": "principal",
        "client": "client_name",
        "client_version": "client_version",
        "client_address": "client_address",
        "protocol_version": "protocol_version",
        "process": "process_id",
        "session": "session_id",
        "trace_id": "trace_id",
        "arguments_digest": "arguments_digest",
        "request_id": "request_id",
        "duplicate_of": "invocation_id",
        "continues": "invocation_id",
        "replay_of": "invocation_id",
        "called_by": "invocation_id",
        "turn": "turn_id",
        "connection": "connection",
    }
    for name, column in columns.items():
        for which, row in (("newest", newest), ("oldest", oldest)):
            if row[column] not in ("", None):
                yield f"{name}, of the {which}", {name: str(row[column])}
        yield f"{name}, absent", {name: ABSENT}
    for name, values in {
        "status": ("ok", "error"),
        "transport": ("streamable-http", "remote"),
        "retryable": ("true", "false"),
        "duplicate": ("true", "false"),
        "interrupted": ("true", "false"),
        "incomplete": ("true", "false"),
        "jsonrpc_code": ("-31033", "-1"),
        "error_code": ("execution_error", "interrupted", "server_busy"),
        "min_occurrences": ("2", "1000"),
        "min_duration_ms": ("10", "1000", "10000000"),
        "max_duration_ms": ("0", "10"),
    }.items():
        for value in values:
            yield f"{name}={value}", {name: value}
    tool, rarely = newest["tool_name"], rare["tool_name"]
    yield "frequent tool, absent trace", {"tool": tool, "trace_id": ABSENT}
    yield "frequent tool, errors", {"tool": tool, "status": "error"}
    yield "frequent tool, other client", {"tool": tool, "client": "no one"}
    of_day = {"started_after": at(0.5), "started_before": at(0.5334)}
    yield "frequent tool, errors, a day in the middle", {"tool": tool, "status": "error", **of_day}
    yield "rare tool, errors, a day in the middle", {"tool": rarely, "status": "error", **of_day}
    yield "principal, a day in the middle", {"principal": newest["principal"], **of_day}
    yield "rare principal, half of the time", {"principal": rare["principal"], "started_before": at(0.5)}
    yield "session, a day it is not of", {"session": newest["session_id"], **of_day}
    yield "frequent tool, long calls", {"tool": tool, "min_duration_ms": "5000"}
    yield "errors, long calls, a day", {"status": "error", "min_duration_ms": "5000", **of_day}
    yield "frequent tool, absent version", {"tool": tool, "version": "99"}
    yield "frequent tool, arguments absent", {"tool": tool, "arguments": '$.city="Nowhere"'}
    yield "rare tool, errors of a week", {"tool": rarely, "status": "error", "started_after": at(0.75)}
    yield "principal, errors, client", {"principal": newest["principal"], "status": "error", "client": "zed"}
    yield "absent client of half of the time", {"client": "no one", "started_after": at(0.5)}
    yield "arguments, a day", {"arguments": '$.city="Berlin"', "started_after": at(0.967)}
    yield "arguments, absent, all of the time", {"arguments": '$.city="Nowhere"', "started_after": at(0)}
    yield "result, absent, a week", {"result": '$.no="Nowhere"', "started_after": at(0.75)}


def _filters(http: httpx2.Client, rounds: int, limit_ms: float) -> None:
    newest = _rows(http, {"limit": "1", "protocol_version": "2026-07-28"})[0]
    oldest_time = {"started_before": (datetime.now(UTC) - timedelta(days=29)).isoformat()}
    oldest = _rows(http, {"limit": "1", **oldest_time})[0]
    rare = _rows(http, {"limit": "1", "status": "error", **oldest_time})[0]
    print(f"{'first page of 50':<44}{'median':>10}{'p95':>10}{'longest':>10}  rows")
    slow = 0
    for name, query in questions(newest, oldest, rare):
        took, rows, more = _timed(http, "/api/invocations/", query, rounds)
        over = took[-1 - len(took) // 20] > limit_ms
        slow += over
        print(f"{name:<44}{_three(took)}  {rows}{'+' if more else ''}{'  SLOW' if over else ''}", flush=True)
    print(f"{slow} filters above {limit_ms:g} ms at p95", flush=True)


def _figures(http: httpx2.Client, rounds: int) -> None:
    end = datetime.fromisoformat(_rows(http, {"limit": "1"})[0]["started_at"])
    for path in ("facets", "statistics"):
        for days in (1, 7, 30):
            query = {"started_after": (end - timedelta(days=days)).isoformat(), "started_before": end.isoformat()}
            took, _, _ = _timed(http, f"/api/invocations/{path}/", query, rounds)
            print(f"{path + f', {days} days':<44}{_three(took)}", flush=True)


def _timed(http: httpx2.Client, path: str, query: dict[str, str], rounds: int) -> tuple[list[float], int, bool]:
    took = []
    body: dict[str, Any] = {}
    for _ in range(rounds):
        began = time.perf_counter()
        answer = http.get(path, params=query)
        took.append((time.perf_counter() - began) * 1000)
        assert answer.status_code == 200, answer.text
        body = answer.json()
    return sorted(took), len(body.get("results", ())), bool(body.get("next"))


def _three(took: list[float]) -> str:
    return f"{median(took):>7.0f} ms{took[-1 - len(took) // 20]:>7.0f} ms{took[-1]:>7.0f} ms"


def _rows(http: httpx2.Client, query: dict[str, str]) -> Any:
    """Return the first rows, from whatever page holds them: one may end early."""
    answer = http.get("/api/invocations/", params=query)
    while True:
        assert answer.status_code == 200, answer.text
        page = answer.json()
        if page["results"] or not page["next"]:
            return page["results"]
        answer = http.get(page["next"])


_MEASURE = """
import json, os, subprocess, sys
process = subprocess.Popen(sys.argv[1:])
_, status, used = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(json.dumps([process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss]))
"""
"""A small program between, since Linux counts the most memory of who starts a process as the process's own, too."""


def _command(folder: Path, environment: dict[str, str], name: str, *words: str) -> None:
    """Run a command alone; say its time, its processor time and the most memory that it took."""
    settings = {**os.environ, "MCPHUB_DATA_DIR": str(folder / "data"), "MCPHUB_ALLOW_NOT_DURABLE": "1", **environment}
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-c", _MEASURE, sys.executable, "-m", "mcphub.cli", *words],
        cwd=ROOT,
        env=settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    seconds = time.perf_counter() - began
    *said, measured = done.stdout.strip().splitlines()
    status, processor, kilobytes = json.loads(measured)
    print(
        f"{name}: {seconds:.1f} s, {processor:.1f} s of processor, {kilobytes / 1024:.0f} MB at most, "
        f"status {status}. {' '.join(said[-2:])}",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
