"""A person's key at the wire: it calls as the person, sees what both may see, and ends with either."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, postgres_database, until
from tests.wire import signing_in
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import Speaker, error_of
from tests.wire.toolbox import Apart, Box


def issue(name: str, owner: str, groups: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the number and the text of a key of the person."""
    from django.contrib.auth.models import Group, User

    from sessions_app.models import ApiKey

    person = User.objects.get(username=owner)
    rows = Group.objects.filter(name__in=groups)
    key, text = ApiKey.issue(name, owner=person, groups=rows, scopes=["tools:list", "tools:call"])
    return {"id": key.pk, "text": text}


@dataclass
class Held:
    """A key of a person, and somebody who speaks with it."""

    person: str
    user: int
    name: str
    id: int
    speaker: Speaker


@pytest.fixture
def anna(hub: Hub) -> Iterator[Held]:
    yield from held(hub)


def held(hub: Hub) -> Iterator[Held]:
    person, name = f"anna-{uuid.uuid4().hex[:8]}", f"laptop-{uuid.uuid4().hex[:8]}"
    made = hub.operate(signing_in.make_person, person, ("Closed",))
    key = hub.operate(issue, name, person, ("Closed",))
    hub.settle()  # no news of the test before is told on a stream of this one
    with Speaker(hub.url, key["text"]) as speaker:
        until(lambda: speaker.modern("tools/list").status_code == 200)
        yield Held(person, made["id"], name, key["id"], speaker)


def test_a_call_names_the_person_and_the_key(hub: Hub, anna: Held) -> None:
    assert anna.speaker.modern_call("add", {"a": 1, "b": 2}).status_code == 200
    mine = {"client_name": anna.speaker.name}
    rows = "invocations.McpToolInvocation"
    assert hub.operate(operations.values, rows, "principal", **mine) == [f"user:{anna.user}"]
    assert hub.operate(operations.values, rows, "caller_label", **mine) == [
        f"{anna.person} via {anna.name} (key {anna.id})"
    ]


def test_tools_follow_the_groups_of_the_person_and_of_the_key(hub: Hub, anna: Held) -> None:
    def sees() -> bool:
        tools = anna.speaker.modern("tools/list").json()["result"]["tools"]
        return "add" in [tool["name"] for tool in tools]

    hub.operate(operations.show_to_group_only, "tools_catalog.McpToolDefinition", {"name": "add"}, "Closed")
    try:
        until(sees)
        hub.operate(signing_in.leave, anna.person, "Closed")
        until(lambda: not sees())
        assert error_of(anna.speaker.modern_call("add", {"a": 1, "b": 2}))["data"]["errorCode"] == "tool_not_found"
        hub.operate(signing_in.join, anna.person, "Closed")
        until(sees)
    finally:
        hub.operate(operations.show_to_all, "tools_catalog.McpToolDefinition", {"name": "add"})


def revoke(hub: Hub, anna: Held) -> None:
    hub.operate(operations.revoke_key, anna.name)


def disable(hub: Hub, anna: Held) -> None:
    hub.operate(signing_in.disable_person, anna.person)


def ends_all(hub: Hub, anna: Held, box: Box, end: Any) -> None:
    """Open all that a key can open, end it, and see it ended; how soon is a matter of `tests.rigs.token_holders`."""
    speaker = anna.speaker
    session = speaker.open_session()
    with speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening):
        call = Apart(lambda: speaker.call(session, "hold", {"name": box.name}))
        until(lambda: box.has("began"))
        end(hub, anna)
        assert list(listening) == []
        answer = call.answer().json()
    assert answer["result"]["_meta"]["mcphub/error"]["errorCode"] == "cancelled"
    until(lambda: speaker.modern("tools/list").status_code == 401)


@pytest.mark.parametrize("end", [revoke, disable])
def test_what_is_open_under_a_persons_key_ends_with_key_and_person(hub: Hub, anna: Held, box: Box, end: Any) -> None:
    ends_all(hub, anna, box, end)


def test_the_end_of_one_key_leaves_the_persons_other_key_alone(hub: Hub, anna: Held) -> None:
    second = hub.operate(issue, "second", anna.person)
    with Speaker(hub.url, second["text"]) as other:
        until(lambda: other.modern("tools/list").status_code == 200)
        session = other.open_session()
        with other.streaming("GET", mcp_session_id=session, content_type=None) as (_, listening):
            revoke(hub, anna)
            until(lambda: anna.speaker.modern("tools/list").status_code == 401)
            assert other.call(session, "add", {"a": 1, "b": 2}).status_code == 200
            assert other.http.delete("/mcp", headers=other.headers(mcp_session_id=session)).status_code == 204
            assert list(listening) == []


def test_a_person_who_is_enabled_again_finds_the_key_as_it_was_left(hub: Hub, anna: Held) -> None:
    disable(hub, anna)
    until(lambda: anna.speaker.modern("tools/list").status_code == 401)
    hub.operate(operations.change, "auth.User", {"username": anna.person}, is_active=True, password="x")
    hub.settle()
    again = anna.speaker.modern("tools/list").status_code
    assert again == 401, "what ended with the person stays ended"


@pytest.mark.slow
def test_a_person_ends_within_the_same_time_on_postgresql(tmp_path: Path) -> None:
    with postgres_database() as url:
        environment = {"MCPHUB_APPS": "tests.toolbox", "MCPHUB_DATABASE_URL": url}
        with Hub(tmp_path, environment=environment, **TOOLBOX) as hub:
            for anna in held(hub):
                ends_all(hub, anna, Box(hub), disable)
