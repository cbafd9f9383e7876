"""The calls of the thirty days before a demo was made: invented, with the shape that a team's calls have. Pure.

One moment and one seed give the same calls. People work on weekdays; the assistant of the service desk has some work at
night and on weekends; a report runs each night. Orders cannot be listed since yesterday's migration.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from mcphub.features.demo.serving import found

DAYS: Final = 30
BROKEN_FOR: Final = timedelta(hours=22)
"""The error began so long before the end."""
_SHARE_BROKEN = 0.8

_OFFICE: Final = {7: 0.4, 8: 0.8, 9: 1.0, 10: 1.0, 11: 0.9, 12: 0.5, 13: 0.8, 14: 1.0, 15: 0.9, 16: 0.6, 17: 0.2}
_DESK: Final = {hour: _OFFICE.get(hour, 0.08) for hour in range(24)}
_NIGHT: Final = {2: 1.0}


@dataclass(frozen=True, slots=True)
class DemoCaller:
    """Somebody's program: its calls in a busy hour, when it works, and its tools by weight."""

    holder: str
    program: str
    version: str
    revision: str
    workspace: str
    an_hour: float
    hours: Mapping[int, float]
    weekend: float
    tools: Mapping[str, int]
    transport: str = "streamable-http"


CALLERS: Final = (
    DemoCaller(
        "Mia's Claude Desktop",
        "claude-ai",
        "0.14.2",
        "2025-06-18",
        "sales",
        6,
        _OFFICE,
        0.02,
        {"billing.get_invoice": 5, "billing.list_orders": 4, "fetch_url": 2, "add": 2, "current_time": 1},
    ),
    DemoCaller(
        "Ben's Claude Code",
        "claude-code",
        "2.1.4",
        "2025-11-25",
        "sales",
        4,
        _OFFICE,
        0,
        {"billing.list_orders": 3, "billing.get_invoice": 2, "echo": 1},
    ),
    DemoCaller(
        "Jon's VS Code",
        "Visual Studio Code",
        "1.106.1",
        "2025-11-25",
        "platform",
        9,
        _OFFICE,
        0.08,
        {"tracker_search_issues": 6, "tracker_create_issue": 2, "fetch_url": 3, "echo": 1},
    ),
    DemoCaller(
        "Service desk assistant",
        "service-desk.py",
        "4.0",
        "2025-06-18",
        "service-desk",
        7,
        _DESK,
        0.45,
        {"billing.get_invoice": 4, "billing.list_orders": 3, "billing.refund_order": 1, "tracker_create_issue": 2},
    ),
    DemoCaller(
        "Nightly report",
        "report.py",
        "3.2",
        "2025-03-26",
        "",
        14,
        _NIGHT,
        1,
        {"billing.list_orders": 3, "add": 3, "current_time": 1},
    ),
)
_USUAL_MS: Final = {
    "fetch_url": 420,
    "billing.list_orders": 180,
    "billing.get_invoice": 90,
    "billing.refund_order": 260,
}
_UPSTREAM_MS = 140
_OWN_MS = 2
READS: Final = frozenset(
    {"add", "echo", "current_time", "fetch_url", "billing.get_invoice", "billing.list_orders", "tracker_search_issues"}
)


@dataclass(frozen=True, slots=True)
class PastCall:
    caller: DemoCaller
    tool: str
    arguments: dict[str, Any]
    received_at: datetime
    milliseconds: int
    text: str
    """The result; empty where it failed."""
    error: str = ""
    """The internal code of its failure."""


def calls(end: datetime, seed: int = 7) -> list[PastCall]:
    """Return the calls before `end`, in the order in which they ended."""
    lots = random.Random(seed)  # noqa: S311 - the same demo each time
    made = list(_calls(end, lots))
    return sorted(made, key=lambda call: call.received_at + timedelta(milliseconds=call.milliseconds))


def _calls(end: datetime, lots: random.Random) -> Iterator[PastCall]:
    start = end.replace(minute=0, second=0, microsecond=0) - timedelta(days=DAYS)
    for hour in range(DAYS * 24 + 1):
        begins = start + timedelta(hours=hour)
        grown = 0.7 + 0.3 * hour / (DAYS * 24)
        for caller in CALLERS:
            rate = caller.an_hour * caller.hours.get(begins.hour, 0) * grown
            rate *= caller.weekend if begins.weekday() >= 5 else 1
            for _ in range(int(rate * lots.uniform(0.6, 1.4) + lots.random())):
                received = begins + timedelta(seconds=lots.uniform(0, 3600))
                call = _call(caller, received, end, lots)
                if received + timedelta(milliseconds=call.milliseconds) < end:
                    yield call


def _call(caller: DemoCaller, received: datetime, end: datetime, lots: random.Random) -> PastCall:
    [tool] = lots.choices(list(caller.tools), list(caller.tools.values()))
    usual = _USUAL_MS.get(tool, _UPSTREAM_MS if tool.startswith("tracker_") else _OWN_MS)
    milliseconds = max(1, int(usual * lots.lognormvariate(0, 0.6)))
    arguments, text = _exchange(tool, lots)
    if tool == "billing.list_orders" and end - received < BROKEN_FOR and lots.random() < _SHARE_BROKEN:
        return PastCall(caller, tool, arguments, received, milliseconds // 3 + 1, "", "upstream_error")
    fault = lots.random()
    if fault < 0.008:
        return PastCall(caller, tool, {"wrong": lots.randint(1, 9)}, received, 1, "", "invalid_arguments")
    if fault < 0.03 and tool == "fetch_url":
        return PastCall(caller, tool, arguments, received, 30_000, "", "timeout")
    return PastCall(caller, tool, arguments, received, milliseconds, text)


def _exchange(tool: str, lots: random.Random) -> tuple[dict[str, Any], str]:
    """Return arguments for a tool, and the text of a result."""
    number = lots.randint(1000, 4999)
    a, b = lots.randint(10, 900), lots.randint(10, 900)
    exchanges: dict[str, tuple[dict[str, Any], str]] = {
        "add": ({"a": a, "b": b}, str(a + b)),
        "echo": ({"text": f"Minutes of meeting {number}"}, f"Minutes of meeting {number}"),
        "current_time": ({"timezone": "Europe/Berlin"}, "It is office time in Berlin."),
        "fetch_url": ({"url": f"https://handbook.example/pages/{number}"}, f"Page {number} of the handbook."),
        "billing.get_invoice": (
            {"number": f"2026-{number}"},
            f'{{"currency":"EUR","number":"2026-{number}","state":"paid","total":{a}.0}}',
        ),
        "billing.list_orders": ({"customer": str(number)}, f'{{"orders":[{{"order":"A-{number}","total":{b}.0}}]}}'),
        "billing.refund_order": (
            {"amount": a % 100, "order": f"A-{number}"},
            f'{{"amount":{a % 100},"refund":"R-A-{number}","state":"sent"}}',
        ),
        "tracker_search_issues": ({"query": lots.choice(["login page", "timeout", "invoice"])}, found("search_issues")),
        "tracker_create_issue": ({"title": f"Customer {number} cannot log in"}, found("create_issue")),
    }
    return exchanges[tool]
