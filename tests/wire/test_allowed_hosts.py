"""Two hubs over one PostgreSQL: a host that is listed at one is reached by both, and by neither once it is not."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, free_port, postgres_database, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.rig


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[list[Hub]]:
    with contextlib.ExitStack() as stack:
        environment = {"MCPHUB_DATABASE_URL": stack.enter_context(postgres_database())}
        first = stack.enter_context(Hub(tmp_path / "one", environment=environment))
        yield [first, stack.enter_context(Hub(tmp_path / "other", environment=environment))]


def steps(hub: Hub, key: str) -> list[tuple[str, bool]]:
    """Return how a test of the connection goes at one hub."""
    headers = {"Authorization": f"Bearer {key}"}
    answer = httpx2.post(f"{hub.url}/api/connections/inside/test/", headers=headers, timeout=PATIENCE_SECONDS)
    return [(step["kind"], step["is_good"]) for step in answer.json()["steps"]]


def test_an_edit_of_the_list_holds_at_every_worker(pair: list[Hub]) -> None:
    port = free_port()
    key = pair[0].operate(operations.issue_key, "test", scopes=["catalog:write"])
    fields = {"slug": "inside", "transport": "streamable-http", "url": f"http://127.0.0.1:{port}/mcp"}
    pair[0].operate(operations.create, "tools_catalog.McpConnection", **fields, enabled=False)
    for hub in pair:
        assert steps(hub, key) == [("address", False)]
    pair[0].operate(operations.create, "tools_catalog.AllowedHost", host=f"127.0.0.1:{port}")
    for hub in pair:  # nobody listens there, but the hub may ask
        until(lambda hub=hub: steps(hub, key) == [("address", True), ("connect", False)])
    pair[1].operate(operations.update, "tools_catalog.AllowedHost", {"host": f"127.0.0.1:{port}"}, enabled=False)
    for hub in pair:
        until(lambda hub=hub: steps(hub, key) == [("address", False)])
