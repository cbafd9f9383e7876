"""Reads the log of events for one subscription, from a cursor on, in bounded steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from django.db.models import QuerySet
from django.utils import timezone, translation

from mcphub.features.events.access import Receiver
from mcphub.features.events.models import EventLog, Occurrence, UpstreamEvent
from mcphub.features.notifications.catalogue import KINDS, title_of, words_of
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json

MOST_EVENTS = 100
"""In one answer."""
MOST_LOOKED_AT = 1000
"""Rows for one answer: many may be of others."""
_CURSOR_DIGITS = 18


@dataclass(frozen=True, slots=True)
class EventFilter:
    """A subscription: an event and its arguments."""

    name: str
    state: str = ""
    """Only those that began, or that ended. Empty: all."""
    mine: bool = False
    """Only those about the caller."""

    def arguments(self) -> dict[str, Json]:
        """Return the arguments as they were sent, in one form: those that are left out equal their defaults."""
        state: dict[str, Json] = {"state": self.state} if self.state else {}
        return {**state, "mine": True} if self.mine else state

    @classmethod
    def load(cls, name: str, arguments: Mapping[str, Json]) -> EventFilter:
        return cls(name, str(arguments.get("state", "")), arguments.get("mine") is True)


@dataclass(frozen=True, slots=True)
class FoundEvent:
    """An event that a subscription gets."""

    position: int
    wire: dict[str, Json]


@dataclass(frozen=True, slots=True)
class EventPage:
    """Events after a cursor."""

    found: tuple[FoundEvent, ...]
    position: int
    """Everything up to it was looked at."""
    has_more: bool = False
    is_truncated: bool = False
    """Events may have been skipped: they are no longer there, or older than the caller wants."""


def cursor_of(position: int) -> str:
    return f"p{position}"


def position_of(cursor: Json) -> int | None:
    """Return the position of a cursor; None: from now on. Raises InvalidParams."""
    if cursor is None:
        return None
    digits = cursor[1:] if isinstance(cursor, str) and cursor[:1] == "p" else ""
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= _CURSOR_DIGITS):
        raise InvalidParams("The cursor is none of this hub's. Send null to begin with the events from now on.")
    return int(digits)


def begin(wanted: EventFilter, after: int | None, max_age: timedelta | None) -> EventPage:
    """Return where a subscription begins: no events, but whether some were skipped."""
    log, removed = EventLog.now(), _removed_upto(wanted.name)
    # A cursor beyond the log is of a database that was restored.
    if after is None or after > log.newest:
        return EventPage((), log.newest, is_truncated=after is not None)
    begins = max(after, removed)
    if max_age is None:
        return EventPage((), begins, is_truncated=begins > after)
    aged = _rows(wanted, begins, log.newest).filter(happened_at__lt=timezone.now() - max_age)
    last = aged.order_by("-position").values_list("position", flat=True).first()
    return EventPage((), last or begins, is_truncated=begins > after or last is not None)


def page(receiver: Receiver, wanted: EventFilter, after: int, most: int = MOST_EVENTS) -> EventPage:
    """Return what the receiver gets of the events after a position."""
    newest = EventLog.now().newest
    found: list[FoundEvent] = []
    looked_at, reached, has_more = 0, after, False
    for row in _rows(wanted, after, newest)[: MOST_LOOKED_AT + 1].iterator():
        if looked_at == MOST_LOOKED_AT or len(found) == most:
            has_more = True
            break
        looked_at, reached = looked_at + 1, row.position
        wire = shown(receiver, wanted, row)
        if wire is not None:
            found.append(FoundEvent(row.position, wire))
    # Read after the rows: what was deleted meanwhile is a gap.
    removed = _removed_upto(wanted.name)
    if not has_more:
        reached = max(newest, after)
    return EventPage(tuple(found), max(reached, removed), has_more, is_truncated=removed > after)


def shown(receiver: Receiver, wanted: EventFilter, row: Occurrence) -> dict[str, Json] | None:
    """Return an event as its receiver gets it (SEP-3415, Event Occurrences); None where it does not."""
    facts = receiver.facts_of(row)
    if facts is None or (wanted.mine and not receiver.is_own(row)):
        return None
    if row.id_there:
        stated = row.dated_there or row.happened_at
        return {"eventId": row.event_id, "name": row.name, "timestamp": stated.isoformat(), "data": facts}
    with translation.override("en"):
        data: dict[str, Json] = {
            "state": row.state,
            "title": title_of(row.name),
            "subject": row.subject,
            "alarm": row.name in KINDS and KINDS[row.name].is_alarm,
            "facts": facts,
        }
        if facts == row.facts:
            data["text"] = words_of(row.name, facts)
    return {"eventId": row.event_id, "name": row.name, "timestamp": row.happened_at.isoformat(), "data": data}


def _removed_upto(name: str) -> int:
    """Return the position up to which events of this name may be deleted."""
    upto = EventLog.now().removed_upto
    if "/" not in name:
        return upto
    own = UpstreamEvent.objects.filter(name=name).values_list("removed_upto", flat=True).first()
    return max(upto, own or 0)


def _rows(wanted: EventFilter, after: int, upto: int) -> QuerySet[Occurrence]:
    rows = Occurrence.objects.filter(name=wanted.name, position__gt=after, position__lte=upto).order_by("position")
    return rows.filter(state=wanted.state) if wanted.state else rows
