"""What is read, got and completed is on record as calls are: through every door, whoever asks and however it ends."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.piped import beside
from tests.wire.speech import LEGACY, Speaker, error_of, hello, late_error_of, request
from tests.wire.toolbox import Apart, Box

Door = Callable[[str, dict[str, Any], Any], dict[str, Any]]

GUIDE = ("resources/read", {"uri": "hub://guide"})
WEATHER = {"name": "box_weather", "arguments": {"city": "Oslo", "tone": "curt"}}
CITY = {"ref": {"type": "ref/prompt", "name": "box_weather"}, "argument": {"name": "city", "value": "O"}}
DOORS = ["http", "session", "sse", "stdio", "stdio session"]


@pytest.fixture(params=DOORS)
def door(request: pytest.FixtureRequest, hub: Hub, speaker: Speaker) -> Iterator[tuple[str, Door]]:
    """Return the name of the client, and how it asks."""
    with ExitStack() as stack:
        yield opened(request.param, hub, speaker, stack)


def opened(kind: str, hub: Hub, speaker: Speaker, stack: ExitStack) -> tuple[str, Door]:
    if kind == "http":
        return speaker.name, lambda method, params, id: speaker.modern(method, params, id).json()
    if kind == "session":
        session = speaker.open_session()
        return speaker.name, lambda method, params, id: speaker.in_session(session, method, params, id).json()
    if kind == "sse":
        _, heard = stack.enter_context(speaker.streaming("GET", path="/sse", content_type=None))
        path = next(heard)["endpoint"]
        speaker.post(hello(LEGACY, speaker.name, id="hello"), path)
        assert next(heard)["id"] == "hello"

        def ask(method: str, params: dict[str, Any], id: Any) -> dict[str, Any]:
            speaker.post(request(method, params, id), path)
            answer: dict[str, Any] = next(heard)
            return answer

        return speaker.name, ask
    pipe = stack.enter_context(beside(hub))
    if kind == "stdio":
        return pipe.name, lambda method, params, id: pipe.ask(pipe.modern(method, params, id))
    pipe.shake_hands()
    return pipe.name, lambda method, params, id: pipe.ask(request(method, params, id))


def test_every_door_records_what_is_read_got_and_completed(door: tuple[str, Door], hub: Hub) -> None:
    client, ask = door
    contents = ask(*GUIDE, "g")["result"]["contents"]
    messages = ask("prompts/get", WEATHER, "p")["result"]["messages"]
    completion = ask("completion/complete", CITY, "c")["result"]["completion"]
    completed, got, read = hub.rows(client=client)
    assert [(row["method"], row["target"], row["tool_name"]) for row in (read, got, completed)] == [
        ("resources/read", "hub://guide", ""),
        ("prompts/get", "box_weather", ""),
        ("completion/complete", "box_weather", ""),
    ]
    assert [row["arguments"] for row in (read, got, completed)] == [GUIDE[1], WEATHER["arguments"], CITY]
    assert read["result"] == {"contents": contents}
    assert got["result"]["messages"] == messages
    assert completed["result"] == {"completion": completion}
    assert [row["request_id"] for row in (read, got, completed)] == ["g", "p", "c"]
    assert {row["status"] for row in (read, got, completed)} == {"ok"}
    assert all(row["principal"] and row["tool_digest"] and row["session_id"] for row in (read, got, completed))
    assert ask("tools/call", {"name": "echo", "arguments": {"text": "x"}}, "t")["result"]
    assert hub.row(client=client, method="tools/call")["target"] is None


def test_what_is_refused_or_fails_is_on_record_with_its_error(door: tuple[str, Door], hub: Hub) -> None:
    client, ask = door
    asked = [
        ("resources/read", {"uri": "nowhere://x"}, "resource_not_found", "nowhere://x"),
        ("resources/read", {}, "invalid_params", ""),
        ("resources/read", {"uri": "box://broken"}, "execution_error", "box://broken"),
        ("prompts/get", {"name": "nowhere"}, "prompt_not_found", "nowhere"),
        ("prompts/get", {"name": "box_weather", "arguments": {"city": 7}}, "invalid_params", "box_weather"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "nowhere"}}, "prompt_not_found", "nowhere"),
    ]
    for number, (method, params, code, target) in enumerate(asked):
        error = ask(method, params, number)["error"]
        row = hub.rows(client=client)[0]
        assert (row["method"], row["target"], row["error_code"]) == (method, target, code)
        assert error["data"]["errorCode"] == code
        assert row["error"]["message"] == error["message"]
        assert row["invocation_id"] == error["data"]["invocationId"]


def test_a_key_that_may_not_read_is_refused_on_record(hub: Hub, keys: dict[str, str]) -> None:
    with Speaker(hub.url, keys["lister"]) as lister:
        assert error_of(lister.modern(*GUIDE))["data"]["errorCode"] == "forbidden"
        row = hub.row(client=lister.name)
    assert (row["method"], row["target"], row["error_code"]) == ("resources/read", "hub://guide", "forbidden")


def test_a_limit_that_is_reached_is_on_record(hub: Hub) -> None:
    key = hub.operate(operations.issue_key, "reader", ["tools:call"], calls_per_minute=1)
    with Speaker(hub.url, key) as reader:
        until(lambda: reader.modern("server/discover").status_code == 200)
        assert [reader.modern(*GUIDE).status_code for _ in range(2)] == [200, 429]
        assert [row["error_code"] for row in hub.rows(client=reader.name)] == ["rate_limited", ""]


def test_a_read_that_its_client_cancels_is_on_record(speaker: Speaker, hub: Hub, box: Box) -> None:
    session = speaker.open_session()
    reading = Apart(lambda: speaker.in_session(session, "resources/read", {"uri": f"box://long/{box.name}"}, id="r"))
    until(lambda: box.has("began"))
    assert hub.rows(client=speaker.name) == []
    word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "r"}}
    with Speaker(speaker.url, speaker.key) as other:
        other.post(word, mcp_session_id=session)
    assert late_error_of(reading.answer())["data"]["errorCode"] == "cancelled"
    row = hub.row(client=speaker.name)
    assert (row["error_code"], row["target"]) == ("cancelled", "box://long/{name}")


def test_a_template_is_found_by_its_own_text_and_by_what_was_asked(speaker: Speaker, hub: Hub, box: Box) -> None:
    box.write("x")
    uri = f"box://text/{box.name}"
    speaker.modern("resources/read", {"uri": uri})
    row = hub.row(client=speaker.name, target="box://text/{name}")
    assert hub.row(arguments=f'$.uri="{uri}"', session=row["session_id"])["invocation_id"] == row["invocation_id"]
    assert hub.rows(client=speaker.name, method="prompts/get") == []
    assert hub.rows(client=speaker.name, method="tools/call") == []
    answer = httpx2.get(
        f"{hub.url}/api/invocations/",
        params={"method": "ping"},
        headers={"Authorization": f"Bearer {hub.key}"},
        timeout=PATIENCE_SECONDS,
    )
    assert answer.status_code == 400


def test_a_secret_in_what_is_asked_for_stands_in_no_row(speaker: Speaker, hub: Hub) -> None:
    secret = "ghp_" + "a1B2" * 9
    speaker.modern("resources/read", {"uri": f"nowhere://{secret}"})
    speaker.modern("prompts/get", {"name": "box_weather", "arguments": {"city": secret}})
    rows = hub.rows(client=speaker.name)
    assert len(rows) == 2
    assert secret not in json.dumps(rows)
    assert all("redacted:" in json.dumps(row["arguments"]) for row in rows)


def test_what_was_read_is_sealed_exported_and_verified(speaker: Speaker, hub: Hub, tmp_path: Path) -> None:
    speaker.modern(*GUIDE)
    row = hub.row(client=speaker.name)
    proof = until(lambda: proved(hub, row["invocation_id"]))
    assert '"target":"hub://guide"' in proof["invocation"]["covered"]
    hub.command("audit", "verify")
    out = tmp_path / "audit.jsonl"
    hub.command("audit", "export", "-o", str(out))
    exported = [json.loads(line) for line in out.read_text().splitlines()]
    assert any("hub://guide" in json.dumps(each) and "resources/read" in json.dumps(each) for each in exported)


def proved(hub: Hub, invocation_id: str) -> dict[str, Any]:
    answer = httpx2.get(
        f"{hub.url}/api/audit/proofs/{invocation_id}/",
        headers={"Authorization": f"Bearer {hub.key}"},
        timeout=PATIENCE_SECONDS,
    )
    found: dict[str, Any] = answer.json() if answer.status_code == 200 else {}
    return found


def test_a_read_is_not_made_again(speaker: Speaker, hub: Hub) -> None:
    speaker.modern(*GUIDE)
    row = hub.row(client=speaker.name)
    answer = httpx2.post(
        f"{hub.url}/api/invocations/{row['invocation_id']}/replay/",
        json={},
        headers={"Authorization": f"Bearer {hub.key}"},
        timeout=PATIENCE_SECONDS,
    )
    assert answer.status_code == 409
    assert "resources/read" in answer.text
