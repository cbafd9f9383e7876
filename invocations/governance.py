"""What operators change, as events in the audit: definitions, keys, mappings, secrets, policy, people and their rights.

Signals see every save through the models, whatever door it came by. What bypasses the models, an SQL statement
or a `QuerySet.update()`, leaves no event.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.db.models import Model
from django.db.models.signals import m2m_changed, post_delete, post_save, pre_save
from simple_history.models import HistoricalRecords
from simple_history.signals import post_create_historical_record

from invocations.chain import events
from sessions_app.rest.access import KeyPrincipal

_KINDS = {
    "mcptooldefinition": "tool", "mcpresource": "resource", "mcpprompt": "prompt", "apikey": "key",
    "mcperrormapping": "error_mapping", "secret": "secret", "auditpolicy": "retention_policy",
    "audithold": "legal_hold", "mcpredactionrule": "redaction_rule",
}  # fmt: skip
"""Model -> what its events are called; others go by the model's name."""
_DEEDS = {"+": "created", "~": "changed", "-": "deleted"}
_NOISE = {"updated_at", "last_used_at"}
_USER_FIELDS = ("username", "email", "is_active", "is_staff", "is_superuser", "password")


def connect() -> None:
    post_create_historical_record.connect(_on_history, dispatch_uid="mcphub governance")
    user = get_user_model()
    pre_save.connect(_before_user, sender=user, dispatch_uid="mcphub governance user")
    post_save.connect(_on_user, sender=user, dispatch_uid="mcphub governance user saved")
    post_save.connect(_on_group, sender=Group, dispatch_uid="mcphub governance group")
    for model in (user, Group):
        post_delete.connect(_on_deleted, sender=model, dispatch_uid=f"mcphub governance {model.__name__} gone")
    for through in (user.groups.through, user.user_permissions.through, Group.permissions.through):
        m2m_changed.connect(_on_rights, sender=through, dispatch_uid=f"mcphub governance {through.__name__}")


# Models that keep a history ------------------------------------------------------------------------------


def _on_history(instance: Model, history_instance: Any, history_user: Any, **_: Any) -> None:
    after = _state(history_instance)
    before: dict[str, Any] | None = None
    deed = history_instance.history_type
    if deed == "~" and (past := history_instance.prev_record) is not None:
        old = _state(past)
        before = {name: old.get(name) for name in after if after[name] != old.get(name)}
        after = {name: after[name] for name in before}
        if not before and instance._meta.model_name != "apikey":  # a key's new text is no field of its history
            return
    model = str(instance._meta.model_name)
    _record(
        f"{_KINDS.get(model, model)}.{_DEEDS[deed]}", instance, before=after if deed == "-" else before,
        after=None if deed == "-" else after, reason=history_instance.history_change_reason or "", user=history_user,
    )  # fmt: skip


def _state(record: Any) -> dict[str, Any]:
    shown = {
        field.attname: _plain(getattr(record, field.attname))
        for field in record.tracked_fields
        if not field.many_to_many and field.name not in _NOISE
    }
    for field in record._history_m2m_fields:
        ids = set(getattr(record, field.name).values_list(f"{field.m2m_reverse_field_name()}_id", flat=True))
        there = {row.pk: str(row) for row in field.related_model._default_manager.filter(pk__in=ids)}
        shown[field.name] = sorted(there.get(pk, f"#{pk}") for pk in ids)  # what was deleted has no name any more
    return shown


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    return value if value is None or isinstance(value, bool | int | float | str | list | dict) else str(value)


# People, groups and their rights -------------------------------------------------------------------------


def _before_user(instance: Any, update_fields: Iterable[str] | None = None, **_: Any) -> None:
    """Keep what the row was; a login writes `last_login` and nothing else, and is no change of rights."""
    instance._audited_before = None
    if instance.pk and (update_fields is None or set(update_fields) & set(_USER_FIELDS)):
        instance._audited_before = type(instance)._default_manager.filter(pk=instance.pk).values(*_USER_FIELDS).first()


def _on_user(instance: Any, created: bool, raw: bool = False, **_: Any) -> None:
    after = {name: getattr(instance, name) for name in _USER_FIELDS}
    before = None if created else instance._audited_before
    if not created:
        if before is None:
            return
        before = {name: value for name, value in before.items() if after[name] != value}
        if not before:
            return
        after = {name: after[name] for name in before}
    for state in (before, after):
        if state and "password" in state:
            state["password"] = "(not shown)" if state["password"] else ""
    _record("user.created" if created else "user.changed", instance, before=before, after=after)


def _on_group(instance: Group, created: bool, **_: Any) -> None:
    if created:
        _record("group.created", instance, after={"name": instance.name})


def _on_deleted(instance: Any, **_: Any) -> None:
    _record(f"{instance._meta.model_name}.deleted", instance, before={"name": str(instance)})


def _on_rights(
    instance: Any, action: str, reverse: bool, model: type[Model], pk_set: set[Any] | None, sender: Any, **_: Any
) -> None:
    """Record who gained or lost a group or a permission, from whichever side it was said."""
    if action not in ("post_add", "post_remove", "pre_clear") or (pk_set is not None and not pk_set):
        return
    field = next(each for each in _many(instance, reverse) if _through(each, reverse) is sender)
    manager = getattr(instance, field.get_accessor_name() if reverse else field.name)
    named = {str(_name(row)) for row in model._default_manager.filter(pk__in=pk_set or [])}
    now = {str(_name(row)) for row in manager.all()}
    before, after = {
        "post_add": (now - named, now), "post_remove": (now | named, now), "pre_clear": (now, set()),
    }[action]  # fmt: skip
    if before == after:
        return
    name = "members" if reverse else field.name
    gained, lost = sorted(after - before), sorted(before - after)
    _record(
        f"{instance._meta.model_name}.{name}_changed", instance, before={"lost": lost} if lost else None,
        after={"gained": gained} if gained else None,
    )  # fmt: skip


def _many(instance: Model, reverse: bool) -> list[Any]:
    if not reverse:
        return list(instance._meta.many_to_many)
    return [field for field in instance._meta.related_objects if field.many_to_many]


def _through(field: Any, reverse: bool) -> Any:
    return field.through if reverse else field.remote_field.through


def _name(row: Any) -> str:
    return f"{row.content_type.app_label}.{row.codename}" if isinstance(row, Permission) else str(row)


# Who -----------------------------------------------------------------------------------------------------


def _record(kind: str, instance: Model, *, before: Any = None, after: Any = None, reason: str = "",
            user: Any = None) -> None:  # fmt: skip
    if user is None:
        request = getattr(HistoricalRecords.context, "request", None)
        user = getattr(request, "user", None)
    events.record(
        kind, **actor_of(user), subject=instance.pk, label=str(_name(instance)), before=before, after=after,
        reason=reason,
    )  # fmt: skip


def actor_of(user: Any) -> dict[str, str]:
    """Give what `events.record` says of who did it: a key, a person, or else whoever runs the program."""
    if isinstance(user, KeyPrincipal):
        return {"actor": f"key:{user.key.pk}", "actor_label": user.key.name}
    if isinstance(user, Model) and user.pk is not None:
        return {"actor": f"user:{user.pk}", "actor_label": str(user)}
    return events.on_the_machine()
