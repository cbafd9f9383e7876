"""Clients that others wrote do all that there is to do, each in one process from its first word to its last.

Each lists, calls, understands its mistakes, reads, gets, answers what tools ask, gives a call up, and hears of an edit.
The bridge `mcp-remote` does it for the client that starts it.
"""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.servers import ROOT, Hub, until
from tests.wire.test_asking_clients import ASKED, SAID
from tests.wire.test_calls import Box
from tests.wire.test_clients import Sdk, hears, program, surroundings, target, understood

SDKS = [
    Sdk("node", "sdk.mjs", "/mcp", "http", "2025-11-25"),
    Sdk("node", "sdk.mjs", "/sse", "sse", "2025-11-25"),
    Sdk("node", "sdk.mjs", "stdio", "stdio", "2025-11-25"),
    Sdk("node", "client.mjs", "/mcp", "legacy", "2025-11-25"),
    Sdk("node", "client.mjs", "/mcp", "auto", "2026-07-28"),
    Sdk("node", "sdk.mjs", "mcp-remote http-only", "stdio", "2025-11-25"),
    Sdk("node", "sdk.mjs", "mcp-remote sse-only", "stdio", "2025-11-25"),
    Sdk("fastmcp", "client_fast.py", "/mcp", "auto", "2026-07-28"),
    Sdk("fastmcp", "client_fast.py", "stdio", "auto", "2026-07-28"),
]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_a_client_does_it_all(hub: Hub, sdk: Sdk) -> None:
    box, words = Box(hub), f"grüße von {sdk}"
    told = {"MCPHUB_WORDS": words, "MCPHUB_ASKED": json.dumps(ASKED), "MCPHUB_BOX": box.name}
    command = [*program(sdk), target(hub, sdk, hub.url), sdk.mode]
    started = subprocess.Popen(command, cwd=ROOT, env={**surroundings(hub), **told}, stdout=subprocess.PIPE, text=True)
    assert started.stdout is not None
    try:
        understood(hub, sdk, words, json.loads(started.stdout.readline()))
        assert json.loads(started.stdout.readline()) == SAID
        assert json.loads(started.stdout.readline()) == {"gaveUp": True, "add": "42"}
        until(lambda: box.has("cancelled"))
        row = next(row for row in hub.rows(tool="hold") if row["arguments"] == {"name": box.name})
        assert row["error_code"] == "cancelled"
        hears(hub, started)
    finally:
        started.kill()
        started.communicate()
