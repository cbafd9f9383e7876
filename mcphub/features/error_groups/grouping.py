"""Failed calls of a block added to their groups, within the transaction that writes the block: each is counted once,
however many processes seal. No evidence, and no Django.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from mcphub.features.error_groups.normalising import key_of, message_of, normalised

if TYPE_CHECKING:
    from invocations.chain.log import Log

MOST_GROUPS = 5000
"""Of a hub. Further failures are counted by code alone."""
MOST_MESSAGES = 50
"""Per tool and code; other messages are counted together."""
MOST_CALLERS = 20
"""That a group names."""
HOURS, DAYS = 72, 90
"""How many slots a group keeps."""
KEPT = timedelta(days=DAYS)
"""A group goes when it has not occurred for so long."""
_AT_ONCE = 200
_LARGEST_ERROR = 65_536
_TABLE = "invocations_errorgroup"
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$")
_READ = "key, id, hours, days, callers, unnamed_calls"


@dataclass(slots=True)
class GroupGain:
    """A block's additions to one group. `callers`: principal -> label and calls; slots as
    `YYYY-MM-DDTHH` and `…-DD`.
    """

    tool: str
    code: str
    message: str
    calls: int = 0
    first_at: str = ""
    last_at: str = ""
    first_sequence: int = 0
    last_sequence: int = 0
    hours: Counter[str] = field(default_factory=Counter)
    days: Counter[str] = field(default_factory=Counter)
    callers: dict[str, tuple[str, int]] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return key_of(self.tool, self.code, self.message)

    def see(self, row: Mapping[str, Any]) -> None:
        count, moment, sequence = row["occurrences"], row["started_at"], row["id"]
        self.calls += count
        self.first_at = min(self.first_at or moment, moment)
        self.last_at = max(self.last_at, moment)
        self.first_sequence = min(self.first_sequence or sequence, sequence)
        self.last_sequence = max(self.last_sequence, sequence)
        self.hours[moment[:13]] += count
        self.days[moment[:10]] += count
        label, calls = self.callers.get(row["principal"], ("", 0))
        self.callers[row["principal"]] = (row.get("caller_label") or label, calls + count)

    def join(self, other: GroupGain) -> None:
        self.calls += other.calls
        self.first_at = min(self.first_at or other.first_at, other.first_at)
        self.last_at = max(self.last_at, other.last_at)
        self.first_sequence = min(self.first_sequence or other.first_sequence, other.first_sequence)
        self.last_sequence = max(self.last_sequence, other.last_sequence)
        self.hours.update(other.hours)
        self.days.update(other.days)
        for principal, (label, calls) in other.callers.items():
            known, before = self.callers.get(principal, ("", 0))
            self.callers[principal] = (label or known, before + calls)


def gained(log: Log, failed: Sequence[Mapping[str, Any]]) -> list[GroupGain]:
    """Return the additions of a block's failed rows, by group; reads their messages."""
    # A row whose time is none, as after tampering, is left out: it is the proof that must tell of it.
    failed = [row for row in failed if _TIME.match(str(row.get("started_at"))) and type(row["occurrences"]) is int]
    if not failed:
        return []
    messages = dict(
        log.run(
            "SELECT id, CASE WHEN length(error) <= ? THEN error END FROM invocations_mcptoolinvocation "
            "WHERE id >= ? AND id <= ? AND status = 'error'",
            _LARGEST_ERROR,
            failed[0]["id"],
            failed[-1]["id"],
        ).fetchall()
    )
    found: dict[tuple[str, str, str], GroupGain] = {}
    for row in failed:
        # A name that no tool has may be anything that a stranger writes.
        tool = row["tool_name"] if row.get("tool_digest") else ""
        message = normalised(message_of(messages.get(row["id"]))) if tool else ""
        place = (tool, row["error_code"], message)
        found.setdefault(place, GroupGain(*place)).see(row)
    return list(found.values())


def add(log: Log, gains: Sequence[GroupGain], now: datetime) -> None:
    """Add to the groups, within the caller's transaction."""
    if not gains:
        return
    known = _known(log, [gain.key for gain in gains])
    new = [gain for gain in gains if gain.key not in known]
    if new:
        fitted = _fitted(log, new)
        gains = _joined([gain for gain in gains if gain.key in known], fitted)
        known |= _known(log, [gain.key for gain in gains if gain.key not in known])
    for gain in gains:
        if (row := known.get(gain.key)) is None:
            _insert(log, gain, now)
        else:
            _update(log, gain, row, now)


def forget(log: Log, now: datetime, most: int = 500) -> bool:
    """Delete groups that have not occurred for long, or whose last call retention has removed or erased."""
    removed = log.run(
        f"DELETE FROM {_TABLE} WHERE id IN (SELECT id FROM {_TABLE} WHERE last_at < ? OR last_sequence <= "  # noqa: S608 - our own names
        "(SELECT coalesce(max(invocations_through), 0) FROM invocations_audittombstone) LIMIT ?)",
        _moment(log, (now - KEPT).strftime("%Y-%m-%dT%H:%M:%S.%f")),
        most,
    ).rowcount
    return bool(removed >= most)


