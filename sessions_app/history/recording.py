"""Makes each edit an event: the row, before and after, in one transaction.

Models of the hub inherit `RecordedModel`; Django's users and groups are followed by signals (`follow`). Changes that
bypass the models, an SQL statement or a `QuerySet.update()`, leave no event.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, ClassVar, TypeAlias

from django.apps import apps
from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.base_user import AbstractBaseUser
from django.contrib.auth.models import Group, Permission
from django.db import models, transaction
from django.db.models.signals import m2m_changed, post_save, pre_delete, pre_save

from sessions_app.history import events
from sessions_app.kit.fields import JSONText
from sessions_app.kit.people_tables import proxies_and
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

MAX_VALUE_BYTES = 256 * 1024
"""A longer value is an event's digest and its beginning, so that one upload does not fill the log."""
HIDDEN = "(not shown)"
"""Stands for a value that nobody may read back."""
_SHOWN_OF_LONG = 1000

State: TypeAlias = dict[str, Json]
"""Values of a row by field: the before or after of an event."""


@dataclass(frozen=True, slots=True)
class Followed:
    """How the edits of a model become events."""

    word: str
    """Kinds of its events begin with it."""
    unrecorded: frozenset[str] = frozenset()
    """Fields that no operator edits; a change of these alone is no event."""
    hidden: frozenset[str] = frozenset()
    """Fields whose changes an event names, never their value."""

    def fields(self, model: type[models.Model]) -> list[models.Field[Any, Any]]:
        return [
            field
            for field in model._meta.concrete_fields
            if field.name not in self.unrecorded and not getattr(field, "generated", False)
        ]


_FOLLOWED: dict[type[models.Model], Followed] = {}
_LINKS: dict[type[models.Model], models.ManyToManyField[Any, Any]] = {}
"""Through table -> the field of the followed model that it belongs to."""


class RecordedModel(models.Model):
    """A model whose every edit is an event of the history."""

    RECORDED_AS: ClassVar[str] = ""
    """Prefix of its event kinds; the model's name if empty."""
    UNRECORDED: ClassVar[tuple[str, ...]] = ()
    HIDDEN: ClassVar[tuple[str, ...]] = ()

    change_reason: str = ""
    """Entered by the editor; stored with the event."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic(using=kwargs.get("using"), savepoint=False):
            before = _stored(self, kwargs.get("update_fields"))
            super().save(*args, **kwargs)
            _note_saved(self, before, kwargs.get("update_fields"))

    def links_changed(self) -> None:
        """Called once an edit of the row's links is recorded."""

    def save_unrecorded(self, **kwargs: Any) -> None:
        """Save a change that is not an edit: the hub's own observation."""
        super().save(**kwargs)


def connect() -> None:
    """Follow every recorded model, users and groups. Called once all models are loaded."""
    for model in apps.get_models():
        if issubclass(model, RecordedModel):
            unrecorded = frozenset({"updated_at", *model.UNRECORDED})
            word = model.RECORDED_AS or str(model._meta.model_name)
            _follow(model, Followed(word, unrecorded, frozenset(model.HIDDEN)))
    user = get_user_model()
    _follow(user, Followed("user", frozenset({"last_login"}), frozenset({"password"})))
    _follow(Group, Followed("group"))
    for model in (*proxies_and(user), *proxies_and(Group)) if settings.MCPHUB_FOLLOW_PEOPLE else ():
        pre_save.connect(_before_save, sender=model, dispatch_uid=f"history before {model._meta.label}")
        post_save.connect(_after_save, sender=model, dispatch_uid=f"history after {model._meta.label}")


def followed() -> dict[type[models.Model], str]:
    """Return each model whose edits are events, with the prefix of their kinds."""
    return {model: how.word for model, how in _FOLLOWED.items()}


