"""A recorded call made again over REST: linked, compared, in a version of choice; refused where it cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire import replaying
from tests.wire.speech import Speaker


class Auditor:
    def __init__(self, hub: Hub, client: httpx2.Client, key: str) -> None:
        self.hub, self._client, self._key = hub, client, key

    def replay(self, invocation_id: str, idempotency_key: str | None = None, **body: Any) -> httpx2.Response:
        headers = {"authorization": f"Bearer {self._key}"}
        if idempotency_key is not None:
            headers["idempotency-key"] = idempotency_key
        return self._client.post(f"/api/invocations/{invocation_id}/replay/", json=body, headers=headers)

    def call(self, tool: str, arguments: dict[str, Any]) -> str:
        with Speaker(self.hub.url, self._key) as speaker:
            answer = speaker.modern_call(tool, arguments).json()
        return str(answer["result"]["_meta"]["mcphub/invocationId"])


@pytest.fixture(scope="module")
def people(hub: Hub) -> Iterator[dict[str, Auditor]]:
    for changed in ({"name": "versioned", "required": ["text", "reason"]}, {"name": "reworded"}):
        hub.operate(replaying.tool_of_two_versions, **changed)
    every = ["tools:list", "tools:call", "audit:read"]
    scopes = {"reader": every, "replayer": [*every, "calls:replay"], "caller": every[:2], "auditor": ["audit:read"]}
    made = [hub.operate(operations.issue_key, name, each) for name, each in scopes.items()]
    with httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS) as client:
        found = {
            name: Auditor(hub, client, key)
            for name, key in zip(("reader", "replayer", "caller", "auditor"), made, strict=True)
        }
        hub.settle()  # each tool is in force before its second version is
        yield found


def words(answer: httpx2.Response, status: int) -> str:
    assert answer.status_code == status, answer.text
    return str(answer.json()["error"]["message"])


def test_effect_comes_again_only_with_the_right_and_a_confirmation(people: dict[str, Auditor]) -> None:
    replayer = people["replayer"]
    first = replayer.call("count", {"name": "replayed"})
    assert "calls:replay" in words(people["reader"].replay(first, confirm=True), 403)
    assert words(people["caller"].replay(first, confirm=True), 403)
    assert "confirm: true" in words(replayer.replay(first), 409)
    told = replayer.replay(first, confirm=True).json()
    assert (told["status"], told["same"], told["replay_of"]) == ("ok", False, first)
    assert {
        "path": "$.result.content[0].text",
        "kind": "changed",
        "original": "call number 1",
        "replay": "call number 2",
    } in told["difference"]
    (row,) = replayer.hub.rows(replay_of=first)
    assert (row["invocation_id"], row["transport"]) == (told["invocation_id"], "rest")


def test_replay_without_the_right_to_call_is_forbidden_and_on_record(people: dict[str, Auditor]) -> None:
    first = people["reader"].call("versioned", {"text": "hello", "reason": "test"})
    assert people["auditor"].replay(first, dry_run=True).status_code == 200
    assert "tools:call" in words(people["auditor"].replay(first), 403)
    (row,) = people["reader"].hub.rows(replay_of=first)
    assert (row["error_code"], row["status"]) == ("forbidden", "error")


def test_replay_that_is_retried_under_a_key_is_made_once(people: dict[str, Auditor]) -> None:
    replayer = people["replayer"]
    first = replayer.call("count", {"name": "retried"})
    other = replayer.call("count", {"name": "retried"})
    told, again = (replayer.replay(first, "one-replay", confirm=True).json() for _ in range(2))
    assert (told["duplicate_of"], again["duplicate_of"]) == (None, told["invocation_id"])
    assert again["result"] == told["result"]
    assert "another request" in words(replayer.replay(other, "one-replay", confirm=True), 409)
    assert "visible ASCII" in replayer.replay(first, "two words", confirm=True).text
    assert replayer.replay(first, "another", confirm=True).json()["result"]["content"][0]["text"] == "call number 4"


def test_replay_of_another_version_is_another_request(people: dict[str, Auditor]) -> None:
    reader = people["reader"]
    first = reader.call("reworded", {"text": "hello"})
    assert reader.replay(first, "by-version").json()["tool_version"] == "2"
    assert "another request" in words(reader.replay(first, "by-version", version="1"), 409)


def test_dry_run_validates_and_calls_nothing(people: dict[str, Auditor]) -> None:
    reader = people["reader"]
    first = reader.call("count", {"name": "dry"})
    told = reader.replay(first, dry_run=True).json()
    assert (told["valid"], told["invocation_id"], told["difference"]) == (True, None, None)
    assert "visible ASCII" in reader.replay(first, "two words", dry_run=True).text
    assert reader.hub.rows(replay_of=first) == []


def test_version_is_chosen_and_a_redacted_call_is_not_made_again(people: dict[str, Auditor]) -> None:
    reader = people["reader"]
    first = reader.call("versioned", {"text": "hello", "reason": "test"})
    told = reader.replay(first).json()
    assert (told["tool_version"], told["same"]) == ("2", True)
    old = reader.replay(first, version="1", dry_run=True).json()
    assert (old["tool_version"], old["valid"]) == ("1", False)
    assert old["violations"]
    assert "no version 7" in words(reader.replay(first, version="7"), 409)
    assert reader.replay(first, version="1").json()["error"]["data"]["errorCode"] == "invalid_arguments"

    rule = {"place": "$.text", "tool_name": "versioned", "part": "arguments"}
    reader.hub.operate(operations.create, "invocations.McpRedactionRule", **rule)

    def latest() -> str:
        made = reader.call("versioned", {"text": "s3cret", "reason": "test"})
        rows = reader.hub.rows(tool="versioned", incomplete="true")
        return made if any(row["invocation_id"] == made for row in rows) else ""

    assert "redacted" in words(reader.replay(until(latest)), 409)
    assert words(reader.replay("unknown"), 404)
    assert words(reader.replay(first, whatever=1), 400)
