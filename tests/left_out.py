"""Says at the end of a run, in a line a reason, what the run left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest


class Summary:
    """A plugin: counts tests that were skipped, by reason, and those that wait for `make rigs`."""

    def __init__(self) -> None:
        self._rigs = 0

    def pytest_deselected(self, items: Sequence[pytest.Item]) -> None:
        self._rigs += sum(item.get_closest_marker("rig") is not None for item in items)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["rigs"] = self._rigs

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Each process of the run collects the same tests; one tells for all."""
        self._rigs = max(self._rigs, getattr(node, "workeroutput", {}).get("rigs", 0))

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        reasons = Counter(_reason(report) for report in terminalreporter.stats.get("skipped", ()))
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"left out: {count} tests. {reason}")
        if self._rigs:
            terminalreporter.write_line(
                f"left to `make rigs`: {self._rigs} tests with npm, PostgreSQL, Chromium, clients of others, or minutes"
            )


def _reason(report: Any) -> str:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    return reason.removeprefix("Skipped: ")
