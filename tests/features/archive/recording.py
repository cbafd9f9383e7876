"""Calls with chosen columns, sealed in chosen months, and an archive of them."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from invocations.chain.keys import KeyFolder
from invocations.chain.log import Log
from invocations.chain.sealer import Sealer
from invocations.ledger import statements
from invocations.ledger.records import new_invocation_id
from sessions_app.kit.database import Dedicated
from tests import template
from tests.in_process import inside
from tests.invocations.chain.rows import fill, invocation, ledger


def sealed(database: Dedicated, log: Log, keys: KeyFolder, at: datetime, *calls: dict[str, Any]) -> None:
    """Record calls that started at a moment, unless they name another, and seal them then."""
    moment = database.timestamp(at.timestamp())
    usual = {"received_at": moment, "started_at": moment, "finished_at": moment}
    own = ledger()
    try:
        with own.transaction():
            rows = [invocation(database, new_invocation_id(), **{**usual, **call}) for call in calls]
            statements.insert(own, statements.INVOCATION, rows)
    finally:
        own.close()
    Sealer(log, keys, now=lambda: at).seal()


def moment(month: int, day: int, hour: int = 12) -> datetime:
    return datetime(2026, month, day, hour, tzinfo=UTC)


def hub_with_archive(home: Path) -> None:
    """Make a hub whose archive has September and October, in three files with eight calls."""
    template.copy_to(home / "hub.sqlite3")
    with inside(home):
        archive_months()


def hub_of_blocks(folder: Path) -> None:
    """Make a hub with three blocks of September and one of October 2025."""
    from invocations.chain import service

    template.copy_to(folder / "hub.sqlite3")
    with inside(folder):
        database = Dedicated()
        for at in ((9, 3), (9, 4), (9, 5), (10, 6)):
            fill(database, 2)
            log, keys = service.log_of(database), service.keys()
            Sealer(log, keys, now=lambda at=at: datetime(2025, *at, tzinfo=UTC)).seal()
        database.close()


def archive_months() -> None:
    """Record calls of two months in the hub of the settings, and archive them."""
    from django.conf import settings

    from invocations.chain import service
    from mcphub.features.archive.writing import Archiver

    database = Dedicated()
    log, keys = service.log_of(database), service.keys()
    for at, calls in _CALLS:
        sealed(database, log, keys, at, *calls)
    archiver = Archiver(log, keys, keys.signer(), settings.MCPHUB_ARCHIVE_DIR, now=lambda: moment(11, 15), most_rows=3)
    assert [each.month for each in archiver.run()] == ["2026-09", "2026-10"]
    database.close()


_CALLS: list[tuple[datetime, list[dict[str, Any]]]] = [
    (
        moment(9, 5),
        [
            {"tool": "pay", "duration_ms": 900, "arguments": '{"city":"Berlin","count":3,"force":true,"none":null}'},
            {"tool": "pay", "failed": True, "caller_label": "Ann", "principal": "key:2"},
            {"tool": "echo", "request_id": '"7"', "workspace": "red", "trace_id": "a" * 32},
        ],
    ),
    (
        moment(9, 20),
        [
            {"tool": "pay", "arguments": '{"text":"\\ud83d","\\u0000":1,"city":"Ber\\u006cin"}'},
            {"tool": "say", "turn_id": "t1"},
        ],
    ),
    (
        moment(10, 31),
        [
            {"tool": "late", "started_at": "2026-09-06 12:00:00.000000"},
            {"tool": "", "method": "resources/read", "target": "city://Berlin"},
            {"tool": "pay", "workspace": "blue", "duplicate_of": "other", "connection": "weather"},
        ],
    ),
]
