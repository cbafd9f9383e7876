"""At each entry point: a repeat whose first answer retention took is told so at once, and has no second effect."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.conftest import TOOLBOX
from tests.wire.piped import beside
from tests.wire.remote import connect
from tests.wire.speech import Speaker, error_of, request
from tests.wire.toolbox import Box

Ask = Callable[[], dict[str, Any]]


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    with Hub(tmp_path_factory.mktemp("late"), environment={"MCPHUB_APPS": "tests.toolbox"}, **TOOLBOX) as running:
        yield running


def entry_points(hub: Hub, speaker: Speaker, boxes: dict[str, Box], stack: ExitStack) -> dict[str, Ask]:
    """Each way to send one call again and again: what it is answered, as result or error of JSON-RPC."""

    def what(entry_point: str) -> dict[str, Any]:
        marked = {"mcphub/idempotencyKey": boxes[entry_point].name}
        return {"name": "count", "arguments": {"name": boxes[entry_point].name}, "_meta": marked}

    session = speaker.open_session()
    line = stack.enter_context(connect(stack.enter_context(Speaker(hub.url, speaker.key))))
    piped = stack.enter_context(beside(hub, MCPHUB_API_KEY=str(speaker.key)))
    piped.shake_hands()
    return {
        "stateless": lambda: _said(speaker.modern("tools/call", what("stateless"))),
        "session": lambda: _said(speaker.in_session(session, "tools/call", what("session"))),
        "request id": lambda: _said(speaker.call(session, "count", {"name": boxes["request id"].name}, id="same")),
        "remote": lambda: _heard(line.ask(request("tools/call", what("remote")))),
        "stdio": lambda: dict(piped.ask(request("tools/call", what("stdio")))),
    }


def _said(answer: httpx2.Response) -> dict[str, Any]:
    assert answer.status_code < 500, answer.text
    return {"error": error_of(answer)} if "error" in answer.text[:200] else dict(answer.json())


def _heard(event: tuple[str, int, Any]) -> dict[str, Any]:
    kind, _, data = event
    return {"error": data} if kind == "error" else dict(data)


@pytest.mark.parametrize("policy", [{"bodies_days": 30}, {"rows_days": 30}], ids=["bodies", "rows"])
def test_each_entry_point_tells_of_the_first_call_and_none_makes_it_again(late: Hub, policy: dict[str, int]) -> None:
    boxes = {entry_point: Box(late) for entry_point in ("stateless", "session", "request id", "remote", "stdio")}
    scopes = ["tools:list", "tools:call", "audit:read", "calls:replay"]
    key = late.operate(operations.issue_key, f"late-{uuid.uuid4().hex[:6]}", scopes)
    with ExitStack() as stack:
        speaker = stack.enter_context(Speaker(late.url, key))
        until(lambda: speaker.modern("server/discover").status_code == 200)
        ways = entry_points(late, speaker, boxes, stack)
        firsts = {entry_point: ask()["result"]["_meta"]["mcphub/invocationId"] for entry_point, ask in ways.items()}
        headers = {"authorization": f"Bearer {key}"}
        replay = f"/api/invocations/{firsts['stateless']}/replay/"
        sent = {"headers": {**headers, "idempotency-key": "again"}, "json": {"confirm": True}}
        replayed = speaker.http.post(replay, **sent).json()["invocation_id"]
        for first in (*firsts.values(), replayed):
            until(lambda first=first: speaker.http.get(f"/api/audit/proofs/{first}/", headers=headers).is_success)
        late.operate(operations.retain, 40, **policy)
        for entry_point, ask in ways.items():
            error = ask()["error"]
            told = json.dumps(error)
            assert firsts[entry_point] in told, (entry_point, error)
            assert "is not made again" in told, (entry_point, error)
            if entry_point != "remote":
                assert error["data"]["errorCode"] == "duplicate_request", (entry_point, error)
        again = speaker.http.post(replay, **sent)
        # What would be made again is not on record.
        assert again.status_code == (404 if "rows_days" in policy else 409), again.text
        effects = {entry_point: box.times("counted") for entry_point, box in boxes.items()}
        assert effects == dict.fromkeys(boxes, 1) | {"stateless": 2}
