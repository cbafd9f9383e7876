from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from invocations.chain import service
from invocations.chain.log import Log
from invocations.chain.sealer import Sealer
from sessions_app.kit.database import Dedicated


@pytest.fixture(autouse=True)
def _folder(settings, tmp_path: Path) -> None:
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"


@pytest.fixture
def database() -> Iterator[Dedicated]:
    database = Dedicated()
    yield database
    database.close()


@pytest.fixture
def log(database: Dedicated) -> Log:
    return service.log_of(database)


@pytest.fixture
def sealer(database: Dedicated) -> Sealer:
    return service.sealer_of(database)
