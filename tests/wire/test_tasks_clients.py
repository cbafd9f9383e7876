"""A client that others wrote runs tools as tasks: it makes, polls, is asked, waits for the result, and lists."""

from __future__ import annotations

import json

import pytest

from tests.servers import Hub
from tests.wire.programs import Sdk, program, run

pytestmark = pytest.mark.rig

SDKS = [Sdk("node", "tasks.mjs", "/mcp", "http", "2025-11-25"), Sdk("node", "tasks.mjs", "/sse", "sse", "2025-11-25")]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_a_client_runs_tools_as_tasks(hub: Hub, sdk: Sdk) -> None:
    calls = [("slow_compute", {"seconds": 0.1}), ("confirm_delete", {"filename": "old.txt"}), ("failing_job", {})]
    seen = json.loads(run(hub, program(sdk), sdk, json.dumps(calls)))
    assert [each["said"] for each in seen["seen"]] == ["Computed something in 0.1 s.", "old.txt was deleted.", ""]
    assert seen["seen"][1]["states"] == ["working", "input_required"]
    assert seen["seen"][2]["states"][-1] == "failed"
    assert seen["asked"] == ["Delete old.txt?"]
    assert seen["listed"][:3] == ["failed", "completed", "completed"]
