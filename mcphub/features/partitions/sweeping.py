"""The months to come have their partitions, and of a conversion that was killed nothing stays."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

from invocations.chain import months, service
from sessions_app.kit.database import Dedicated

logger = logging.getLogger(__name__)


def sweep() -> None:
    database = Dedicated()
    try:
        if not database.is_sqlite:
            _sweep(database)
    finally:
        database.close()


def _sweep(database: Dedicated) -> None:
    from mcphub.features.partitions import ahead, tables  # need psycopg, which SQLite does without

    log = service.log_of(database)
    try:
        if months.go_whole(log):
            ahead.make(log, datetime.now(UTC))
        else:
            tables.clear_up(log)
    except Exception as error:
        if not months.is_locked(error):
            raise
        logger.debug("A query reads the calls; the next round makes the months to come")
