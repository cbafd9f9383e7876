"""Rules that live in the database itself, so that no path forgets them: SQLite and PostgreSQL.

Each app lists its rules and installs them after every `migrate`. Not in migrations: SQLite rebuilds a table
to alter it and drops the table's triggers on the way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from django.apps import AppConfig
from django.db import connections
from django.db.models.signals import post_migrate

_BUS = "sessions_app_busevent"
INTO_BUS = f"INSERT INTO {_BUS} (subject, payload, created_at)"
_NOW = {"sqlite": "strftime('%Y-%m-%d %H:%M:%f', 'now')", "postgresql": "clock_timestamp()"}


class TriggerRule(Protocol):
    def sqlite(self) -> list[str]: ...
    def postgresql(self) -> list[str]: ...


def install_after_migrate(app: AppConfig, rules: Sequence[TriggerRule]) -> None:
    """Install `rules` whenever the app's migrations have run. Called from `AppConfig.ready`."""

    def install(sender: object, using: str, plan: object = None, **kwargs: object) -> None:
        connection = connections[using]
        with connection.cursor() as cursor:
            for rule in rules:
                for statement in rule.postgresql() if connection.vendor == "postgresql" else rule.sqlite():
                    cursor.execute(statement)

    app.trigger_rules = tuple(rules)  # type: ignore[attr-defined]  # a start looks whether they changed
    post_migrate.connect(install, sender=app, weak=False, dispatch_uid=f"{app.name} triggers")


def _sqlite_trigger(name: str, event: str, table: str, body: str, when: str = "") -> list[str]:
    when = f" WHEN {when}" if when else ""
    return [f"DROP TRIGGER IF EXISTS {name}", f"CREATE TRIGGER {name} {event} ON {table}{when} BEGIN {body}; END"]


@dataclass(frozen=True, slots=True)
class Announce:
    """Publish `subject` on the change bus whenever rows of `table` change; of updates only those of `columns`."""

    table: str
    subject: str
    columns: tuple[str, ...] = ()

    @property
    def _of(self) -> str:
        return f" OF {', '.join(self.columns)}" if self.columns else ""

    def sqlite(self) -> list[str]:
        body = f"{INTO_BUS} VALUES ('{self.subject}', '', {_NOW['sqlite']})"
        return [
            statement
            for event in ("INSERT", "DELETE", f"UPDATE{self._of}")
            for statement in _sqlite_trigger(
                f"{self.table}_announce_{event.split()[0].lower()}", f"AFTER {event}", self.table, body
            )
        ]

    def postgresql(self) -> list[str]:
        function = f"mcphub_announce_{self.subject}"
        return [
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "  # noqa: S608
            f"INSERT INTO {_BUS} (subject, payload, created_at) VALUES ('{self.subject}', '', now()); "
            "RETURN NULL; END $$",
            f"CREATE OR REPLACE TRIGGER {self.table}_announce "
            f"AFTER INSERT OR DELETE OR UPDATE{self._of} ON {self.table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {function}()",
        ]


@dataclass(frozen=True, slots=True)
class AnnounceEach(Announce):
    """As `Announce`, one event a row, whose payload is the row's `number`, after `prefix` where there is one."""

    number: str = "id"
    prefix: str = ""

    def _insert(self, row: str, now: str) -> str:
        payload = f"'{self.prefix}' || {row}.{self.number}" if self.prefix else f"{row}.{self.number}"
        return f"{INTO_BUS} VALUES ('{self.subject}', {payload}, {now})"

    def sqlite(self) -> list[str]:
        return [
            statement
            for event, row in (("INSERT", "NEW"), ("DELETE", "OLD"), (f"UPDATE{self._of}", "NEW"))
            for statement in _sqlite_trigger(
                f"{self.table}_announce_{event.split()[0].lower()}",
                f"AFTER {event}",
                self.table,
                self._insert(row, _NOW["sqlite"]),
            )
        ]

    def postgresql(self) -> list[str]:
        function = f"mcphub_announce_each_{self.table}"
        return [
            f"CREATE OR REPLACE FUNCTION {function}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF TG_OP = 'DELETE' THEN {self._insert('OLD', 'now()')}; "
            f"ELSE {self._insert('NEW', 'now()')}; END IF; RETURN NULL; END $$",
            f"CREATE OR REPLACE TRIGGER {self.table}_announce "
            f"AFTER INSERT OR DELETE OR UPDATE{self._of} ON {self.table} "
            f"FOR EACH ROW EXECUTE FUNCTION {function}()",
        ]


