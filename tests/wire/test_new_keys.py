"""A key opens what it may from the moment it was made, at every worker, though none has heard of it yet."""

from __future__ import annotations

import secrets
import uuid
from concurrent.futures import ThreadPoolExecutor

import httpx2

from tests import operations
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker, error_of
from tests.wire.workers import ENOUGH

UNKNOWN = "The key is unknown or was revoked. Ask the operator for a new one."


def _status(hub: Hub, key: str) -> int:
    with Speaker(hub.url, key) as speaker:
        return speaker.modern("tools/list").status_code


def test_a_new_key_works_at_once(hub: Hub) -> None:
    key = hub.operate(operations.issue_key_unheard, f"new-{uuid.uuid4().hex[:8]}")
    assert _status(hub, key) == 200


def test_a_new_key_works_at_both_workers(pair: Hub) -> None:
    key = pair.operate(operations.issue_key_unheard, f"new-{uuid.uuid4().hex[:8]}")
    assert {_status(pair, key) for _ in range(ENOUGH)} == {200}


def test_a_new_text_of_a_key_works_at_both_workers(pair: Hub) -> None:
    name = f"rotated-{uuid.uuid4().hex[:8]}"
    pair.operate(operations.issue_key, name)
    key = pair.operate(operations.rotate_key_unheard, name)
    assert {_status(pair, key) for _ in range(ENOUGH)} == {200}


def test_other_texts_are_refused_though_they_begin_as_the_new_key_does(hub: Hub) -> None:
    key = hub.operate(operations.issue_key_unheard, f"new-{uuid.uuid4().hex[:8]}")
    with Speaker(hub.url, key[:-1] + ("A" if key[-1] != "A" else "B")) as speaker:
        answer = speaker.modern("tools/list")
    assert (answer.status_code, error_of(answer)["message"]) == (401, UNKNOWN)


def test_many_guesses_are_refused_while_others_are_served(hub: Hub, speaker: Speaker) -> None:
    def guess(_: int) -> int:
        key = f"mcph_{secrets.token_hex(4)}_{secrets.token_urlsafe(32)}"
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        return client.post("/mcp", json=body, headers={"authorization": f"Bearer {key}"}).status_code

    with httpx2.Client(base_url=hub.url, timeout=PATIENCE_SECONDS) as client, ThreadPoolExecutor(16) as pool:
        refused = pool.map(guess, range(200))
        assert speaker.modern("tools/list").status_code == 200
        assert set(refused) == {401}
