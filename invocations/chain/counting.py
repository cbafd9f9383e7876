"""The tallies in the database: additions of a block, and their expiry. No evidence, and no Django."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from invocations.figures.tallies import KEPT_SECONDS, SUBJECTS, Key, Tally

if TYPE_CHECKING:
    from invocations.chain.log import Log

_AT_ONCE = 500
"""Names in a statement; databases bound the number of its parameters."""


def add(log: Log, counted: Mapping[Key, Tally]) -> None:
    """Add to the tallies, within the caller's transaction: one subject and slot after the other.

    PostgreSQL waits for each statement, and a block may hold thousands of names.
    """
    alike: dict[tuple[str, int, str], dict[str, Tally]] = {}
    for (span, slot, subject, name), tally in counted.items():
        named = alike.setdefault((subject, span, _slot(log, slot)), {})
        named.setdefault(name.encode(errors="replace").decode(), Tally()).add(tally)
    rows: list[tuple[Any, ...]] = []
    for place, named in alike.items():
        names = list(named)
        for begin in range(0, len(names), _AT_ONCE):
            asked = names[begin : begin + _AT_ONCE]
            known = log.run(
                "SELECT name, calls, errors, durations FROM invocations_calltally WHERE subject = ? AND span = ? "  # noqa: S608 - no foreign text
                f"AND slot = ? AND name IN ({', '.join('?' * len(asked))})",
                *place,
                *asked,
            )
            for name, calls, errors, durations in known.fetchall():
                named[name].add(Tally(calls, errors, Tally.load(durations)))
        rows += [(*place, name, of.calls, of.errors, of.dump()) for name, of in named.items()]
    log.run_many(
        "INSERT INTO invocations_calltally (subject, span, slot, name, calls, errors, durations) "
        "VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT (subject, span, slot, name) DO UPDATE SET "
        "calls = excluded.calls, errors = excluded.errors, durations = excluded.durations",
        rows,
    )


def forget(log: Log, now: datetime, most: int = 2000) -> bool:
    """Delete expired tallies, at most this many of each kind; return whether there may be more.

    Whoever writes waits meanwhile, and after days without a hub a million may be over.
    """
    has_more = False
    for span, seconds in KEPT_SECONDS.items():
        for subject in SUBJECTS:
            removed = log.run(
                "DELETE FROM invocations_calltally WHERE id IN (SELECT id FROM invocations_calltally "
                "WHERE subject = ? AND span = ? AND slot < ? ORDER BY slot LIMIT ?)",
                subject,
                span,
                _slot(log, f"{now - timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%S}"),
                most,
            ).rowcount
            has_more |= removed >= most
    return has_more


def _slot(log: Log, slot: str) -> str:
    return slot.replace("T", " ") + ("" if log.is_sqlite else "+00")
