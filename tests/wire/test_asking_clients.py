"""Clients that others wrote answer what tools ask, in every era and transport, and come back for a broken stream."""

from __future__ import annotations

import json

import pytest

from tests.servers import Hub
from tests.wire.test_clients import Sdk, program, run

SDKS = [
    Sdk("2.3.0", "asking_v2.py", "/mcp", "auto", "2026-07-28"),
    Sdk("2.3.0", "asking_v2.py", "/mcp", "legacy", "2025-11-25"),
    Sdk("2.3.0", "asking_v2.py", "/sse", "sse", "2025-11-25"),
    Sdk("1.30.0", "asking_v1.py", "/mcp", "http", "2025-11-25"),
    Sdk("1.30.0", "asking_v1.py", "/sse", "sse", "2025-11-25"),
    Sdk("1.12.4", "asking_v1.py", "/mcp", "http", "2025-06-18"),
    Sdk("2.3.0", "asking_v2.py", "stdio", "auto", "2026-07-28"),
    Sdk("2.3.0", "asking_v2.py", "stdio", "legacy", "2025-11-25"),
]


ASKED = [
    ("test_elicitation", {"message": "Who are you?"}),
    ("test_sampling", {"prompt": "Polly"}),
    ("test_input_required_result_list_roots", {}),
    ("test_reconnection", {}),
]
SAID = [
    'User response: action=accept, content={"username": "ada", "email": "ada@example.org"}',
    "LLM response: You said: Polly",
    "The client has 1 roots: file:///home/ada",
    "Reconnection test completed",
]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_a_client_answers_what_a_tool_asks(hub: Hub, sdk: Sdk) -> None:
    seen = json.loads(run(hub, program(sdk), sdk, json.dumps(ASKED)))
    assert seen == {"version": sdk.version, "said": SAID}
