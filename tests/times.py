"""A pytest plugin, `-p tests.times`: where the seconds of a run went. `make test-times` loads it.

For each test: seconds by the clock and of processors, waiting, programs and hubs that were started, databases and
migrations. Fixtures of a module or package count for the test that meets them first or last. Processors' seconds of a
program count where the program ends. What the tables print is in the file that `MCPHUB_TEST_TIMES` names, too, as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import Any

import pytest

_COSTS = ("programs", "hubs", "hub_seconds", "databases", "migrations", "browsers", "installs")
_STEPS = ("setup", "call", "teardown")
_FILES_SHOWN = 40
_TESTS_SHOWN = 40
_KEY = "mcphub times"

Row = dict[str, Any]


class _Meter:
    """In each process of the run: counts what a test starts, by audit events, and adds its figures to its report."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = defaultdict(float)
        self._began_at = time.monotonic()
        self._steps: dict[str, float] = {}
        self._worked = (0.0, 0.0)
        sys.addaudithook(self._count)

    def _count(self, event: str, arguments: Any) -> None:
        if event == "subprocess.Popen":
            words = " ".join(os.fsdecode(word) for word in arguments[1]) if not isinstance(arguments[1], str) else ""
            self._counts["programs"] += 1
            self._counts["hubs"] += "mcphub.cli serve" in words
            self._counts["migrations"] += "migrate" in words
            self._counts["browsers"] += "playwright" in words or "chromium" in words
            self._counts["installs"] += " install" in words and ("pip" in words or "npm" in words)
        elif event == "tests.hub_ready":
            self._counts["hub_seconds"] += arguments[0]
        elif event == "tests.database":
            self._counts["databases"] += 1

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._counts.clear()
        self._steps, self._worked = {}, _worked()
        self._item_began_at = time.monotonic()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: Any) -> Generator[None, Any, Any]:
        report = yield
        self._steps[call.when] = call.duration
        if call.when == "teardown":
            own, of_programs = (now - then for now, then in zip(_worked(), self._worked, strict=True))
            row = {name: round(self._steps.get(name, 0.0), 4) for name in _STEPS}
            row |= {name: round(self._counts[name], 3) for name in _COSTS if self._counts[name]}
            row |= {"own": round(own, 4), "of_programs": round(of_programs, 4)}
            row |= {
                "worker": os.environ.get("PYTEST_XDIST_WORKER", "one"),
                "begins": round(self._item_began_at - self._began_at, 3),
            }
            report.user_properties.append((_KEY, row))
        return report


class _Table:
    """In the process that prints: the rows of all processes, and the tables of them."""

    def __init__(self) -> None:
        self._rows: dict[str, Row] = {}
        self._began_at = time.monotonic()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        row = dict(report.user_properties).get(_KEY)
        if isinstance(row, dict):
            self._rows[report.nodeid] = row

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        write = terminalreporter.write_line
        for row in self._rows.values():
            row["wall"] = sum(row[step] for step in _STEPS)
            row["waiting"] = max(0.0, row["wall"] - row["own"] - row["of_programs"])
        seconds = time.monotonic() - self._began_at
        rows = self._rows.items()
        write(f"\n{len(self._rows)} tests in {seconds:.0f} s by the clock")
        self._write_costs(write, seconds)
        _write_groups(write, "folder", rows, _folder)
        _write_groups(write, "file", rows, lambda test: test.partition("::")[0], _FILES_SHOWN)
        _write_groups(write, "test", rows, lambda test: test, _TESTS_SHOWN)
        kept = os.environ.get("MCPHUB_TEST_TIMES")
        if kept:
            Path(kept).write_text(json.dumps(self._rows, indent=0))
            write(f"{kept} has each test")

    def _write_costs(self, write: Callable[[str], None], seconds: float) -> None:
        total = _sum(self._rows.values())
        write(f"\n{'kind of cost':<44}{'number':>8}{'seconds':>9}")
        for kind, number, spent in (
            ("setup of tests, with fixtures", len(self._rows), total["setup"]),
            ("calls of tests", len(self._rows), total["call"]),
            ("teardown of tests, with fixtures", len(self._rows), total["teardown"]),
            ("processors, in the processes of pytest", "", total["own"]),
            ("processors, in programs that ended", total["programs"], total["of_programs"]),
            ("waiting, with nothing of a test at work", "", total["waiting"]),
            ("hubs, until ready", total["hubs"], total["hub_seconds"]),
            ("databases copied from a template", total["databases"], ""),
            ("migrations in programs", total["migrations"], ""),
            ("browsers", total["browsers"], ""),
            ("installs", total["installs"], ""),
        ):
            spent = f"{spent:.0f}" if isinstance(spent, float) else spent
            write(f"{kind:<44}{number:>8.0f}{spent:>9}" if number != "" else f"{kind:<44}{'':>8}{spent:>9}")
        write(f"\n{'process of the run':<24}{'tests':>7}{'first at':>10}{'busy':>8}{'last at':>9}")
        workers: dict[str, list[Row]] = defaultdict(list)
        for row in self._rows.values():
            workers[row["worker"]].append(row)
        for worker, held in sorted(workers.items()):
            first = min(row["begins"] for row in held)
            last = max(row["begins"] + row["wall"] for row in held)
            busy = sum(row["wall"] for row in held)
            write(f"{worker:<24}{len(held):>7}{first:>10.0f}{busy:>8.0f}{last:>9.0f}")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(_Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Table())


def _folder(test: str) -> str:
    parts = test.partition("::")[0].split("/")
    return "/".join(parts[:3] if parts[1:2] in (["mcphub"], ["invocations"], ["tools_catalog"]) else parts[:2])


def _write_groups(
    write: Callable[[str], None],
    title: str,
    rows: Iterable[tuple[str, Row]],
    key: Callable[[str], str],
    most: int | None = None,
) -> None:
    groups: dict[str, list[Row]] = defaultdict(list)
    for test, row in rows:
        groups[key(test)].append(row)
    sums = sorted(((_sum(held), name) for name, held in groups.items()), key=lambda each: -each[0]["wall"])
    write(
        f"\n{title:<64}{'tests':>6}{'wall':>8}{'setup':>8}{'own':>8}{'theirs':>8}{'waits':>8}{'hubs':>6}{'until':>7}"
        f"{'starts':>7}"
    )
    for total, name in sums[:most]:
        write(
            f"{name[-63:]:<64}{total['tests']:>6.0f}{total['wall']:>8.1f}{total['setup']:>8.1f}{total['own']:>8.1f}"
            f"{total['of_programs']:>8.1f}{total['waiting']:>8.1f}{total['hubs']:>6.0f}{total['hub_seconds']:>7.1f}"
            f"{total['programs']:>7.0f}"
        )


def _sum(rows: Iterable[Row]) -> dict[str, float]:
    total: dict[str, float] = defaultdict(float)
    for row in rows:
        total["tests"] += 1
        for name in ("wall", *_STEPS, "own", "of_programs", "waiting", *_COSTS):
            total[name] += row.get(name, 0.0)
    return total


def _worked() -> tuple[float, float]:
    """Return the seconds of processors that this process took, and those of its programs that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time(), ended.ru_utime + ended.ru_stime
