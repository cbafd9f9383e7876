"""What happens to a hub's rows beside its clients: edits of an operator, and looks at what the hub wrote.

`Hub.operate` runs a function of this module, or of another that imports no test, in a process that has the hub's
settings. Arguments and results are JSON. A model is named as `app.Model`.

    python -m tests.operations    that process: a request on each line of standard input, an answer on each of output:
                                  the result, why there is none, and the number of the newest change that came meanwhile
"""

from __future__ import annotations

import contextlib
import json
import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any

from tests.waiting import PATIENCE_SECONDS


def mark() -> int:
    """Return the number of a change that follows all that were made; it changes nothing."""
    from sessions_app.models import BusEvent

    number: int = BusEvent.objects.create(subject="mark").pk
    return number


def newest_change() -> int:
    """Return the number of the newest change, 0 where there is none or no table for it yet."""
    from django.db import DatabaseError, models

    from sessions_app.models import BusEvent

    try:
        newest: int | None = BusEvent.objects.aggregate(newest=models.Max("pk"))["newest"]
    except DatabaseError:
        return 0
    return newest or 0


def count(model: str, **filters: Any) -> int:
    return _rows(model, filters).count()  # type: ignore[no-any-return]


def values(model: str, field: str, **filters: Any) -> list[Any]:
    """One column of the rows, oldest first."""
    return list(_rows(model, filters).order_by("pk").values_list(field, flat=True))


def counted(clients: Sequence[str]) -> dict[str, int]:
    """Return by the name that a call of `count` brings how many rows say that it was made; a repeat's row is none."""
    from invocations.models import McpToolInvocation

    rows = McpToolInvocation.objects.filter(client_name__in=clients, status="ok", duplicate_of="")
    return Counter(arguments["name"] for arguments in rows.values_list("arguments", flat=True))


def create(model: str, **fields: Any) -> Any:
    """Return the id of a new row."""
    return _model(model).objects.create(**fields).pk


def create_of(model: str, fields: Mapping[str, Any]) -> Any:
    """As `create`, for fields whose names are those of parameters here."""
    return create(model, **fields)


def update(model: str, filters: Mapping[str, Any], **fields: Any) -> int:
    """Change rows by one statement."""
    return _rows(model, filters).update(**fields)  # type: ignore[no-any-return]


def change(model: str, filters: Mapping[str, Any], **fields: Any) -> int:
    """Change each row as a form does; return how many there were, which is at least one."""
    rows = list(_rows(model, filters))
    assert rows, f"No row of {model} matches {filters}."
    for row in rows:
        for name, value in fields.items():
            setattr(row, name, value)
        row.full_clean()
        row.save()
    return len(rows)


def delete(model: str, **filters: Any) -> None:
    _rows(model, filters).delete()


def issue_key(name: str, scopes: Sequence[str] | None = None, **limits: Any) -> str:
    """Return the text of a new key; without `scopes` it may do everything."""
    from sessions_app.models import ApiKey

    return ApiKey.issue(name, scopes=list(ApiKey.Scope.values if scopes is None else scopes), **limits)[1]


def issue_key_unheard(name: str) -> str:
    """Return the text of a new key of which no process of the hub is told."""
    from sessions_app.models import ApiKey

    with _no_news():
        return ApiKey.issue(name, scopes=["tools:list", "tools:call"])[1]


def rotate_key_unheard(name: str) -> str:
    """Return the key's new text, of which no process of the hub is told."""
    from sessions_app.models import ApiKey

    with _no_news():
        return ApiKey.objects.get(name=name).rotate()


@contextlib.contextmanager
def _no_news() -> Iterator[None]:
    from django.db import transaction
    from django.db.models import Max

    from sessions_app import bus
    from sessions_app.models import BusEvent

    with transaction.atomic():
        newest = BusEvent.objects.aggregate(newest=Max("pk"))["newest"] or 0
        yield
        deleted, _ = BusEvent.objects.filter(pk__gt=newest, subject=bus.KEYS_CHANGED).delete()
        assert deleted


def revoke_key(name: str, reason: str = "") -> int:
    """Return how many keys had the name."""
    from sessions_app.models import ApiKey

    return ApiKey.objects.filter(name=name).revoke(reason)


def revoke_key_unread(name: str) -> int:
    """Revoke keys while no process reads the keys again, as if that took very long; return how many had the name."""
    with _no_news():
        return revoke_key(name)


