"""Clients that others wrote list, read, get, complete and subscribe."""

from __future__ import annotations

import json

import pytest

from tests.servers import Hub
from tests.wire.programs import Sdk, program, run

pytestmark = pytest.mark.rig

SDKS = [
    Sdk("2.3.0", "offers_v2.py", "/mcp", "auto", "2026-07-28"),
    Sdk("2.3.0", "offers_v2.py", "/mcp", "legacy", "2025-11-25"),
    Sdk("2.3.0", "offers_v2.py", "/sse", "sse", "2025-11-25"),
    Sdk("2.3.0", "offers_v2.py", "stdio", "auto", "2026-07-28"),
    Sdk("1.30.0", "offers_v1.py", "/mcp", "http", "2025-11-25"),
    Sdk("1.30.0", "offers_v1.py", "/sse", "sse", "2025-11-25"),
    Sdk("1.12.4", "offers_v1.py", "/mcp", "http", "2025-06-18"),
    Sdk("1.9.4", "offers_v1.py", "/mcp", "http", "2025-03-26"),
    Sdk("1.2.0", "offers_v1.py", "/sse", "sse", "2024-11-05"),
]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_a_client_reads_what_the_hub_offers(hub: Hub, sdk: Sdk) -> None:
    seen = json.loads(run(hub, program(sdk), sdk, ""))
    assert set(seen.pop("resources")) >= {"hub://guide", "test://static-text", "test://static-binary"}
    templates = seen.pop("templates")
    assert sdk.runtime == "1.2.0" if templates is None else "test://template/{id}/data" in templates
    assert set(seen.pop("prompts")) >= {"plan_with_tools", "test_simple_prompt"}
    assert seen == {
        "version": sdk.version,
        "text": "This is the content of the static text resource.",
        "made": "7",
        "got": "Prompt with arguments: arg1='a', arg2='b'",
        "completed": ["paris", "park", "party"],
        "refusal": -32602 if sdk.version >= "2026" else -32002,
        "updated": "test://watched-resource",
    }
