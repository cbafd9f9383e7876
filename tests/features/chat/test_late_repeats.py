"""A chat turn repeated after retention took the first answer: the model is told so, and nothing is done twice."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.chat import conftest
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture(scope="module")
def late(
    tmp_path_factory: pytest.TempPathFactory, providers: dict[str, ScriptedProvider]
) -> Iterator[tuple[Hub, httpx2.Client]]:
    """A hub whose record may be taken away: no other test reads it."""
    folder = tmp_path_factory.mktemp("late-chat")
    with Hub(folder, packs=["starter"], bundle=conftest.TOOLBOX, environment=conftest.ENVIRONMENT) as hub:
        conftest.set_up(hub, providers)
        key = hub.operate(operations.issue_key, "late", ["tools:list", "tools:call", "chat", "audit:read"])
        headers = {"authorization": f"Bearer {key}"}
        with httpx2.Client(base_url=hub.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
            until(lambda: client.get("/v1/models").status_code == 200)
            yield hub, client


def asked(path: str, content: str) -> dict[str, Any]:
    if path == "/api/query":
        return {"content": content, "tools": ["count"]}
    messages = [{"role": "user", "content": content}]
    return {"model": "openai/scripted-large", "messages": messages, "x_mcp": {"tools": "all"}}


@pytest.mark.parametrize("policy", [{"bodies_days": 30}, {"rows_days": 30}], ids=["bodies", "rows"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/query"])
def test_the_model_is_told_of_the_first_call_and_none_is_made_again(
    late: tuple[Hub, httpx2.Client], providers: dict[str, ScriptedProvider], path: str, policy: dict[str, int]
) -> None:
    hub, client = late
    name = f"late-{uuid.uuid4().hex[:12]}"
    body = asked(path, script(calls(("count", {"name": name})), say("Once.")))

    def ask() -> str:
        answer = client.post(path, json=body, headers={"idempotency-key": name})
        assert answer.status_code == 200, answer.text
        last: dict[str, Any] = providers["openai"].about(name)[-1]["body"]["messages"][-1]
        assert last["role"] == "tool"
        return str(last["content"])

    assert ask() == "call number 1"
    (first,) = until(lambda: hub.rows(tool="count", arguments=f'$.name="{name}"', started_after="2026-01-01T00:00:00Z"))
    proof = f"/api/audit/proofs/{first['invocation_id']}/"
    until(lambda: client.get(proof).is_success)
    hub.operate(operations.retain, 40, **policy)
    assert "is not made again" in ask()
    assert (hub.data / "toolbox" / f"{name}.counted").read_text() == "."