def _follow(model: type[models.Model], how: Followed) -> None:
    _FOLLOWED[model] = how
    if not (settings.MCPHUB_FOLLOW_PEOPLE or issubclass(model, RecordedModel)):
        return
    for each in proxies_and(model):
        pre_delete.connect(_on_delete, sender=each, dispatch_uid=f"history deleted {each._meta.label}")
    for field in model._meta.many_to_many:
        through: Any = field.remote_field.through
        _LINKS[through] = field
        m2m_changed.connect(_on_links, sender=through, dispatch_uid=f"history links {through.__name__}")


def _model_of(row: models.Model) -> type[models.Model]:
    """Return the followed model of a row: of a proxy or a child, the model above it."""
    return next(each for each in type(row).__mro__ if each in _FOLLOWED)


def _how(row: models.Model) -> Followed:
    return _FOLLOWED[_model_of(row)]


# Rows ----------------------------------------------------------------------------------------------------


def state_of(row: models.Model) -> State:
    """Return all values of a row in the form of events, with the names of its linked rows."""
    how = _how(row)
    state = _shown({field: getattr(row, field.attname) for field in how.fields(type(row))}, how)
    return state | {field.name: sorted(_linked(row, field).values()) for field in row._meta.many_to_many}


def digest_of(row: models.Model) -> str:
    """Return a digest of this state of a stored row, without its links."""
    how = _how(row)
    values = {field: getattr(row, field.attname) for field in how.fields(type(row))}
    return json.digest(json.canonical(_shown(values, how)))


def differs(model: type[models.Model], name: str, one: Any, other: Any) -> bool:
    """Return whether two values of a field would be stored differently."""
    return _differs(model._meta.get_field(name), one, other)  # type: ignore[arg-type]


def word_of(model: type[models.Model]) -> str:
    """Return the prefix of a model's event kinds."""
    return _FOLLOWED[model].word


def _before_save(instance: models.Model, update_fields: Iterable[str] | None = None, **_: object) -> None:
    instance.__dict__["_state_before"] = _stored(instance, update_fields)


def _after_save(instance: models.Model, update_fields: Iterable[str] | None = None, **_: object) -> None:
    _note_saved(instance, instance.__dict__.pop("_state_before", None), update_fields)


def _stored(row: models.Model, only: Iterable[str] | None) -> Mapping[str, object] | None:
    """Return the row's values as the database has them, by attribute, and keep them so until the transaction ends."""
    if row.pk is None or not (names := [field.attname for field in _saved_fields(row, only)]):
        return None
    return one_row(type(row), row.pk).values(*names).first()


def one_row(model: type[models.Model], key: object) -> models.QuerySet[Any]:
    """Return a query of one row, which in a transaction keeps it from others until that ends.

    It has no order: one by related rows would join them, and PostgreSQL locks no row that may be missing.
    """
    rows = model._base_manager.order_by().filter(pk=key)
    return rows.select_for_update() if transaction.get_connection(rows.db).in_atomic_block else rows


def _saved_fields(row: models.Model, only: Iterable[str] | None) -> list[models.Field[Any, Any]]:
    deferred = row.get_deferred_fields()
    chosen = None if only is None else set(only)
    return [
        field
        for field in _how(row).fields(type(row))
        if field.attname not in deferred and (chosen is None or field.name in chosen or field.attname in chosen)
    ]


def _note_saved(row: models.Model, before: Mapping[str, object] | None, only: Iterable[str] | None) -> None:
    how, fields = _how(row), _saved_fields(row, only)
    now = {field: getattr(row, field.attname) for field in fields}
    if before is None:
        if fields:
            _record("created", row, after=_shown(now, how))
        return
    changed = [field for field in fields if _differs(field, before[field.attname], now[field])]
    if changed:
        was = _shown({field: before[field.attname] for field in changed}, how)
        _record("changed", row, before=was, after=_shown({field: now[field] for field in changed}, how))


def _differs(field: models.Field[Any, Any], one: object, other: object) -> bool:
    return bool(field.get_prep_value(one) != field.get_prep_value(other))


