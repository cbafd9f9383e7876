"""The servers that the wire tests speak to: one for all, one with two workers, and who may call them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests import operations, servers
from tests.servers import FIXTURES, Hub, postgres_database, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker
from tests.wire.toolbox import Box

TOOLBOX = {"packs": ["starter", FIXTURES], "bundle": Path(servers.__file__).parent / "toolbox" / "bundle.json"}


@pytest.fixture(scope="package")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """One process on SQLite, with the test's own tools."""
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_ALLOWED_ORIGINS": "https://app.example"}
    with Hub(tmp_path_factory.mktemp("hub"), environment=environment, **TOOLBOX) as running:
        yield running


@pytest.fixture(scope="package")
def keys(hub: Hub) -> dict[str, str]:
    """Keys by name: `wire` and `other` may call, `lister` may only list."""
    return make_keys(hub)


def make_keys(hub: Hub) -> dict[str, str]:
    may_call = ["tools:list", "tools:call"]
    scopes = {"wire": may_call, "other": may_call, "lister": ["tools:list"]}
    made = {name: hub.operate(operations.issue_key, name, each) for name, each in scopes.items()}
    for key in made.values():
        with Speaker(hub.url, key) as speaker:
            # Often enough to meet each of two workers.
            until(lambda: all(speaker.modern("server/discover").status_code == 200 for _ in range(3)))
    return made


@pytest.fixture
def speaker(hub: Hub, keys: dict[str, str]) -> Iterator[Speaker]:
    with Speaker(hub.url, keys["wire"]) as made:
        yield made


@pytest.fixture
def box(hub: Hub) -> Iterator[Box]:
    made = Box(hub)
    yield made
    made.release()


@pytest.fixture(scope="package")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """Two workers on PostgreSQL."""
    try:
        psycopg.connect(f"{servers.POSTGRES}/postgres", connect_timeout=PATIENCE_SECONDS).close()
    except psycopg.OperationalError as error:
        pytest.skip(f"No PostgreSQL to make databases on (MCPHUB_TEST_POSTGRES): {error}")
    with postgres_database() as address:
        environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_DATABASE_URL": address}
        folder = tmp_path_factory.mktemp("pair")
        with Hub(folder, flags=["--workers", "2"], environment=environment, **TOOLBOX) as running:
            yield running
