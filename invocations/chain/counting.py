"""The tallies in the database: additions of a block, and their expiry. No evidence, and no Django."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from invocations.figures.tallies import KEPT_SECONDS, SUBJECTS, Key, Tally

if TYPE_CHECKING:
    from invocations.chain.log import Log

_Place = tuple[str, int, str, str]
"""Subject, span, slot and name."""
_Known = tuple[_Place, int, int, str]
_PLACE = "v->>0, (v->>1)::int, (v->>2)::timestamptz, v->>3"


def add(log: Log, counted: Mapping[Key, Tally]) -> None:
    """Add to the tallies, within the caller's transaction. A block may hold thousands of them."""
    tallies: dict[_Place, Tally] = {}
    for (span, slot, subject, name), tally in counted.items():
        place = subject, span, _slot(log, slot), name.encode(errors="replace").decode()
        if place in tallies:
            tallies[place].add(tally)
        else:
            tallies[place] = tally
    known = _known_to_sqlite if log.is_sqlite else _known_to_postgresql
    for place, calls, errors, durations in known(log, list(tallies)):
        tallies[place].add(Tally(calls, errors, Tally.load(durations)))
    rows = [(*place, of.calls, of.errors, of.dump()) for place, of in tallies.items()]
    into = "INSERT INTO invocations_calltally (subject, span, slot, name, calls, errors, durations)"
    added = (
        "ON CONFLICT (subject, span, slot, name) DO UPDATE SET "
        "calls = excluded.calls, errors = excluded.errors, durations = excluded.durations"
    )
    if log.is_sqlite:
        log.run_many(f"{into} VALUES (?, ?, ?, ?, ?, ?, ?) {added}", rows)
    else:
        log.run(
            f"{into} SELECT {_PLACE}, (v->>4)::bigint, (v->>5)::bigint, v->>6 FROM json_array_elements(?::json) AS v "  # noqa: S608 - our own text
            f"{added}",
            json.dumps(rows),
        )


def _known_to_sqlite(log: Log, places: list[_Place]) -> Iterator[_Known]:
    for place in places:
        found = log.run(
            "SELECT calls, errors, durations FROM invocations_calltally "
            "WHERE subject = ? AND span = ? AND slot = ? AND name = ?",
            *place,
        ).fetchone()
        if found:
            yield place, *found


def _known_to_postgresql(log: Log, places: list[_Place]) -> Iterator[_Known]:
    """Read them by one statement: PostgreSQL waits for each."""
    found = log.run(
        "SELECT at, calls, errors, durations FROM json_array_elements(?::json) WITH ORDINALITY AS asked (v, at) "  # noqa: S608 - our own text
        f"JOIN invocations_calltally ON (subject, span, slot, name) = ({_PLACE})",
        json.dumps(places),
    )
    for at, calls, errors, durations in found.fetchall():
        yield places[at - 1], calls, errors, durations


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
