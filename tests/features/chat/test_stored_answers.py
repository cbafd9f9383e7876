"""What is kept of a question over `/api/query`: a row of it, a row of its answer, and a row of each call."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from django.db import IntegrityError, transaction

from mcphub.features.chat.models import AIResponse, Query
from tests.features.chat import rows
from tests.features.chat.script import calls, say, script
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS


@pytest.fixture
def api(chat_hub: tuple[Hub, str]) -> Iterator[httpx2.Client]:
    hub, key = chat_hub
    headers = {"authorization": f"Bearer {key}", "user-agent": "asker/1"}
    with httpx2.Client(base_url=hub.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        yield client


def ask(api: httpx2.Client, *steps: Any, **more: Any) -> dict[str, Any]:
    answer = api.post("/api/query", json={"content": script(*steps), **more})
    assert answer.status_code == 200, answer.text
    value: dict[str, Any] = answer.json()
    return value


def test_a_question_and_its_answer_are_rows(api: httpx2.Client, chat_hub: tuple[Hub, str]) -> None:
    hub, _ = chat_hub
    session = api.post("/api/session", json={}).json()["id"]
    steps = (calls(("add", {"a": 2, "b": 3})), say("Five."))
    told = ask(api, *steps, session_id=session, provider="huawei_maas", metadata={"ticket": 7})
    row = hub.operate(rows.question_with_answer, told["query_id"])
    assert (row["id"], row["session"], row["content"]) == (told["query_id"], session, script(*steps))
    assert row["provider"] == row["provider_used"] == told["provider_used"] == "huawei_maas"
    assert row["metadata"].items() >= {"ticket": 7, "client_ip": "127.0.0.1", "user_agent": "asker/1"}.items()
    assert (row["answer"], row["answer_content"], row["model"]) == (told["id"], "Five.", told["model"])
    assert (row["usage"], row["duration_ms"]) == (told["usage"], told["duration_ms"])
    assert row["times"] == sorted(row["times"])
    assert uuid.UUID(told["id"]) != uuid.UUID(told["query_id"])
    [call] = told["tool_calls"]
    [recorded] = hub.rows(turn=told["query_id"])
    assert (call["id"], call["tool_name"]) == (recorded["invocation_id"], recorded["tool_name"])


def test_a_tool_that_fails_is_named_and_its_error_told(api: httpx2.Client) -> None:
    told = ask(api, calls(("tell", {"times": 0, "fail": True})), calls(("add", {"a": 1, "b": 1})), say("Partly."))
    assert (told["content"], told["failed_tools"]) == ("Partly.", ["tell"])
    failed, done = told["tool_calls"]
    assert (failed["result"], done["error"]) == (None, None)
    assert failed["error"]["message"].startswith("Error: ")


@pytest.mark.django_db
def test_an_answer_needs_its_question_and_a_provider() -> None:
    question = Query.objects.create(content="?", principal="key:1", entry_point="query", process_id="p")
    answer = {"query": question, "provider_used": "openai", "model": "m", "duration_ms": 1}
    for wrong in ({"query": None}, {"provider_used": ""}):
        with pytest.raises(IntegrityError), transaction.atomic():
            AIResponse.objects.create(**{**answer, **wrong})
    AIResponse.objects.create(**answer)
    with pytest.raises(IntegrityError), transaction.atomic():
        AIResponse.objects.create(**answer)
