"""Databases that fail: one that another connection locks, and one whose statements fail where a plan says so."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg

from sessions_app.kit.database import Dedicated

AUDIT = "invocations_mcprequestenvelope, invocations_mcptoolinvocation"


class Lock:
    """Keeps everybody else from writing to the audit, from a connection of its own."""

    def __init__(self) -> None:
        self._database = Dedicated()

    def take(self) -> None:
        raw = self._database.raw
        if self._database.is_sqlite:
            raw.execute("BEGIN IMMEDIATE")
        else:
            raw.execute("BEGIN")
            raw.execute(f"LOCK TABLE {AUDIT} IN EXCLUSIVE MODE")

    def release(self) -> None:
        self._database.raw.execute("ROLLBACK")
        self._database.close()


class Plan:
    """Fail the Nth statement, before or after the database has carried it out, once or for good."""

    def __init__(self, nth: int, *, after: bool = False, for_good: bool = False) -> None:
        self.nth, self.after, self.for_good = nth, after, for_good
        self.count = 0
        self.failed = False
        self._lock = threading.Lock()

    def heal(self) -> None:
        self.nth = 0

    def connect(self, prepare: Callable[[Any, bool], None]) -> FlakyDatabase:
        return FlakyDatabase(prepare, self)

    def run(self, is_sqlite: bool, statement: Callable[[], Any]) -> Any:
        with self._lock:
            self.count += 1
            fails = self.nth > 0 and (self.count >= self.nth if self.for_good else self.count == self.nth)
            self.failed = self.failed or fails
        broken = (sqlite3 if is_sqlite else psycopg).OperationalError("the plan says so")
        if fails and not self.after:
            raise broken
        value = statement()
        if fails:
            raise broken
        return value


class FlakyDatabase(Dedicated):
    def __init__(self, prepare: Callable[[Any, bool], None], plan: Plan) -> None:
        super().__init__(prepare)
        self._plan = plan

    @property
    def raw(self) -> Any:
        return _Connection(super().raw, self._plan, self.is_sqlite)


class _Connection:
    def __init__(self, raw: Any, plan: Plan, is_sqlite: bool) -> None:
        self._raw, self._plan, self._is_sqlite = raw, plan, is_sqlite

    def __getattr__(self, name: str) -> Any:
        return getattr(self._raw, name)

    def execute(self, *args: Any) -> Any:
        return self._plan.run(self._is_sqlite, lambda: self._raw.execute(*args))

    def executemany(self, *args: Any) -> Any:
        return self._plan.run(self._is_sqlite, lambda: self._raw.executemany(*args))

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        if not self._plan.after:
            with self._raw.transaction():
                yield
                self._plan.run(self._is_sqlite, lambda: None)
        else:
            with self._raw.transaction():
                yield
            self._plan.run(self._is_sqlite, lambda: None)
