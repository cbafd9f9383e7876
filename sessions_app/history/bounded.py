"""Events that strangers can cause as often as they like: so many a minute of one process, and of more their number.

Noted in memory, from any thread, and written by the process's housekeeping, so that a refusal waits for no database.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from dataclasses import dataclass

from django.db import transaction

from sessions_app.history import events
from sessions_app.history.events import Actor
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

EVENTS_A_MINUTE = 30
"""Per process and known principal; all others share. Equal ones between two writes are one event."""
_LONGEST = 300
_NOBODY = Actor("anonymous")


@dataclass(frozen=True, slots=True)
class _Noted:
    kind: str
    actor: Actor
    label: str
    after: str


class BoundedEvents:
    """One process's unwritten events."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._noted: Counter[_Noted] = Counter()
        self._further: Counter[str] = Counter()
        self._minute = 0
        self._counts: Counter[str] = Counter()
        """Of this minute, by principal: known ones are not crowded out by strangers."""

    def note(self, kind: str, *, actor: Actor | None = None, label: str = "", **after: Json) -> None:
        """Keep an event to be written; its texts are cut, and a flood of different ones is only counted."""
        plain = {name: _plain(value) if isinstance(value, str) else value for name, value in after.items()}
        noted = _Noted(kind, actor or _NOBODY, _plain(label), json.canonical(plain))
        with self._lock:
            minute = int(time.monotonic() // 60)
            if minute != self._minute:
                self._minute, self._counts = minute, Counter()
            if noted in self._noted:
                self._noted[noted] += 1
            elif self._counts[noted.actor.principal] < EVENTS_A_MINUTE:
                self._counts[noted.actor.principal] += 1
                self._noted[noted] = 1
            else:
                self._further[kind] += 1

    def flush(self) -> int:
        """Write the noted events; return their number. Failed writes are retried."""
        with self._lock:
            noted, self._noted = self._noted, Counter()
            further, self._further = self._further, Counter()
        try:
            with transaction.atomic():
                for each, count in noted.items():
                    told = json.loads(each.after.encode())
                    after = told if count == 1 else {**told, "count": count}
                    events.record(each.kind, actor=each.actor, label=each.label, after=after)
                for kind, count in further.items():
                    events.record(kind, actor=_NOBODY, after={"further": count})
        except Exception:
            with self._lock:
                self._noted.update(noted)
                self._further.update(further)
            raise
        return len(noted) + len(further)


def _plain(text: str) -> str:
    return text[:_LONGEST].replace("\x00", "").encode("utf-8", "replace").decode()


_own = BoundedEvents()
note, flush = _own.note, _own.flush
