"""A task of a project's own queue, called as a task of MCP: it is worked off, and the client fetches its result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.conftest import TOOLBOX, make_keys
from tests.wire.speech import Speaker
from tests.wire.task_clients import Asker, Follower
from tests.wire.toolbox import Box

EXPORT: dict[str, Any] = {
    "name": "export_orders",
    "description": "Export the orders of a year.",
    "backend": "python",
    "configuration": {"function": "tests.toolbox.queued:export_orders"},
    "input_schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "year": {"type": "integer"}},
        "required": ["name", "year"],
    },
    "output_schema": {"type": "object", "additionalProperties": {"type": "integer"}},
    "task_support": "optional",
}


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("hub"), environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX) as running:
        running.operate(operations.create, "tools_catalog.McpToolDefinition", **EXPORT)
        yield running


@pytest.fixture(scope="module")
def keys(hub: Hub) -> dict[str, str]:
    return make_keys(hub)


@pytest.fixture(autouse=True)
def listed(speaker: Speaker) -> None:
    until(lambda: "export_orders" in speaker.modern("tools/list").text)


@pytest.mark.parametrize(
    ("year", "status", "said"),
    [(2010, "completed", ({"rows": 10}, '{"rows":10}')), (1999, "failed", (None, "There are no orders before 2000."))],
)
def test_a_client_of_tasks_polls_until_the_queue_has_worked_it_off(
    speaker: Speaker, hub: Hub, box: Box, year: int, status: str, said: object
) -> None:
    asker = Asker(speaker)
    task = asker.start("export_orders", {"name": box.name, "year": year})
    until(lambda: box.has("began"))
    assert asker.get(task["taskId"])["status"] == "working"
    box.release()
    ended = until(lambda: (found := asker.get(task["taskId"]))["status"] != "working" and found)
    assert ended["status"] == status
    result = asker.ask("tasks/result", taskId=task["taskId"]).json()["result"]
    assert (result.get("structuredContent"), result["content"][0]["text"]) == said
    assert hub.row(session=asker.session)["status"] == ("ok" if status == "completed" else "error")


def test_a_client_of_the_extension_gets_the_result_with_the_task(speaker: Speaker, box: Box) -> None:
    follower = Follower(speaker)
    made = follower.call("export_orders", name=box.name, year=2010)
    assert made["resultType"] == "task"
    box.release()
    ended = follower.end(made["taskId"])
    assert (ended["status"], ended["result"]["structuredContent"]) == ("completed", {"rows": 10})
