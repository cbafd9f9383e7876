"""Alarms of the audit: kept in a file outside the database and in the verdict within, open until a person lifts them.

Whoever rewrites the log can make it agree with itself, and the next verification finds nothing. So an alarm, once
raised, stays: each process compares both places at its start and now and then, and copies missing alarms between
them. An alarm is lifted by a command, with a reason, which the history records and seals. Needs no Django.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from invocations.chain import watching

if TYPE_CHECKING:
    from invocations.chain.log import Log

LIFTED = "audit.alarm_lifted"
"""The kind of the event that records it."""
_MOST_CHARACTERS = 1000
_MOST_BYTES = 4 * 2**20


@dataclass(frozen=True, slots=True)
class OpenAlarm:
    """The finding, and the time of the first one."""

    id: str
    at: str
    problem: str


class AlarmFile:
    """Alarms and their ends, a line of JSON each, beside the checkpoints outside the database."""

    def __init__(self, checkpoints: Path) -> None:
        self.path = checkpoints.with_name(f"{checkpoints.name}.alarms")

    def open(self, recorded: Iterable[str] | None = None) -> list[OpenAlarm]:
        """Return the alarms that are open, the oldest first.

        With `recorded`, the alarms that end in the history, any other end does not count. A line that
        nobody of the hub wrote is an alarm of its own.
        """
        try:
            with self.path.open("rb") as file:
                lines = file.read(_MOST_BYTES).splitlines(keepends=True)
        except FileNotFoundError:
            return []
        known = None if recorded is None else set(recorded)
        found: dict[str, OpenAlarm] = {}
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                continue  # cut off while it was written
            try:
                said = json.loads(line)
                if "lifted" in said:
                    if known is None or said["lifted"] in known:
                        found.pop(said["lifted"], None)
                    continue
                alarm = OpenAlarm(str(said["alarm"]), str(said["at"]), str(said["problem"]))
            except (ValueError, KeyError, TypeError):
                alarm = OpenAlarm(f"line-{number}", "", f"Line {number} of {self.path} is no alarm: it was changed.")
            found[alarm.id] = alarm
        return list(found.values())

    def sound(self, problem: str, recorded: Iterable[str] | None = None) -> None:
        """Append an alarm, unless the same one is open. Raises OSError."""
        problem = problem[:_MOST_CHARACTERS]
        if problem and all(each.problem != problem for each in self.open(recorded)):
            at = datetime.now(UTC).isoformat()
            name = hashlib.sha256(f"{at} {problem}".encode()).hexdigest()[:12]
            self._append({"alarm": name, "at": at, "problem": problem})

    def lift(self, alarm: OpenAlarm, by: str, reason: str) -> None:
        """Append the end of an alarm. Raises OSError."""
        self._append({"lifted": alarm.id, "at": datetime.now(UTC).isoformat(), "by": by, "reason": reason})

    def _append(self, said: dict[str, str]) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.open("ab") as out:
            if out.tell() and not self._ends_whole():
                out.write(b"\n")
            out.write(json.dumps(said, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            out.flush()
            os.fsync(out.fileno())

    def _ends_whole(self) -> bool:
        with self.path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            return file.read(1) == b"\n"


def recorded(log: Log) -> set[str] | None:
    """Return the alarms that end in the history; None if retention has removed events, so that it cannot decide."""
    removed = log.run("SELECT count(*) FROM sessions_app_auditevent WHERE kind = 'audit.rows_removed'").fetchone()[0]
    if removed:
        return None
    rows = log.run("SELECT subject_id FROM sessions_app_auditevent WHERE kind = ?", LIFTED).fetchall()
    return {str(row[0]) for row in rows}


def reconcile(log: Log, file: AlarmFile) -> list[OpenAlarm]:
    """Return the alarms that are open in the file or in the database, and copy missing ones between them."""
    ended = recorded(log)
    found = watching.verdict(log)
    if found is not None and found.problem:
        file.sound(found.problem, ended)
    alarms = file.open(ended)
    if alarms and (found is None or not found.problem):
        watching.keep(log, log.size(), alarms[0].problem)
    return alarms


def words_of(alarms: Iterable[OpenAlarm]) -> str:
    """Return the text about open alarms for pages and `/ready`."""
    return " ".join(dict.fromkeys(each.problem for each in alarms))
