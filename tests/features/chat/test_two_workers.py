"""Two hubs over one PostgreSQL, and clients that go now to one and now to the other: what one began the other goes on
with, and what is to be done once is done once."""

from __future__ import annotations

import contextlib
import json
import socket
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest

from tests import operations
from tests.features.chat import rows
from tests.features.chat.conftest import ENVIRONMENT, TOOLBOX, set_up
from tests.features.chat.playing import unpaired
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.servers import Hub, free_port, postgres_database, until
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.rig

MODEL = "openai/scripted-large"
COUNT: Any = [{"type": "mcp", "server_label": "hub", "allowed_tools": ["count"], "require_approval": "always"}]


class Pair:
    """Both workers, each with an official client of the same key."""

    def __init__(self, hubs: list[Hub], key: str, clients: list[openai.OpenAI]) -> None:
        self.hub = hubs[0]
        self.urls = [hub.url for hub in hubs]
        self.key = key
        self.one, self.other = clients

    def counted(self, name: str) -> int:
        """How often the tool did it, as it says itself."""
        mark = self.hub.data / "toolbox" / f"{name}.counted"
        return mark.stat().st_size if mark.exists() else 0


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory, providers: dict[str, ScriptedProvider]) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("pair")
    with contextlib.ExitStack() as stack:
        address = stack.enter_context(postgres_database())
        environment = {**ENVIRONMENT, "MCPHUB_DATABASE_URL": address, "MCPHUB_DATA_DIR": str(folder / "one" / "data")}
        first = stack.enter_context(Hub(folder / "one", packs=["starter"], bundle=TOOLBOX, environment=environment))
        second = stack.enter_context(Hub(folder / "other", environment=environment))
        key = set_up(first, providers)
        clients = [
            stack.enter_context(
                openai.OpenAI(base_url=f"{hub.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_SECONDS)
            )
            for hub in (first, second)
        ]
        until(lambda: _knows(clients[1]))
        yield Pair([first, second], key, clients)


def _knows(client: openai.OpenAI) -> bool:
    try:
        return len(client.models.list().data) > 2
    except openai.APIStatusError:
        return False


def test_a_response_goes_on_at_the_other_worker(pair: Pair, providers: dict[str, ScriptedProvider]) -> None:
    mark = uuid.uuid4().hex
    first = pair.one.responses.create(model=MODEL, input=script(say("Aha."), prompt=mark))
    second = pair.other.responses.create(model=MODEL, input=script(say("Yes.")), previous_response_id=first.id)
    third = pair.one.responses.create(model=MODEL, input=script(say("So.")), previous_response_id=second.id)
    told = providers["openai"].about(mark)[-1]["body"]["messages"]
    assert [message["role"] for message in told] == ["user", "assistant"] * 2 + ["user"]
    assert pair.other.responses.retrieve(third.id).output_text == "So."
    pair.other.responses.delete(third.id)
    with pytest.raises(openai.NotFoundError):
        pair.one.responses.retrieve(third.id)


def test_an_approval_is_answered_at_the_other_worker_and_used_once(pair: Pair) -> None:
    name = uuid.uuid4().hex
    first = pair.one.responses.create(
        model=MODEL, input=script(calls(("count", {"name": name})), say("Counted.")), tools=COUNT
    )
    yes = [{"type": "mcp_approval_response", "approval_request_id": first.output[-1].id, "approve": True}]
    asked: Any = {"model": MODEL, "previous_response_id": first.id, "input": yes, "tools": COUNT}

    def answer(number: int) -> str:
        client = (pair.other, pair.one)[number % 2]
        try:
            return client.responses.create(**asked).output_text
        except openai.ConflictError as error:
            return str(error.code)

    with ThreadPoolExecutor(6) as pool:
        told = sorted(pool.map(answer, range(6)))
    assert told == ["Counted.", *["approval_used"] * 5]
    assert pair.counted(name) == 1


def test_a_call_of_chat_completions_is_approved_at_the_other_worker(pair: Pair) -> None:
    name = uuid.uuid4().hex
    text = script(calls(("count", {"name": name})), say("Counted."))
    asked: Any = {"model": MODEL, "messages": [{"role": "user", "content": text}], "tools": COUNT}
    waits: Any = pair.one.chat.completions.create(**asked)
    id_ = waits.x_mcp["approval_requests"][0]["id"]
    decided = pair.other.post(f"/approvals/{id_}", body={"approve": True}, cast_to=object)
    assert decided["status"] == "approved"  # type: ignore[index]
    assert pair.counted(name) == 0
    assert pair.one.chat.completions.create(**asked).choices[0].message.content == "Counted."
    assert pair.counted(name) == 1


def test_a_session_answers_one_request_at_a_time_wherever_they_come(
    pair: Pair, providers: dict[str, ScriptedProvider]
) -> None:
    """Whoever is refused comes again, as the official clients do; what the model is sent stays in whole units."""
    mark = uuid.uuid4().hex
    session = pair.one.post("/sessions", body={"max_messages": 6}, cast_to=object)["id"]  # type: ignore[index]
    refused: list[str] = []

    def ask(number: int) -> str:
        client = (pair.one, pair.other)[number % 2]
        text = script(calls(("count", {"name": f"{mark}-{number}"})), say(f"Turn {number}."))
        asked: Any = {
            "model": MODEL,
            "messages": [{"role": "user", "content": text}],
            "stream": number % 3 == 0,
            "extra_body": {"x_mcp": {"tools": ["count"], "session_id": session}},
        }
        while True:
            try:
                answer: Any = client.chat.completions.create(**asked)
                if not asked["stream"]:
                    return str(answer.choices[0].message.content)
                return "".join(chunk.choices[0].delta.content or "" for chunk in answer if chunk.choices)
            except openai.ConflictError as error:
                refused.append(str(error.code))

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, range(12))) == [f"Turn {number}." for number in range(12)]
    print(f"12 turns of one session over two workers; told to come back {len(refused)} times")
    assert set(refused) == {"session_busy"}
    assert [pair.counted(f"{mark}-{number}") for number in range(12)] == [1] * 12
    for request in providers["openai"].about(mark):
        messages = request["body"]["messages"]
        assert unpaired(messages) == []
        assert messages[0]["role"] == "user"
        assert len(messages) <= 6 + 2
    seen = pair.other.get(f"/sessions/{session}", cast_to=object)["messages"]  # type: ignore[index]
    assert seen[-1]["role"] == "assistant"


