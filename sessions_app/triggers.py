"""Rules that live in the database itself, written for migrations on SQLite and PostgreSQL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db.migrations import RunPython

_BUS = "sessions_app_busevent"


def announce(table: str, subject: str, columns: Sequence[str] = ()) -> RunPython:
    """Publish `subject` on the change bus whenever rows of `table` change; of updates only those of `columns`."""
    of = f" OF {', '.join(columns)}" if columns else ""

    def forwards(apps: Any, editor: Any) -> None:
        if editor.connection.vendor == "postgresql":
            editor.execute(
                f"CREATE OR REPLACE FUNCTION mcphub_announce_{subject}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN INSERT INTO {_BUS} (subject, payload, created_at) VALUES ('{subject}', '', now()); "
                "RETURN NULL; END $$",
                params=None,
            )
            editor.execute(
                f"CREATE TRIGGER {table}_announce AFTER INSERT OR DELETE OR UPDATE{of} ON {table} "
                f"FOR EACH STATEMENT EXECUTE FUNCTION mcphub_announce_{subject}()",
                params=None,
            )
            return
        for event in ("INSERT", "DELETE", f"UPDATE{of}"):
            name = f"{table}_announce_{event.split()[0].lower()}"
            editor.execute(
                f"CREATE TRIGGER {name} AFTER {event} ON {table} BEGIN INSERT INTO {_BUS} (subject, payload, created_at) "
                f"VALUES ('{subject}', '', strftime('%Y-%m-%d %H:%M:%f', 'now')); END",
                params=None,
            )

    def backwards(apps: Any, editor: Any) -> None:
        if editor.connection.vendor == "postgresql":
            editor.execute(f"DROP TRIGGER IF EXISTS {table}_announce ON {table}", params=None)
            return
        for event in ("insert", "delete", "update"):
            editor.execute(f"DROP TRIGGER IF EXISTS {table}_announce_{event}", params=None)

    return RunPython(forwards, backwards)


def refuse_update(table: str, name: str, when: str, message: str) -> RunPython:
    """Refuse an update of `table` where `when` (an SQL condition over OLD and NEW) holds."""

    def forwards(apps: Any, editor: Any) -> None:
        if editor.connection.vendor == "postgresql":
            editor.execute(
                f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS "
                f"$$ BEGIN RAISE EXCEPTION '{message}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
                params=None,
            )
            editor.execute(
                f"CREATE TRIGGER {name} BEFORE UPDATE ON {table} FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {name}()",
                params=None,
            )
        else:
            editor.execute(
                f"CREATE TRIGGER {name} BEFORE UPDATE ON {table} WHEN {when} BEGIN SELECT RAISE(ABORT, '{message}'); END",
                params=None,
            )

    def backwards(apps: Any, editor: Any) -> None:
        on = f" ON {table}" if editor.connection.vendor == "postgresql" else ""
        editor.execute(f"DROP TRIGGER IF EXISTS {name}{on}", params=None)

    return RunPython(forwards, backwards)


def notify_bus() -> RunPython:
    """Wake every process that listens, at the commit that publishes (PostgreSQL; elsewhere the poll does)."""

    def forwards(apps: Any, editor: Any) -> None:
        if editor.connection.vendor == "postgresql":
            editor.execute(
                "CREATE OR REPLACE FUNCTION mcphub_notify() RETURNS trigger LANGUAGE plpgsql AS "
                "$$ BEGIN PERFORM pg_notify('mcphub', ''); RETURN NULL; END $$",
                params=None,
            )
            editor.execute(
                f"CREATE TRIGGER {_BUS}_notify AFTER INSERT ON {_BUS} FOR EACH STATEMENT EXECUTE FUNCTION mcphub_notify()",
                params=None,
            )

    def backwards(apps: Any, editor: Any) -> None:
        if editor.connection.vendor == "postgresql":
            editor.execute(f"DROP TRIGGER IF EXISTS {_BUS}_notify ON {_BUS}", params=None)

    return RunPython(forwards, backwards)
