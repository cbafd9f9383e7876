"""Reads the history of one row: its events, their changes in words, and the whole row at a past moment."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from django.core.exceptions import FieldDoesNotExist
from django.db import models
from django.db.models import QuerySet
from django.db.models.functions import Cast
from django.utils.text import capfirst

from sessions_app.history.models import AuditEvent
from sessions_app.history.recording import State, state_of
from sessions_app.protocol.json import Json
from sessions_app.workspaces import scope

Model: TypeAlias = type[models.Model]
_BEFORE_DIFFERENCE = 20
"""So many equal characters stand before the first that differs."""


@dataclass(frozen=True, slots=True)
class FieldChange:
    label: str
    before: str
    after: str


def events_of(model: Model, key: object) -> QuerySet[AuditEvent]:
    """Return the events of one row, newest first, whether the row is still there or not.

    Between two equal bounds, in the order of the index by subject: with `=`, PostgreSQL assumes that model and key
    are independent, expects many such rows, and searches the whole table for the first of few.
    """
    found = events_about(model).filter(subject_id__gte=str(key), subject_id__lte=str(key))
    if scope.current() is not None:
        found = found.filter(id__gte=_came_into_workspace(found))
    return found.order_by("subject_id", "-id")


def _came_into_workspace(events: QuerySet[AuditEvent]) -> int:
    """Return the ID from which on the events belong to the row's workspace: earlier ones belong to others."""
    named = events.annotate(text=Cast("after", models.TextField())).filter(text__contains='"workspace_id"')
    for event in named.only("id", "kind", "after"):
        if isinstance(event.after, dict) and "workspace_id" in event.after:
            return event.pk if event.deed == "created" else event.pk + 1
    return 0


def events_about(model: Model) -> QuerySet[AuditEvent]:
    """Return the events of all rows of a model, newest first."""
    found: QuerySet[AuditEvent] = AuditEvent.objects.filter(subject_model=model._meta.label_lower)
    return found.order_by("-id")


def history_of(row: models.Model) -> QuerySet[AuditEvent]:
    return events_of(type(row), row.pk)


def is_whole(events: QuerySet[AuditEvent]) -> bool:
    """Return whether the history begins where the row does; else retention removed older entries, or the hub came with
    it.
    """
    oldest = events.last()
    return oldest is not None and oldest.deed == "created"


def state_after(model: Model, event: AuditEvent) -> State | None:
    """Return the whole row as the event left it: the row of today with all later events taken back. None: deleted.

    An event holds the changes; this way a history with a removed beginning still yields every later state.
    """
    row = model._base_manager.filter(pk=event.subject_id).first()
    state = None if row is None else state_of(row)
    for later in events_of(model, event.subject_id).filter(id__gt=event.pk):
        state = None if later.deed == "created" else {**(state or {}), **(later.before or {})}
    return state


def in_words(model: Model, state: Mapping[str, Json] | None) -> State:
    """Return a state by the names that people read, related rows by theirs."""
    return {label_of(model, name): _named(model, name, value) for name, value in (state or {}).items()}


def changes(model: Model, event: AuditEvent, shorten: int) -> Iterator[FieldChange]:
    """Return an event's changes; of longer values the `shorten` characters around the first difference."""
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


def label_of(model: Model, name: str) -> str:
    """Return the name that people read for a field."""
    field = _field(model, name)
    return name if field is None else str(capfirst(field.verbose_name))


def chosen(model: Model, name: str, value: Json) -> Json:
    """Return the words of a choice, other values as they are."""
    field = _field(model, name)
    choices = dict(field.flatchoices) if field is not None and isinstance(value, str) else {}
    return str(choices.get(value, value)) if choices else value


def _named(model: Model, name: str, value: Json) -> Json:
    field = _field(model, name)
    if value is None or field is None or field.related_model is None or field.many_to_many:
        return value
    row = field.related_model._base_manager.filter(pk=value).first()
    return f"#{value}" if row is None else f"{row} (#{value})"