def _known(log: Log, keys: list[str]) -> dict[str, tuple[Any, ...]]:
    found: dict[str, tuple[Any, ...]] = {}
    for begin in range(0, len(keys), _AT_ONCE):
        part = keys[begin : begin + _AT_ONCE]
        places = ", ".join("?" * len(part))
        rows = log.run(f"SELECT {_READ} FROM {_TABLE} WHERE key IN ({places})", *part)  # noqa: S608 - our own names
        found |= {row[0]: row[1:] for row in rows.fetchall()}
    return found


def _fitted(log: Log, new: list[GroupGain]) -> list[GroupGain]:
    """Return new groups as the bounds allow them: without their message, or without their tool."""
    (room,) = log.run(f"SELECT count(*) FROM {_TABLE}").fetchone()  # noqa: S608 - our own name
    places = {(gain.tool, gain.code) for gain in new}
    held: Counter[tuple[str, str]] = Counter()
    for tool, code in places:
        asked = f"SELECT count(*) FROM {_TABLE} WHERE tool_name = ? AND error_code = ?"  # noqa: S608 - our own name
        held[tool, code] = log.run(asked, tool, code).fetchone()[0]
    fitted = []
    for gain in new:
        place = (gain.tool, gain.code)
        if held[place] >= MOST_MESSAGES:
            gain.message = ""
        if room >= MOST_GROUPS:
            gain.tool = gain.message = ""
        held[place] += 1
        room += 1
        fitted.append(gain)
    return fitted


def _joined(*parts: list[GroupGain]) -> list[GroupGain]:
    found: dict[str, GroupGain] = {}
    for gain in (each for part in parts for each in part):
        if gain.key in found:
            found[gain.key].join(gain)
        else:
            found[gain.key] = gain
    return list(found.values())


def _insert(log: Log, gain: GroupGain, now: datetime) -> None:
    named, unnamed = _callers({}, gain.callers)
    values = {
        "key": gain.key,
        "tool_name": gain.tool,
        "error_code": gain.code,
        "message": gain.message.encode(errors="replace").decode(),
        "calls": gain.calls,
        "first_at": _moment(log, gain.first_at),
        "last_at": _moment(log, gain.last_at),
        "first_sequence": gain.first_sequence,
        "last_sequence": gain.last_sequence,
        "hours": _slots({}, gain.hours, HOURS),
        "days": _slots({}, gain.days, DAYS),
        "callers": json.dumps(named),
        "unnamed_calls": unnamed,
        "state": "open",
        "state_at": _moment(log, now.strftime("%Y-%m-%dT%H:%M:%S.%f")),
        "state_by": "",
        "reopened": False,
    }
    names, places = ", ".join(values), ", ".join("?" * len(values))
    log.run(f"INSERT INTO {_TABLE} ({names}) VALUES ({places})", *values.values())  # noqa: S608 - our own names


def _update(log: Log, gain: GroupGain, row: tuple[Any, ...], now: datetime) -> None:
    number, hours, days, callers, unnamed = row
    named, more = _callers(json.loads(callers), gain.callers)
    least, most = ("min", "max") if log.is_sqlite else ("LEAST", "GREATEST")
    at = "?" if log.is_sqlite else "CAST(? AS timestamptz)"
    last = _moment(log, gain.last_at)
    log.run(
        f"UPDATE {_TABLE} SET calls = calls + ?, first_at = {least}(first_at, {at}), last_at = {most}(last_at, {at}), "  # noqa: S608 - our own names
        f"last_sequence = {most}(last_sequence, ?), hours = ?, days = ?, callers = ?, unnamed_calls = ? WHERE id = ?",
        gain.calls,
        _moment(log, gain.first_at),
        last,
        gain.last_sequence,
        _slots(json.loads(hours), gain.hours, HOURS),
        _slots(json.loads(days), gain.days, DAYS),
        json.dumps(named),
        unnamed + more,
        number,
    )
    # What was resolved and fails again is open; what an operator decides meanwhile stays.
    log.run(
        f"UPDATE {_TABLE} SET state = 'open', reopened = ?, state_by = '', state_at = ? "  # noqa: S608 - our own name
        "WHERE id = ? AND state = 'resolved' AND state_at < ?",
        True,
        _moment(log, now.strftime("%Y-%m-%dT%H:%M:%S.%f")),
        number,
        last,
    )


def _callers(held: dict[str, list[Any]], more: Mapping[str, tuple[str, int]]) -> tuple[dict[str, list[Any]], int]:
    """Return the callers that a group names, and the calls of those that it has no room for."""
    unnamed = 0
    for principal, (label, calls) in more.items():
        if principal in held:
            held[principal] = [label or held[principal][0], held[principal][1] + calls]
        elif len(held) < MOST_CALLERS:
            held[principal] = [label, calls]
        else:
            unnamed += calls
    return held, unnamed


def _slots(held: dict[str, int], more: Counter[str], most: int) -> str:
    for slot, calls in more.items():
        held[slot] = held.get(slot, 0) + calls
    return json.dumps({slot: held[slot] for slot in sorted(held)[-most:]})


def _moment(log: Log, moment: str) -> str:
    """Return a time in UTC as the database stores it."""
    words = moment.rstrip("Z").replace("T", " ")
    return words if log.is_sqlite else f"{words}+00"
