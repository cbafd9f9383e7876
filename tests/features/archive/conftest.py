from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from invocations.chain import service
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Log
from invocations.chain.models import AuditPolicy
from invocations.chain.sealer import Sealer
from mcphub.features.archive.writing import Archiver
from sessions_app.kit.database import Dedicated
from tests.invocations.chain.rows import event, fill

NOW = datetime(2026, 11, 15, tzinfo=UTC)
Archive = Callable[..., Archiver]


@pytest.fixture(autouse=True)
def _folder(settings, tmp_path: Path) -> None:
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"


@pytest.fixture
def keys() -> KeyFolder:
    return service.keys()


@pytest.fixture
def database():
    database = Dedicated()
    yield database
    database.close()


@pytest.fixture
def log(database: Dedicated) -> Log:
    return service.log_of(database)


@pytest.fixture
def months(transactional_db, database: Dedicated, log: Log, keys: KeyFolder) -> Log:
    """A log with two blocks of September, two of October and one of November, each of three calls and an event."""
    for number, moment in enumerate(((9, 5), (9, 25), (10, 2), (10, 31), (11, 3))):
        fill(database, 3, tool=f"tool{number}")
        event(kind=f"tool.changed{number}")
        assert Sealer(log, keys, now=lambda moment=moment: datetime(2026, *moment, tzinfo=UTC)).seal() == 7
    yield log
    AuditPolicy().save()


@pytest.fixture
def archiver(months: Log, keys: KeyFolder) -> Archive:
    def made(folder: Path, **more: object) -> Archiver:
        return Archiver(months, keys, keys.signer(), folder, **{"now": lambda: NOW, **more})

    return made
