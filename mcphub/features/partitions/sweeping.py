"""The months to come have their partitions, the planner its statistics; of a killed conversion nothing stays."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime

from django.db import connection

from invocations.chain import months, service
from invocations.chain.log import Log
from sessions_app.kit.database import Dedicated

logger = logging.getLogger(__name__)


def sweep() -> None:
    if connection.vendor != "postgresql":
        return
    from mcphub.features.partitions import ahead, tables  # need psycopg, which SQLite does without

    log = service.log_on(connection)
    try:
        if months.go_whole(log):
            ahead.make(log, datetime.now(UTC))
            if tables.unknown(log):
                _apart(tables.analyze)
        elif tables.left_behind(log):
            _apart(tables.clear_up)
    except Exception as error:
        if not months.is_locked(error):
            raise
        logger.debug("A query reads the calls; the next round makes the months to come")


def _apart(step: Callable[[Log], object]) -> None:
    """Run a step on a connection of its own, past a pooler: the lock is one of the session."""
    database = Dedicated()
    try:
        step(service.log_of(database))
    finally:
        database.close()
