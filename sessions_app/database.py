"""Connections of their own for the threads that must not share Django's: the ledger's writer, the follower."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from django.db import connections
from django.db.backends.base.base import BaseDatabaseWrapper


class Dedicated:
    """One raw connection to the hub's database, opened at first use by the thread that uses it.

    `raw` is a `sqlite3.Connection` in autocommit mode or a `psycopg.Connection` in autocommit mode.
    """

    def __init__(self, prepare: Callable[[Any, bool], None] | None = None) -> None:
        """`prepare(raw, is_sqlite)` sets up each new connection."""
        self._prepare = prepare
        self._wrapper: BaseDatabaseWrapper | None = None
        self.vendor = connections["default"].vendor

    @property
    def raw(self) -> Any:
        if self._wrapper is None:
            wrapper = connections.create_connection("default")
            # Outside the pool: this connection is held for the life of the process.
            wrapper.settings_dict = {**wrapper.settings_dict, "OPTIONS": {**wrapper.settings_dict["OPTIONS"]}}
            wrapper.settings_dict["OPTIONS"].pop("pool", None)
            self._wrapper = wrapper
            try:
                wrapper.connect()
                if self._prepare is not None:
                    self._prepare(wrapper.connection, self.is_sqlite)
            except BaseException:
                self.close()
                raise
        return self._wrapper.connection

    @property
    def is_sqlite(self) -> bool:
        return self.vendor == "sqlite"

    def timestamp(self, seconds: float) -> str:
        """Give a time (seconds since the epoch) as text that the database takes for a timestamp."""
        text = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        return text if self.is_sqlite else text + "+00"

    def close(self) -> None:
        wrapper, self._wrapper = self._wrapper, None
        if wrapper is not None:
            with contextlib.suppress(Exception):  # one that broke cannot be closed any more
                wrapper.close()
