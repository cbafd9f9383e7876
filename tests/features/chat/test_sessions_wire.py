"""Conversations over OpenAI's wire: kept, one turn at a time, healed after a crash; and the limit of questions."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.chat.conftest import ENVIRONMENT, TOOLBOX, set_up
from tests.features.chat.script import calls, say, script
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.toolbox import Apart, Box

MODEL = "openai/scripted-large"


def post(raw: httpx2.Client, *steps: Any, session: str = "", prompt: str = "", **more: Any) -> httpx2.Response:
    body = {"model": MODEL, "messages": [{"role": "user", "content": script(*steps, prompt=prompt)}], **more}
    return raw.post("/chat/completions", json=body, headers={"x-session-id": session} if session else {})


def test_a_session_sends_the_model_what_was_said_before(raw, providers):
    first = post(
        raw, calls(("add", {"a": 2, "b": 3})), say("Five."), session="new", prompt="kept-1 ", x_mcp={"tools": ["add"]}
    ).json()
    session = first["x_mcp"]["session_id"]
    answer = post(raw, say("Six."), session=session, prompt="kept-2 ")
    assert answer.headers["x-session-id"] == session
    assert answer.json()["choices"][0]["message"]["content"] == "Six."
    sent = providers["openai"].about("kept-2")[-1]["body"]["messages"]
    assert [message["role"] for message in sent] == ["user", "assistant", "tool", "assistant", "user"]
    assert "5" in sent[2]["content"]
    # The same words by another way, and the whole history sent again as OpenAI's clients do.
    history = [
        {"role": "user", "content": script(calls(("add", {"a": 2, "b": 3})), say("Five."), prompt="kept-1 ")},
        {"role": "assistant", "content": "Five."},
        {"role": "user", "content": script(say("Six."), prompt="kept-2 ")},
        {"role": "assistant", "content": "Six."},
        {"role": "user", "content": script(say("Seven."), prompt="kept-3 ")},
    ]
    body = {"model": MODEL, "messages": history, "x_mcp": {"session_id": session}}
    assert raw.post("/chat/completions", json=body).status_code == 200
    sent = providers["openai"].about("kept-3")[-1]["body"]["messages"]
    assert [message["role"] for message in sent].count("user") == 3
    refused = raw.post("/chat/completions", json={**body, "messages": history[1:]})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_query")


def test_a_session_that_is_not_there_is_404(raw):
    answer = post(raw, say("!"), session="5b1f8c1e-6f43-4c4e-9b0e-0d5a3f6c7b8a")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "session_not_found")


def test_a_second_request_to_a_busy_session_is_told_to_come_back(raw, hub):
    session = post(raw, say("!"), session="new").json()["x_mcp"]["session_id"]
    box = Box(hub)
    steps = calls(("hold", {"name": box.name})), say("Slow.")
    slow = Apart(lambda: post(raw, *steps, session=session, x_mcp={"tools": ["hold"]}))
    until(lambda: box.has("began"))
    busy = post(raw, say("!"), session=session)
    box.release()
    assert slow.answer().status_code == 200
    assert (busy.status_code, busy.json()["error"]["code"]) == (409, "session_busy")
    assert (busy.headers["retry-after"], busy.headers["x-should-retry"]) == ("1", "true")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("limited-hub")


def test_a_turn_that_kill_nine_cut_off_is_healed_and_the_limit_outlives_it(folder, providers):
    environment = {
        **ENVIRONMENT,
        "MCPHUB_LIMITS": f"{ENVIRONMENT['MCPHUB_LIMITS']}, chat_burst=4, chat_refill_seconds=3600",
    }
    with Hub(folder, bundle=TOOLBOX, environment=environment) as hub:
        key, auditor = set_up(hub, providers), hub.key
    killed = Hub(folder, environment=environment).__enter__()
    headers = {"authorization": f"Bearer {key}"}
    with httpx2.Client(base_url=f"{killed.url}/v1", headers=headers, timeout=PATIENCE_SECONDS) as raw:
        session = raw.post("/sessions", json={}).json()["id"]

        def ask() -> None:
            with pytest.raises(httpx2.HTTPError):
                post(
                    raw,
                    calls(("hold", {"name": "kill"})),
                    say("Never."),
                    session=session,
                    prompt="first ",
                    x_mcp={"tools": ["hold"]},
                )

        asking = threading.Thread(target=ask)
        asking.start()
        began = killed.data / "toolbox" / "kill.began"
        until(began.exists)
        killed.kill()
        asking.join()
    with (
        Hub(folder, environment=environment) as again,
        httpx2.Client(base_url=f"{again.url}/v1", headers=headers, timeout=PATIENCE_SECONDS) as raw,
    ):
        answer = post(raw, say("Here again."), session=session, prompt="after-the-crash ")
        assert answer.status_code == 200, answer.text
        assert answer.headers["x-ratelimit-remaining-requests"] == "2"
        assert answer.json()["choices"][0]["message"]["content"] == "Here again."
        sent = providers["openai"].about("after-the-crash")[-1]["body"]["messages"]
        assert [message["role"] for message in sent] == ["user", "assistant", "tool", "user"]
        assert sent[2]["content"] == '{"error":"interrupted"}'
        again.key = auditor
        (call,) = again.rows(tool="hold")
        assert again.operate(operations.values, "chat.Query", "state", pk=call["turn_id"]) == ["interrupted"]
        assert call["error_code"] == "interrupted"
        for _ in range(2):
            assert post(raw, say("!")).status_code == 200
        refused = post(raw, say("!"))
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "rate_limit_exceeded")
        assert 0 < int(refused.headers["retry-after"]) <= 3600
        assert refused.headers["ratelimit-policy"] == '"chat";q=4;w=14400'
        assert refused.headers["x-should-retry"] == "true"
        assert refused.headers["x-ratelimit-remaining"] == "0"
