"""The bounds of tasks, on a hub whose bounds are small."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Hub, until
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import Speaker, error_of
from tests.wire.task_clients import ABLE, Asker, Follower
from tests.wire.toolbox import Apart, Box


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "max_open_tasks_per_caller=1, task_after_seconds=0"}
    with Hub(tmp_path_factory.mktemp("small"), environment=environment, **TOOLBOX) as running:
        yield running


def test_a_caller_at_its_bound_gets_no_further_task(small: Hub) -> None:
    first, second = Box(small), Box(small)
    with Speaker(small.url, small.key) as speaker, Speaker(small.url, small.key) as other:
        task_id = Follower(speaker).call("chore", name=first.name)["taskId"]
        refused = speaker.modern_call("chore", {"name": second.name}, **ABLE)
        assert (refused.status_code, error_of(refused)["data"]["errorCode"]) == (503, "server_busy")
        assert refused.headers["retry-after"]
        asked = Asker(speaker).call("errand", {"name": second.name})
        assert (asked.status_code, error_of(asked)["data"]["errorCode"]) == (503, "server_busy")
        assert not second.has("began")
        # What need not be a task is answered when it ends.
        call = Apart(lambda: other.modern_call("errand", {"name": second.name}, **ABLE))
        until(lambda: second.has("began"))
        second.release()
        assert call.answer().json()["result"]["content"][0]["text"] == f"{second.name} was released"
        first.release()
        assert Follower(speaker).end(task_id)["status"] == "completed"
        assert Follower(speaker).call("chore", name=first.name)["resultType"] == "task"
    rows = {row["error_code"] for row in small.rows(error_code="server_busy")}
    assert rows == {"server_busy"}
