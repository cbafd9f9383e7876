from __future__ import annotations

import pytest

from invocations.chain import service
from invocations.chain.sealer import Sealer
from sessions_app.kit.database import Dedicated
from tests.invocations.chain.conftest import _folder, database, log  # noqa: F401 - fixtures


@pytest.fixture
def sealer(database: Dedicated) -> Sealer:  # noqa: F811
    return service.sealer_of(database)
