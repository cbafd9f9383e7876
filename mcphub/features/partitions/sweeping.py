"""The months to come have their partitions, and of a conversion that was killed nothing stays."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from django.db import connection

from invocations.chain import months, service
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
        elif tables.left_behind(log):
            database = Dedicated()  # past a pooler: the lock is one of the session
            try:
                tables.clear_up(service.log_of(database))
            finally:
                database.close()
    except Exception as error:
        if not months.is_locked(error):
            raise
        logger.debug("A query reads the calls; the next round makes the months to come")