def test_a_provider_that_one_worker_leaves_alone_is_left_alone_by_the_other(pair: Pair) -> None:
    """The other one has not asked it. The pause grows with each attempt, so there is time to see it."""
    nobody = f"http://127.0.0.1:{free_port()}/v1"
    bounds = {"retries": 0, "breaker_failures": 2}
    pair.hub.operate(rows.provide, "weak", "compatible", nobody, models={"alone": {}}, **bounds)

    def resting(number: int) -> bool:
        with contextlib.suppress(openai.APIStatusError):
            pair.one.chat.completions.create(model="weak/alone", messages=[{"role": "user", "content": "x"}])
        parts = httpx2.get(f"{pair.urls[number]}/api/health", timeout=PATIENCE_SECONDS).json()["components"]
        return bool(parts["providers"]["status"] == "degraded")

    until(lambda: resting(0))
    until(lambda: resting(1))


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_is_in_the_audit_that_the_other_worker_reads(pair: Pair, stream: bool) -> None:
    name = uuid.uuid4().hex
    text = script(calls(("hold", {"name": name})), say("Never."))
    body = {
        "model": MODEL,
        "stream": stream,
        "messages": [{"role": "user", "content": text}],
        "x_mcp": {"tools": ["hold"]},
    }
    asked = json.dumps(body).encode()
    host, marks = pair.urls[1].removeprefix("http://"), pair.hub.data / "toolbox"
    with socket.create_connection(("127.0.0.1", int(host.partition(":")[2])), timeout=PATIENCE_SECONDS) as connection:
        head = (
            f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {pair.key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(asked)}\r\n\r\n"
        )
        connection.sendall(head.encode() + asked)
        until((marks / f"{name}.began").exists)
    left = time.monotonic()
    until((marks / f"{name}.cancelled").exists)
    print(f"its tool was cancelled after {(time.monotonic() - left) * 1000:.0f} ms")
    asked_for = {"tool": "hold", "arguments": f"$.name={json.dumps(name)}", "started_after": "2026-01-01T00:00:00Z"}
    [row] = until(lambda: pair.hub.rows(**asked_for))
    assert (row["error_code"], row["transport"]) == ("cancelled", "chat")


def test_what_turns_at_both_workers_use_is_counted_to_the_token_and_refused_by_both(pair: Pair) -> None:
    quota, asked, limit = f"both-{uuid.uuid4().hex[:8]}", 20, 12 * 20
    pair.hub.operate(
        rows.quota_of_key, "judge", name=quota, unit="tokens", period="month", soft_limit=1, hard_limit=limit
    )
    urls = [f"{url}/v1/chat/completions" for url in pair.urls]

    def ask(number: int) -> tuple[int, int]:
        """Ten tokens in, two out; what was counted of it before, where it is told."""
        body = {"model": MODEL, "messages": [{"role": "user", "content": script(say("Two words."))}]}
        headers = {"authorization": f"Bearer {pair.key}"}
        answer = httpx2.post(urls[number % 2], json=body, headers=headers, timeout=PATIENCE_SECONDS)
        warnings = answer.json()["x_mcp"].get("quotas") or [{"used": 0}]
        return answer.status_code, warnings[0]["used"]

    try:
        until(lambda: all([ask(0)[1], ask(1)[1]]))  # both count
        pair.hub.operate(operations.delete, "invocations.QuotaCount")
        with ThreadPoolExecutor(4) as pool:
            told = list(pool.map(ask, range(asked)))
        assert {status for status, _used in told} == {200}
        assert max(used for _status, used in told) == limit
        assert pair.hub.operate(rows.quota_sums, quota, ["used"]) == [[limit]]
        assert [ask(number)[0] for number in (0, 1)] == [429, 429]
    finally:
        pair.hub.operate(operations.delete, "invocations.McpQuota")
        pair.hub.operate(operations.delete, "invocations.QuotaCount")
        until(lambda: ask(0)[0] == ask(1)[0] == 200)
