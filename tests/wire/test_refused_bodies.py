"""A request that is refused leaves nothing in the hub's memory, however large it was."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.servers import Hub
from tests.wire.speech import Speaker

pytestmark = pytest.mark.rig

REQUESTS = 80
LARGE = "x" * 900_000
_MOST_GROWTH_MIB = 30
"""Their bodies are 69 MiB, and read twice some."""


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("refusing")) as hub:
        yield hub


@pytest.fixture
def client(alone: Hub) -> Iterator[Speaker]:
    with Speaker(alone.url, alone.key) as made:
        yield made


def malformed(client: Speaker) -> int:
    return client.post(b'{"a":"' + LARGE.encode() + b'"', mcp_protocol_version="2026-07-28").status_code


def too_large(client: Speaker) -> int:
    return client.post(b" " * 3 * len(LARGE), mcp_protocol_version="2026-07-28").status_code


def headers_that_differ(client: Speaker) -> int:
    return client.modern("tools/call", {"name": "echo", "arguments": {"a": LARGE}}, mcp_name="add").status_code


def unknown_method(client: Speaker) -> int:
    return client.modern("tools/cull", {"name": LARGE}).status_code


def unknown_tool(client: Speaker) -> int:
    return client.modern("tools/call", {"name": "nobody", "arguments": {"a": LARGE}}).status_code


def malformed_chat(client: Speaker) -> int:
    return client.post(b'{"a":"' + LARGE.encode() + b'"', path="/v1/chat/completions").status_code


def malformed_rest(client: Speaker) -> int:
    return client.post(b'{"a":"' + LARGE.encode() + b'"', path="/api/tool-definitions").status_code


@pytest.mark.parametrize(
    "refused", [malformed, too_large, headers_that_differ, unknown_method, unknown_tool, malformed_chat, malformed_rest]
)
def test_refused_requests_leave_nothing(alone, client, refused):
    assert 400 <= refused(client) < 500
    before = alone.resident_mib()
    for _ in range(REQUESTS):
        refused(client)
    assert alone.resident_mib() - before < _MOST_GROWTH_MIB
