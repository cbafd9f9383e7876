"""Tasks of a hub that is killed or told to stop in mid-task: kept, ended, and told so after the next start."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.servers import Hub, until
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import Speaker
from tests.wire.task_clients import Follower
from tests.wire.toolbox import Box

pytestmark = pytest.mark.rig


def hub_over(folder: Path) -> Hub:
    return Hub(folder, environment={"MCPHUB_APPS": "tests.toolbox", "MCPHUB_LIMITS": "drain_seconds=0.5"}, **TOOLBOX)


def began(hub: Hub, speaker: Speaker, tool: str) -> str:
    box = Box(hub)
    task_id: str = Follower(speaker).call(tool, name=box.name)["taskId"]
    until(lambda: box.has("began"))
    return task_id


def done(hub: Hub, speaker: Speaker) -> tuple[str, dict[str, Any]]:
    box = Box(hub)
    task_id = Follower(speaker).call("chore", name=box.name)["taskId"]
    until(lambda: box.has("began"))
    box.release()
    return task_id, Follower(speaker).end(task_id)


def interrupted(follower: Follower, task_id: str) -> str:
    """The invocation of a task that ended so."""
    ended = follower.end(task_id)
    assert (ended["status"], ended["error"]["data"]["errorCode"]) == ("failed", "interrupted")
    invocation_id: str = ended["error"]["data"]["invocationId"]
    return invocation_id


def test_tasks_of_a_killed_hub_are_kept_or_interrupted(tmp_path: Path) -> None:
    hub = hub_over(tmp_path)
    hub.__enter__()  # it is not left as others are
    key = hub.key
    with Speaker(hub.url, key) as speaker:
        kept, before = done(hub, speaker)
        open_ids = [began(hub, speaker, "errand"), began(hub, speaker, "chore")]
    hub.kill()
    with hub_over(tmp_path) as hub, Speaker(hub.url, key) as speaker:
        follower = Follower(speaker)
        assert follower.get(kept) == before
        calls = [interrupted(follower, task_id) for task_id in open_ids]
        hub.key = key
        rows = {row["invocation_id"]: row["error_code"] for row in hub.rows(status="error")}
        assert rows == dict.fromkeys(calls, "interrupted")
    assert "Traceback" not in hub.log()


def test_a_stop_interrupts_what_does_not_end_in_time(tmp_path: Path) -> None:
    with hub_over(tmp_path) as hub, Speaker(hub.url, hub.key) as speaker:
        key, task_id = hub.key, began(hub, speaker, "errand")
    assert "Traceback" not in hub.log()
    with hub_over(tmp_path) as hub, Speaker(hub.url, key) as speaker:
        interrupted(Follower(speaker), task_id)
