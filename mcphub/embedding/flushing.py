"""Tests of a host: Django empties the tables of the test database after each TransactionTestCase, records as well."""

from __future__ import annotations

from pathlib import Path

from django.apps import apps
from django.core import mail
from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.models.signals import post_migrate

from invocations.chain.rules import RULES


def connect() -> None:
    """Let a test database be emptied whenever its tables have been migrated.

    Call it after the applications' `ready()`, whose handlers install the rules.
    """
    sender = apps.get_app_config("invocations")
    post_migrate.connect(_lift, sender=sender, dispatch_uid="mcphub flush of tests")


def _lift(using: str, **_: object) -> None:
    connection = connections[using]
    if not _is_of_tests(connection):
        return
    with connection.cursor() as cursor:
        for rule in RULES:
            cursor.execute(rule.lift_for_flush(connection.vendor))


def _is_of_tests(connection: BaseDatabaseWrapper) -> bool:
    """Return whether a run of tests has made this database: by the name, in a process prepared for tests."""
    is_prepared = hasattr(mail, "outbox")  # by setup_test_environment(), which pytest-django calls as well
    name, own = str(connection.settings_dict["NAME"]), connection.settings_dict["TEST"]["NAME"]
    return is_prepared and (name == own or Path(name).name.startswith("test_") or "mode=memory" in name)
