"""An app for MCPHUB_APPS: in a hub that serves it fails the statement that nth_statement.py names.

All connections of the process, Django's and the ledger's, are watched, on every thread but the one that only polls.
Orders come over a Unix socket, one JSON line each: {"words": "COMMIT", "nth": 2, "how": "once"} arms, {} disarms and
tells what ran.
"""

from __future__ import annotations

import json
import os
import re
import socket
import sqlite3
import sys
import threading
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

import psycopg
from django.db.backends.signals import connection_created

SOCKET = "RIG_FAILING_SOCKET"
_POLLS = {"mcphub-follower"}
_ERROR = "disk I/O error: the rig says so"
_REFUSAL = "DO $$ BEGIN RAISE EXCEPTION 'no space left: the rig says so' USING ERRCODE = '53100'; END $$"
"""What PostgreSQL is sent in place of a statement that it must refuse: its transaction is then failed in truth."""


class Plan:
    """Which statement fails, and what ran since it was armed.

    `how`: `once`, the statement is refused; `lost`, it takes effect and then its connection is gone, as when a
    server's answer is lost; `away`, it and all after it are refused, on PostgreSQL by the loss of each connection.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._words, self._nth, self._how, self._watches = "", 0, "", False
        self._seen: list[str] = []
        self._failed = False

    def arm(self, words: str, nth: int, how: str) -> None:
        """Fail the nth statement of these words."""
        with self._lock:
            self._words, self._nth, self._how = words, nth, how
            self._watches, self._seen, self._failed = True, [], False

    def disarm(self) -> dict[str, Any]:
        with self._lock:
            self._watches = False
            return {"seen": self._seen, "failed": self._failed}

    def failure(self, words: str) -> str:
        """Note a statement that is about to run; give how it fails, empty if it does not."""
        with self._lock:
            if not self._watches or threading.current_thread().name in _POLLS:
                return ""
            self._seen.append(_shape(words))
            is_meant = self._seen[-1] == self._words and self._seen.count(self._words) == self._nth
            fails = is_meant or (self._how == "away" and self._failed)
            self._failed = self._failed or fails
            return self._how if fails else ""


class OnSQLite:
    """A raw connection whose statements the plan sees."""

    lost: bool

    def __init__(self, raw: sqlite3.Connection) -> None:
        vars(self).update(raw=raw, lost=False)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.raw, name, value)

    def run(self, words: str, statement: Callable[[], Any]) -> Any:
        if self.lost:
            raise sqlite3.OperationalError(_ERROR)
        how = plan.failure(words)
        if not how:
            return statement()
        if how == "lost":
            statement()
            vars(self)["lost"] = True
            if self.raw.in_transaction:
                self.raw.rollback()
        raise sqlite3.OperationalError(_ERROR)

    def execute(self, words: str, *values: Any) -> Any:
        return self.run(words, lambda: self.raw.execute(words, *values))

    def executemany(self, words: str, *values: Any) -> Any:
        return self.run(words, lambda: self.raw.executemany(words, *values))

    def commit(self) -> None:
        if self.raw.in_transaction:
            self.run("COMMIT", self.raw.commit)

    def rollback(self) -> None:
        self.raw.rollback()

    def cursor(self, factory: type[sqlite3.Cursor] = sqlite3.Cursor) -> sqlite3.Cursor:
        connection = self

        class Cursor(factory):  # type: ignore[misc, valid-type]
            def execute(self, words: str, *values: Any) -> Any:
                return connection.run(words, lambda: super(Cursor, self).execute(words, *values))

            def executemany(self, words: str, *values: Any) -> Any:
                return connection.run(words, lambda: super(Cursor, self).executemany(words, *values))

        return self.raw.cursor(Cursor)


class OnPostgreSQL(psycopg.Connection[Any]):
    """What a psycopg connection is made to be, so that the plan sees its statements, begin and commit too."""

    @property
    def cursor_factory(self) -> Any:
        return _watched(vars(self)["cursor_factory"])

    @cursor_factory.setter
    def cursor_factory(self, factory: Any) -> None:
        vars(self)["cursor_factory"] = factory

    def lose(self) -> None:
        self.pgconn.finish()
        raise psycopg.OperationalError("server closed the connection unexpectedly: the rig says so")

    def _exec_command(self, command: Any, *rest: Any) -> Any:
        text = command if isinstance(command, bytes) else command.as_bytes(self)
        how = "" if text.startswith(b"ROLLBACK") else plan.failure(text.decode())
        if how == "once":
            if text != b"COMMIT":
                return (yield from super()._exec_command(_REFUSAL.encode()))
            yield from super()._exec_command(b"ROLLBACK")
            raise psycopg.errors.DiskFull("no space left: the rig says so")
        if how == "away":
            self.lose()
        result = yield from super()._exec_command(command, *rest)
        if how == "lost":
            self.lose()
        return result


@lru_cache
def _watched(factory: type[Any]) -> type[Any]:
    class Cursor(factory):  # type: ignore[misc]
        def execute(self, query: Any, *values: Any, **options: Any) -> Any:
            return self._watched(query, lambda: super(Cursor, self).execute(query, *values, **options))

        def executemany(self, query: Any, *values: Any, **options: Any) -> Any:
            return self._watched(query, lambda: super(Cursor, self).executemany(query, *values, **options))

        def _watched(self, query: Any, statement: Callable[[], Any]) -> Any:
            how = plan.failure(query if isinstance(query, str) else query.as_string(self.connection))
            if how == "once":
                return super().execute(_REFUSAL)
            if how == "away":
                self.connection.lose()
            told = statement()
            if how == "lost":
                self.connection.lose()
            return told

    return Cursor


plan = Plan()


def _shape(words: str) -> str:
    """Return a statement without what differs from one to the next."""
    return re.sub(r'"s\d+_x\d+"', "savepoint", " ".join(words.split()))[:160]


def _watch(connection: Any, **_: Any) -> None:
    raw = connection.connection
    if connection.vendor == "sqlite" and not isinstance(raw, OnSQLite):
        connection.connection = OnSQLite(raw)
    elif connection.vendor == "postgresql" and not isinstance(raw, OnPostgreSQL):
        raw.__class__ = OnPostgreSQL


def _obey(place: str) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(place)
        server.listen()
        while True:
            client, _ = server.accept()
            with client, client.makefile("rw") as lines:
                for line in lines:
                    order = json.loads(line)
                    told = plan.disarm()
                    if order:
                        plan.arm(**order)
                    lines.write(json.dumps(told) + "\n")
                    lines.flush()


if SOCKET in os.environ and "serve" in sys.argv and not Path(os.environ[SOCKET]).exists():
    connection_created.connect(_watch)
    threading.Thread(target=_obey, args=[os.environ[SOCKET]], daemon=True).start()
