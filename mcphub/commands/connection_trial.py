"""The test of connections on the command line: each step is printed, and offers are approved if requested."""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, TextIO

from sessions_app.kit.shown import visible

if TYPE_CHECKING:
    from tools_catalog.discovery.watching import TrialState
    from tools_catalog.models import McpConnection

_AGAIN_SECONDS: Final = 5
"""Between two lines about a program that writes nothing."""


def try_out(rows: Sequence[McpConnection], *, approve: bool, as_json: bool = False) -> int:
    """Try connections and print each step; status 1 where one fails."""
    from mcphub.commands.rows import print_json
    from tools_catalog.discovery import trying

    logging.getLogger("tools_catalog").setLevel(logging.WARNING)  # each step is printed here
    failed, told = 0, []
    for start in range(0, len(rows), trying.MOST_AT_ONCE):
        tell = TrialLines(sys.stderr) if sys.stderr.isatty() and not as_json else None
        for tried in trying.try_out(rows[start : start + trying.MOST_AT_ONCE], tell=tell):
            failed += not tried.is_good
            steps = [{"kind": step.kind, "ok": step.is_good, "outcome": str(step.outcome)} for step in tried.steps]
            told.append({"name": tried.connection.slug, "ok": tried.is_good, "steps": steps})
            for step in () if as_json else tried.steps:
                mark = "ok" if step.is_good else "FAILED"
                print(f"{tried.connection.slug}: {step.kind} {mark}: {step.outcome}")
    approved: dict[str, int] = {}
    if approve:
        failed += _approve(rows, approved)
    for slug, number in () if as_json else approved.items():
        print(f"{slug}: {number} approved")
    if as_json:
        print_json([{**each, "approved": approved.get(str(each["name"]), 0)} for each in told])
    return 1 if failed else 0


class TrialLines:
    """Writes to a terminal what tests are doing: new lines of their programs, and how long each has been waited for."""

    def __init__(self, to: TextIO) -> None:
        self._to = to
        self._written: dict[str, str] = {}
        self._waited: dict[str, int] = {}

    def __call__(self, slug: str, sight: TrialState) -> None:
        before, now = self._written.get(slug, ""), sight.stderr
        end = now.rfind("\n") + 1 if not sight.is_done else len(now)
        *_, last = ["", *before.splitlines()]
        fresh = now[:end] if not last else now[now.rfind(last) + len(last) : end].lstrip("\n")
        for line in fresh.splitlines():
            print(f"{slug}: {sight.seconds} s: {visible(line, one_line=True)}", file=self._to)
        self._written[slug] = now[:end]
        if fresh or sight.is_done or sight.seconds < self._waited.get(slug, 0) + _AGAIN_SECONDS:
            return
        self._waited[slug] = sight.seconds
        loaded = f", {sight.loaded_bytes / 1e6:.1f} MB in its folder" if sight.loaded_bytes else ""
        print(f"{slug}: {sight.seconds} s: waiting ({sight.stage}{loaded})", file=self._to)


def _approve(rows: Sequence[McpConnection], count: dict[str, int]) -> int:
    """Approve the offers, and count them by connection; return the number refused."""
    from tools_catalog.discovery import reconcile, trying

    refused = 0
    for offer in trying.waiting(rows):
        try:
            reconcile.approve(offer, author="mcphub connection", reason="approved on the command line")
        except reconcile.ApprovalRefused as error:
            refused += 1
            print(f"{offer.connection.slug}: {offer.upstream_name[:100]} is not served: {error}", file=sys.stderr)
        else:
            count[offer.connection.slug] = count.get(offer.connection.slug, 0) + 1
    for offer in trying.refused(rows):
        name = json.dumps(offer.upstream_name[:100])  # it is the upstream's: no line of the terminal
        print(f"{offer.connection.slug}: {name} is not served: {offer.refusal}", file=sys.stderr)
    return refused
