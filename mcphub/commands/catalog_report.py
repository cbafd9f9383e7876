"""Report of a load or an import, or of its dry run, on the terminal."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from mcphub.commands.stop import Stop
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from tools_catalog.bundles.entries import Report

_LONGEST_SHOWN = 200
"""Characters of a value in the difference."""


def tell(report: Report, *, dry_run: bool) -> int:
    """Print the effect of a load; Stop if something was refused."""
    for name, why in report.refused:
        print(f"{name}: {why}", file=sys.stderr)
    if report.refused:
        raise Stop(f"mcphub catalog load: nothing was loaded; refused entries: {len(report.refused)}.")
    for name in report.kept:
        print(f"{name}: was edited here and is kept; --overwrite replaces it.", file=sys.stderr)
    for name in report.missing_secrets:
        print(f"The secret {name} does not exist yet; add it with `mcphub secrets set`.", file=sys.stderr)
    if dry_run:
        for line in differences(report):
            print(line)
    counts = {"new": report.created, "changed": report.changed, "unchanged": report.unchanged, "kept": report.kept}
    words = ", ".join(f"{len(names)} {word}" for word, names in counts.items())
    print(f"{words}; dry run, nothing was changed" if dry_run else words)
    return 0


def differences(report: Report) -> Iterator[str]:
    """Return a line for each new entry, and for each changed member its value now and after the load."""
    for name in report.created:
        yield f"+ {name}"
    for name, members in report.differences.items():
        yield f"{'=' if name in report.kept else '~'} {name}"
        for member, (before, after) in members.items():
            yield f"    {member}: {_short(before)} -> {_short(after)}"


def _short(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"
