"""Finds rows that were created past the application: keys, connections, people without an event.

Whoever writes into the database can make a key without a trace in the history. The comparison needs no trigger, so it
is the same on every database, and also finds rows from before the hub's start. Where retention removed events, rows
with lower numbers than all remaining events pass unnoticed.
"""

from __future__ import annotations

from django.db import models

from sessions_app.history import recording
from sessions_app.history.models import AuditEvent

_WATCHED = frozenset({"key", "user", "mcpconnection", "launchprofile", "secret"})
"""Words of the models whose rows give access, run something, or hold a credential."""
_NAMED = 5
"""Of the rows that are found; the others are counted."""


def unrecorded_rows() -> list[str]:
    """Return the watched rows without an event, as `key 3`."""
    return [
        f"{word} {key}" for model, word in recording.followed().items() if word in _WATCHED for key in _of(model, word)
    ]


def words_of(rows: list[str]) -> str:
    """Name rows in a sentence's part: some, and how many there are in all."""
    more = f" and {len(rows) - _NAMED} more" if len(rows) > _NAMED else ""
    return f"{', '.join(rows[:_NAMED])}{more}"


def _of(model: type[models.Model], word: str) -> list[str]:
    # Rows before events: one that is made meanwhile is in neither, or in the events.
    keys = {str(key) for key in model._base_manager.values_list("pk", flat=True)}
    deeds = f"{word}.created", f"{word}.deleted"
    events = AuditEvent.objects.filter(subject_model=model._meta.label_lower, kind__in=deeds).order_by("id")
    latest = dict(events.values_list("subject_id", "kind"))
    strange = {key for key in keys if latest.get(key) != deeds[0]}
    if strange and AuditEvent.objects.filter(kind="audit.rows_removed").exists():
        # Retention took old events: of rows older than all that are told of, nothing can be said.
        told = [int(key) for key, kind in latest.items() if kind == deeds[0]]
        strange = {key for key in strange if key in latest or (told and int(key) > min(told))}
    # One that was deleted between the two looks is no stranger.
    still = model._base_manager.filter(pk__in=strange).values_list("pk", flat=True)
    return sorted(map(str, still))