@dataclass(frozen=True, slots=True)
class Tell:
    """Publish `subject` for each row that an `event` of `table` concerns and `when` holds of; the payload is SQL."""

    table: str
    name: str
    event: str
    subject: str
    payload: str = "''"
    when: str = "{true}"
    """A condition over OLD and NEW; `{now}` and `{true}` are written as each database writes them."""

    def sqlite(self) -> list[str]:
        when = self.when.format(now=_NOW["sqlite"], true="1")
        return [
            f"DROP TRIGGER IF EXISTS {self.name}",
            f"CREATE TRIGGER {self.name} AFTER {self.event} ON {self.table} FOR EACH ROW WHEN {when} "
            f"BEGIN {INTO_BUS} VALUES ('{self.subject}', {self.payload}, {_NOW['sqlite']}); END",
        ]

    def postgresql(self) -> list[str]:
        when = self.when.format(now=_NOW["postgresql"], true="TRUE")
        return [
            f"CREATE OR REPLACE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "  # noqa: S608
            f"{INTO_BUS} VALUES ('{self.subject}', {self.payload}, {_NOW['postgresql']}); RETURN NULL; END $$",
            f"CREATE OR REPLACE TRIGGER {self.name} AFTER {self.event} ON {self.table} "
            f"FOR EACH ROW WHEN ({when}) EXECUTE FUNCTION {self.name}()",
        ]


@dataclass(frozen=True, slots=True)
class RefuseUpdate:
    """Refuse an update of `table` where `when` (an SQL condition over OLD and NEW) holds."""

    table: str
    name: str
    when: str
    message: str

    def sqlite(self) -> list[str]:
        return _sqlite_trigger(
            self.name, "BEFORE UPDATE", self.table, f"SELECT RAISE(ABORT, '{self.message}')", self.when
        )

    def postgresql(self) -> list[str]:
        return [
            f"CREATE OR REPLACE FUNCTION {self.name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"RAISE EXCEPTION '{self.message}' USING ERRCODE = 'integrity_constraint_violation'; END $$",
            f"CREATE OR REPLACE TRIGGER {self.name} BEFORE UPDATE ON {self.table} "
            f"FOR EACH ROW WHEN ({self.when}) EXECUTE FUNCTION {self.name}()",
        ]


@dataclass(frozen=True, slots=True)
class Dialects:
    """One SQL condition, written for each database."""

    sqlite: str = "FALSE"
    postgresql: str = "FALSE"


@dataclass(frozen=True, slots=True)
class AppendOnlyTrigger:
    """Refuse every UPDATE, DELETE and TRUNCATE of `table`, save where a condition over OLD and NEW admits it."""

    table: str
    may_delete: Dialects = Dialects()
    may_update: Dialects = Dialects()

    @property
    def _name(self) -> str:
        return f"mcphub_{self.table.rpartition('_')[2]}_append_only"

    def sqlite(self) -> list[str]:
        refuse = "SELECT RAISE(ABORT, 'records never change')"
        return [
            *_sqlite_trigger(self._name, "BEFORE UPDATE", self.table, refuse, f"NOT ({self.may_update.sqlite})"),
            *_sqlite_trigger(
                f"{self._name}_delete", "BEFORE DELETE", self.table, refuse, f"NOT ({self.may_delete.sqlite})"
            ),
        ]

    def postgresql(self) -> list[str]:
        name = self._name
        return [
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            f"IF TG_OP = 'DELETE' THEN IF {self.may_delete.postgresql} THEN RETURN OLD; END IF; END IF; "
            f"IF TG_OP = 'UPDATE' THEN IF {self.may_update.postgresql} THEN RETURN NEW; END IF; END IF; "
            "RAISE EXCEPTION 'records never change' USING ERRCODE = 'integrity_constraint_violation'; END $$",
            f"CREATE OR REPLACE TRIGGER {name} BEFORE UPDATE OR DELETE ON {self.table} "
            f"FOR EACH ROW EXECUTE FUNCTION {name}()",
            f"CREATE OR REPLACE TRIGGER {name}_truncate BEFORE TRUNCATE ON {self.table} "
            f"FOR EACH STATEMENT EXECUTE FUNCTION {name}()",
        ]

    def lift_for_flush(self, vendor: str) -> str:
        """Return the statement after which Django's `flush` can empty the table; UPDATE stays refused."""
        if vendor == "postgresql":
            return f"DROP TRIGGER IF EXISTS {self._name}_truncate ON {self.table}"
        return f"DROP TRIGGER IF EXISTS {self._name}_delete"


@dataclass(frozen=True, slots=True)
class Notify:
    """Wake every process that listens, at the commit that publishes. SQLite has no such thing: there they poll."""

    def sqlite(self) -> list[str]:
        return []

    def postgresql(self) -> list[str]:
        return [
            "CREATE OR REPLACE FUNCTION mcphub_notify() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN PERFORM pg_notify('mcphub', ''); RETURN NULL; END $$",
            f"CREATE OR REPLACE TRIGGER {_BUS}_notify AFTER INSERT ON {_BUS} "
            "FOR EACH STATEMENT EXECUTE FUNCTION mcphub_notify()",
        ]
