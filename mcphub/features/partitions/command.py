"""`mcphub audit partition`: calls and envelopes in one table a month, on PostgreSQL."""

from __future__ import annotations

import argparse
import sys
from datetime import UTC, datetime
from typing import Any

from mcphub.commands.audit_log import open_log
from mcphub.commands.stop import Stop, migrated_database


def declare(verbs: Any) -> None:
    verbs.add_parser(
        "partition", help="keep calls in one PostgreSQL table a month, which retention drops whole; while the hub runs"
    )


def run(options: argparse.Namespace) -> int:
    with migrated_database(), open_log() as (log, _database):
        if not log.is_sqlite:
            return _convert(log)
    raise Stop(
        "mcphub audit partition: SQLite has no partitions. `mcphub database move` takes the hub to PostgreSQL.",
        status=2,
    )


def _convert(log: Any) -> int:
    from mcphub.features.partitions import converting  # needs psycopg, which SQLite does without

    try:
        made = converting.convert(log, datetime.now(UTC), told=lambda step: print(step, file=sys.stderr))
    except converting.CannotConvert as why:
        raise Stop(f"mcphub audit partition: {why}") from why
    for name in made:
        print(name)
    if not made:
        print("Calls and envelopes are partitioned, and the months to come have their tables.", file=sys.stderr)
    return 0
