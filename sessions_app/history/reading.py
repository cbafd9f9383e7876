"""Reads the history of one row: its events, what each changed in words, and the whole row as it once was."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models import QuerySet
from django.utils.text import capfirst

from sessions_app.history.models import AuditEvent
from sessions_app.history.recording import State, state_of
from sessions_app.protocol.json import Json

Model: TypeAlias = type[models.Model]
_BEFORE_DIFFERENCE = 20
"""So many equal characters stand before the first that differs."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    label: str
    before: str
    after: str


def events_of(model: Model, key: object) -> QuerySet[AuditEvent]:
    """Give the events of one row, newest first, whether the row is still there or not.

    Between two equal bounds, in the order of the index by subject: told `=`, PostgreSQL takes model and key for
    independent of each other, expects many such rows, and looks for the first of few through the whole table.
    """
    return events_about(model).filter(subject_id__gte=str(key), subject_id__lte=str(key)).order_by("subject_id", "-id")


def events_about(model: Model) -> QuerySet[AuditEvent]:
    """Give the events of all rows of a model, newest first."""
    found: QuerySet[AuditEvent] = AuditEvent.objects.filter(subject_model=model._meta.label_lower)
    return found.order_by("-id")


def history_of(row: models.Model) -> QuerySet[AuditEvent]:
    return events_of(type(row), row.pk)


def is_whole(events: QuerySet[AuditEvent]) -> bool:
    """Whether the history begins where the row does; else retention removed older entries, or the hub came with it."""
    oldest = events.last()
    return oldest is not None and oldest.deed == "created"


def state_after(model: Model, event: AuditEvent) -> State | None:
    """Give the whole row as the event left it: the row of today with all later events taken back. None: deleted.

    An event holds what changed; this way a history whose beginning was removed still tells every later state.
    """
    row = model._base_manager.filter(pk=event.subject_id).first()
    state = None if row is None else state_of(row)
    for later in events_of(model, event.subject_id).filter(id__gt=event.pk):
        state = None if later.deed == "created" else {**(state or {}), **(later.before or {})}
    return state


def in_words(model: Model, state: Mapping[str, Json] | None) -> State:
    """Give a state by the names that people read, related rows by theirs."""
    return {_label(model, name): _named(model, name, value) for name, value in (state or {}).items()}


def changes(model: Model, event: AuditEvent, shorten: int) -> Iterator[FieldChange]:
    """Give what an event changed; of longer values the `shorten` characters about the first difference."""
    before, after = in_words(model, event.before), in_words(model, event.after)
    for label in {**before, **after}:
        one, other = _text(before.get(label)), _text(after.get(label))
        start = 0
        if max(len(one), len(other)) > shorten:
            same = next((at for at, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), 0)
            start = max(0, same - _BEFORE_DIFFERENCE)
        yield FieldChange(label, _cut(one, start, shorten), _cut(other, start, shorten))


def _cut(text: str, start: int, most: int) -> str:
    end = start + most
    return ("…" if start and text else "") + text[start:end] + ("…" if len(text) > end else "")


def _text(value: Json) -> str:
    if value is None or value == "":
        return ""
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(value) or "[]"
    return value.replace("\r\n", "\n") if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _field(model: Model, name: str) -> models.Field[Json, Json] | None:
    try:
        found = model._meta.get_field(name)
    except FieldDoesNotExist:  # a field that is no more
        return None
    return found if isinstance(found, models.Field) else None


def _label(model: Model, name: str) -> str:
    field = _field(model, name)
    return name if field is None else str(capfirst(field.verbose_name))


def _named(model: Model, name: str, value: Json) -> Json:
    field = _field(model, name)
    if value is None or field is None or field.related_model is None or field.many_to_many:
        return value
    row = field.related_model._base_manager.filter(pk=value).first()
    return f"#{value}" if row is None else f"{row} (#{value})"