def disable_owner_unread(name: str) -> int:
    """Disable the owner of a key so, past the application; return how many are."""
    from django.contrib.auth.models import User

    with _no_news():
        return User.objects.filter(api_keys__name=name).update(is_active=False)


def expire_key(name: str) -> int:
    """Let keys end now; give how many had the name."""
    from django.utils import timezone

    from sessions_app.models import ApiKey

    return ApiKey.objects.filter(name=name).update(expires_at=timezone.now())


def close_session(session: str, reason: str) -> None:
    from sessions_app import store
    from sessions_app.protocol.lifecycle import SessionEvent

    store.end([session], SessionEvent.CLOSE, reason)


def keep_secret(name: str, value: str, origins: str, users: str, places: str = "headers.Authorization") -> None:
    from tools_catalog.models import Secret

    row = Secret(name=name, origins=origins, users=users, places=places)
    row.set_value(value)
    row.save()


def show_to_group_only(model: str, filters: Mapping[str, Any], group: str) -> None:
    """Hide rows from everybody but the members of a group, which need not exist yet."""
    from django.contrib.auth.models import Group

    for row in _rows(model, filters):
        row.groups.add(Group.objects.get_or_create(name=group)[0])


def show_to_all(model: str, filters: Mapping[str, Any]) -> None:
    for row in _rows(model, filters):
        row.groups.clear()


def relate(model: str, pk: Any, field: str, others: Mapping[str, Any]) -> None:
    """Put all rows that fit into a field that holds many."""
    related = getattr(_model(model).objects.get(pk=pk), field)
    related.set(related.model.objects.filter(**others))


def create_superuser(name: str, password: str) -> None:
    from django.contrib.auth.models import User

    User.objects.create_superuser(name, password=password)


def approve_offers(connection: str) -> None:
    """Approve all that an upstream offers, as a person does on the page of offers."""
    from django.contrib.auth.models import User

    from tools_catalog.discovery import reconcile
    from tools_catalog.models import McpUpstreamTool

    for offer in McpUpstreamTool.objects.filter(connection__slug=connection, refusal=""):
        reconcile.approve(offer, author=User.objects.first(), reason="tutorial")


def cancel_task(task_id: str) -> bool:
    from invocations.mapping.load import load_error_map
    from invocations.models import McpTask
    from invocations.tasks import store

    task = McpTask.objects.get(task_id=task_id)
    return store.cancel(task.task_id, task.invocation_id, load_error_map())


def retain(days_from_now: int, **policy: int) -> None:
    """Apply a policy of retention as it will be applied then, and take it back."""
    from datetime import timedelta

    from django.db import connection
    from django.utils import timezone

    from invocations.chain import retention, service
    from invocations.chain.models import AuditPolicy

    AuditPolicy(**policy).save()
    retention.apply(service.log_on(connection), service.keys(), now=timezone.now() + timedelta(days=days_from_now))
    AuditPolicy().save()


def _model(label: str) -> Any:
    from django.apps import apps

    return apps.get_model(label)


def _rows(model: str, filters: Mapping[str, Any]) -> Any:
    return _model(model).objects.filter(**filters)


def _main() -> None:
    import os

    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    import django

    django.setup()
    from django.db import connection
    from django.db.backends.signals import connection_created

    if connection.vendor == "sqlite":  # a hub on a busy machine may hold the lock for long
        connection.settings_dict["OPTIONS"]["timeout"] = PATIENCE_SECONDS
    statements = _Statements()
    connection_created.connect(statements.watch)  # those of other threads, too
    for line in sys.stdin:
        result, failure, before = None, "", newest_change()
        statements.have_written = False
        try:
            module, name, positional, named = json.loads(line)
            result = getattr(import_module(module), name)(*positional, **named)
        except Exception:
            failure = traceback.format_exc()
        newest = newest_change() if statements.have_written else before  # the hub itself makes changes, too
        if newest > before and connection.vendor == "postgresql":
            newest = mark()  # who has read a higher number may have missed one that was committed later
        print(json.dumps([result, failure, newest if newest > before else 0], default=str), flush=True)


class _Statements:
    """Notes whether one of them was no read: of a read nobody waits for an effect."""

    have_written = False

    def watch(self, connection: Any, **named: Any) -> None:
        connection.execute_wrappers.append(self)

    def __call__(self, execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        self.have_written = self.have_written or sql.split(None, 1)[0].upper() not in _READS
        return execute(sql, params, many, context)


_READS = {"SELECT", "SAVEPOINT", "RELEASE", "BEGIN", "PRAGMA"}


if __name__ == "__main__":
    _main()