def _shown(values: Mapping[models.Field[Any, Any], Any], how: Followed) -> State:
    return {
        field.attname: (HIDDEN if value else "") if field.name in how.hidden else _plain(field, value)
        for field, value in values.items()
    }


def _plain(field: models.Field[Any, Any], value: object) -> Json:
    stored = field.get_prep_value(value)
    shown = value if isinstance(field, JSONText) else stored
    if isinstance(stored, datetime):
        return stored.isoformat()
    if isinstance(stored, str) and len(stored) * 4 > MAX_VALUE_BYTES:
        raw = stored.encode("utf-8", "surrogatepass")
        if len(raw) > MAX_VALUE_BYTES:
            digest = hashlib.sha256(raw).hexdigest()
            return {"bytes": len(raw), "sha256": digest, "begins": stored[:_SHOWN_OF_LONG]}
    return shown if shown is None or isinstance(shown, bool | int | float | str | list | dict) else str(shown)


def _on_delete(instance: models.Model, **_: object) -> None:
    """Record the row as the database has it; nothing where somebody else deleted it since it was read."""
    stored = one_row(type(instance), instance.pk).first()
    if stored is not None:
        stored.__dict__["change_reason"] = getattr(instance, "change_reason", "")
        _record("deleted", stored, before=state_of(stored))


# Links ---------------------------------------------------------------------------------------------------


def _on_links(
    instance: models.Model,
    action: str,
    reverse: bool,
    model: type[models.Model],
    pk_set: set[object] | None,
    sender: type[models.Model],
    **_: object,
) -> None:
    """Record the gain or loss of a group, a permission or a tool, from whichever side it was set."""
    if action not in ("post_add", "post_remove", "pre_clear") or (pk_set is not None and not pk_set):
        return
    field = _LINKS[sender]
    if not reverse:
        _note_linked(instance, field, action, pk_set)
        return
    rows = model._default_manager.filter(pk__in=pk_set) if pk_set is not None else _linking(instance, field)
    for row in rows:
        _note_linked(row, field, "post_remove" if action == "pre_clear" else action, {instance.pk}, {instance})


def _note_linked(
    row: models.Model,
    field: models.ManyToManyField[Any, Any],
    action: str,
    keys: set[object] | None,
    others: Iterable[models.Model] | None = None,
) -> None:
    now = _linked(row, field)
    if action == "pre_clear":
        before, after = now, {}
    elif action == "post_add":
        before, after = {key: name for key, name in now.items() if key not in (keys or ())}, now
    else:
        lost = others if others is not None else field.related_model._default_manager.filter(pk__in=keys or ())
        gone = {each.pk: name_of(each) for each in lost}
        before, after = now | gone, {key: name for key, name in now.items() if key not in gone}
    if before != after:
        was, is_now = sorted(before.values()), sorted(after.values())
        _record("changed", row, before={field.name: was}, after={field.name: is_now})
        if isinstance(row, RecordedModel):
            row.links_changed()


def _linked(row: models.Model, field: models.ManyToManyField[Any, Any]) -> dict[Any, str]:
    rows = getattr(row, field.name).all()
    if field.related_model is Permission:
        rows = rows.select_related("content_type")
    return {each.pk: name_of(each) for each in rows}


def _linking(other: models.Model, field: models.ManyToManyField[Any, Any]) -> Iterable[models.Model]:
    return field.model._default_manager.filter(**{field.name: other})


def name_of(row: models.Model) -> str:
    """Return a row's name in events: a permission as Django's own code writes it, others in their own words."""
    if isinstance(row, AbstractBaseUser):  # `__str__` of a host's model may do anything
        return str(row.get_username())
    return f"{row.content_type.app_label}.{row.codename}" if isinstance(row, Permission) else str(row)


def _record(deed: str, row: models.Model, *, before: State | None = None, after: State | None = None) -> None:
    events.record(
        f"{_how(row).word}.{deed}",
        model=_model_of(row),
        subject=row.pk,
        label=name_of(row),
        before=before,
        after=after,
        reason=getattr(row, "change_reason", ""),
    )
