"""A key that is revoked, or expires, ends what is open under it: streams, sessions, questions, tasks and calls."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.speech import Speaker, error_of, request
from tests.wire.toolbox import Apart, Box


@pytest.fixture
def brief(hub: Hub) -> Iterator[tuple[str, Speaker]]:
    name = f"brief-{uuid.uuid4().hex[:8]}"
    with Speaker(hub.url, hub.operate(operations.issue_key, name, ["tools:list", "tools:call"])) as speaker:
        until(lambda: speaker.modern("tools/list").status_code == 200)
        yield name, speaker


@pytest.mark.parametrize("end", [operations.revoke_key, operations.expire_key], ids=["revoked", "expired"])
def test_what_is_open_under_a_key_ends_with_it(hub: Hub, brief: tuple[str, Speaker], box: Box, end: Any) -> None:
    name, speaker = brief
    session = speaker.open_session()
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, "s")
    with (
        speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening),
        speaker.streaming("GET", path="/sse", content_type=None) as (_, old),
        speaker.streaming("POST", body, **speaker.modern_headers("subscriptions/listen")) as (_, told),
    ):
        assert next(told)["method"] == "notifications/subscriptions/acknowledged"
        assert "endpoint" in next(old)
        call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}))
        until(lambda: box.has("began"))
        assert hub.operate(end, name) == 1
        assert list(listening) == list(old) == []
        assert [message["id"] for message in told] == ["s"]
        answer = call.answer().json()
    assert answer["result"]["_meta"]["mcphub/error"]["errorCode"] == "cancelled"
    held = {"arguments__contains": box.name}
    assert hub.operate(operations.values, "invocations.McpToolInvocation", "error_code", **held) == ["cancelled"]
    [key] = hub.operate(operations.values, "sessions_app.ApiKey", "pk", name=name)
    mine = {"principal": f"key:{key}"}
    until(lambda: set(hub.operate(operations.values, "sessions_app.McpSession", "state", **mine)) == {"closed"})
    assert error_of(speaker.in_session(session, "ping"))["data"]["errorCode"] == "unauthorized"


def test_a_revoked_key_is_refused_before_the_keys_are_read_again(hub: Hub, brief: tuple[str, Speaker]) -> None:
    name, speaker = brief
    assert hub.operate(operations.revoke_key_unread, name) == 1
    until(lambda: speaker.modern("tools/list").status_code == 401)


def test_a_disabled_persons_key_is_refused_before_the_keys_are_read_again(hub: Hub) -> None:
    name = f"owned-{uuid.uuid4().hex[:8]}"
    key, other = hub.operate(issue_keys_of_a_person, name)
    with Speaker(hub.url, key) as speaker, Speaker(hub.url, other) as another:
        until(lambda: speaker.modern("tools/list").status_code == another.modern("tools/list").status_code == 200)
        assert hub.operate(operations.disable_owner_unread, name) == 1
        until(lambda: speaker.modern("tools/list").status_code == 401)
        assert another.modern("tools/list").status_code == 401


def test_what_ends_a_persons_sessions_leaves_a_good_key(hub: Hub) -> None:
    """A client whose access is taken back ends what is open in the person's name; the person's keys go on."""
    name = f"owned-{uuid.uuid4().hex[:8]}"
    key, _ = hub.operate(issue_keys_of_a_person, name)
    with Speaker(hub.url, key) as speaker:
        until(lambda: speaker.modern("tools/list").status_code == 200)
        session = speaker.open_session()
        hub.operate(end_sessions_of_owner, name)
        until(lambda: speaker.in_session(session, "ping").status_code == 404)
        assert speaker.modern("tools/list").status_code == 200


def issue_keys_of_a_person(name: str) -> list[str]:
    """Return the texts of two keys of a new person."""
    from django.contrib.auth.models import User

    from sessions_app.models import ApiKey

    owner = User.objects.create_user(name)
    return [ApiKey.issue(each, scopes=["tools:list"], owner=owner)[1] for each in (name, f"{name}-2")]


def end_sessions_of_owner(name: str) -> None:
    from sessions_app import bus
    from sessions_app.models import ApiKey

    bus.publish(bus.CALLER_ENDED, f"user:{ApiKey.objects.get(name=name).owner_id}")


def test_a_question_ends_with_the_key_that_was_asked(hub: Hub, brief: tuple[str, Speaker], box: Box) -> None:
    name, speaker = brief
    session = speaker.open_session(elicitation={})
    with speaker.streaming(
        "POST",
        request("tools/call", {"name": "test_elicitation", "arguments": {"message": "Who?"}}, id=1),
        mcp_session_id=session,
    ) as (_, heard):
        asked = next(heard)
        assert asked["method"] == "elicitation/create"
        hub.operate(operations.revoke_key, name, "lost")
        (last,) = [message for message in heard if message.get("id") == 1]
    assert "result" in last, last
    assert last["result"]["_meta"]["mcphub/error"]["errorCode"] == "cancelled"


def test_another_key_goes_on(hub: Hub, brief: tuple[str, Speaker], speaker: Speaker) -> None:
    session = speaker.open_session()
    with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening):
        hub.operate(operations.revoke_key, brief[0], "lost")
        until(lambda: brief[1].modern("tools/list").status_code == 401)
        assert speaker.call(session, "add", {"a": 1, "b": 2}).json()["result"]["structuredContent"] == {"result": 3}
        assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
        assert list(listening) == []
