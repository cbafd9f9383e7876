"""Resources, prompts and completion on the wire: what the specification demands beside what `test_offers` shows.

In the oldest revision, the newest that has sessions, and the one without; the shapes of each are tested elsewhere.
"""

from __future__ import annotations

import base64
import json
import re
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.edits import PROMPT, RESOURCE
from tests.wire.speech import META, MODERN, Speaker, error_of, request

ERAS = ["2024-11-05", "2025-11-25", MODERN]
NUMBERS = ("001", "002", "003", "007", "099")
TOOLSET = "tools_catalog.McpToolset"
LISTS = ("resources/list", "resources/templates/list", "prompts/list")


def same(error: dict[str, Any]) -> str:
    """Return what two errors have in common: each has a row of its own."""
    data = {name: value for name, value in error["data"].items() if name not in ("correlationId", "invocationId")}
    return json.dumps({**error, "data": data})


@pytest.fixture(scope="module", autouse=True)
def content(hub: Hub, keys: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> None:
    """A few texts, and a prompt with two arguments."""
    bundle = {
        "format": "mcphub-bundle/1",
        "resources": [
            {"uri": f"many://{number}", "name": f"Many {number}", "content": f"text {number}"} for number in NUMBERS
        ],
        "prompts": [
            {
                "name": "wordy",
                "description": "Two words.",
                "arguments": [{"name": "word", "required": True}, {"name": "other"}],
                "messages": [{"role": "user", "content": "{word} and {other}"}],
            }
        ],
    }
    file: Path = tmp_path_factory.mktemp("content") / "bundle.json"
    file.write_text(json.dumps(bundle))
    hub.command("catalog", "load", str(file))
    with Speaker(hub.url, keys["wire"]) as speaker:
        until(lambda: "error" not in speaker.modern("prompts/get", GET_WORDY).json())


GET_WORDY = {"name": "wordy", "arguments": {"word": "x"}}


@pytest.fixture(params=ERAS)
def ask(speaker: Speaker, request: pytest.FixtureRequest) -> Any:
    """A request in a session of each version, or one that describes itself."""
    version = request.param

    def asking(method: str, params: dict[str, Any] | None = None) -> httpx2.Response:
        if version == MODERN:
            return speaker.modern(method, params)
        return speaker.in_session(session, method, params or {})

    session = "" if version == MODERN else speaker.open_session(version)
    return asking


# Lists --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", LISTS)
def test_a_list_of_content_is_the_same_for_everybody_and_after_everything(speaker: Speaker, method: str) -> None:
    one, other = speaker.open_session(), speaker.open_session()
    before = speaker.in_session(one, method).json()["result"]
    speaker.in_session(one, "resources/read", {"uri": "test://static-text"})
    speaker.in_session(one, "prompts/get", GET_WORDY)
    assert speaker.in_session(other, method).json()["result"] == before
    assert speaker.in_session(one, method).json()["result"] == before


@pytest.mark.parametrize(
    ("kind", "key", "wanted", "method"),
    [
        (RESOURCE, {"uri": "many://007"}, "resourcesListChanged", "notifications/resources/list_changed"),
        (PROMPT, {"name": "wordy"}, "promptsListChanged", "notifications/prompts/list_changed"),
    ],
)
def test_an_edit_is_told_to_who_listens(
    speaker: Speaker, hub: Hub, kind: str, key: dict[str, str], wanted: str, method: str
) -> None:
    session = speaker.open_session()
    body = speaker.modern_body("subscriptions/listen", {"notifications": {wanted: True}}, "s")
    with (
        speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, legacy),
        speaker.streaming("POST", body, **speaker.modern_headers("subscriptions/listen")) as (_, modern),
    ):
        assert next(modern)["params"]["notifications"] == {wanted: True}
        hub.operate(operations.change, kind, key, enabled=False)
        try:
            assert any(message["method"] == method for message in legacy)
            told = next(modern)
            assert (told["method"], told["params"]["_meta"][f"{META}subscriptionId"]) == (method, "s")
        finally:
            hub.operate(operations.change, kind, key, enabled=True)


def test_a_toolset_shows_the_prompts_that_it_chooses_and_tells_of_another_choice(speaker: Speaker, hub: Hub) -> None:
    address = "/mcp/s/reading"

    def listed() -> list[str]:
        answer = speaker.post(speaker.modern_body("prompts/list"), address, **speaker.modern_headers("prompts/list"))
        return [prompt["name"] for prompt in answer.json()["result"]["prompts"]] if answer.status_code == 200 else []

    hub.operate(operations.create, TOOLSET, slug="reading", reads="chosen", read_patterns="word? many://*")
    until(lambda: listed() == ["wordy"])
    params = {"uri": "test://static-text"}
    refused = speaker.post(
        speaker.modern_body("resources/read", params), address, **speaker.modern_headers("resources/read", params)
    )
    assert error_of(refused)["data"]["errorCode"] == "resource_not_found"
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"promptsListChanged": True}}, "s")
    with speaker.streaming("POST", body, address, **speaker.modern_headers("subscriptions/listen")) as (_, heard):
        next(heard)
        hub.operate(operations.change, TOOLSET, {"slug": "reading"}, read_patterns="nothing")
        assert next(heard)["method"] == "notifications/prompts/list_changed"
    until(lambda: listed() == [])
    hub.operate(operations.delete, TOOLSET, slug="reading")


# Resources ----------------------------------------------------------------------------------------


def test_addresses_of_resources_are_uris(speaker: Speaker) -> None:
    session = speaker.open_session()
    for entry in speaker.in_session(session, "resources/list").json()["result"]["resources"]:
        assert re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*:[!-~]*", entry["uri"])


def test_a_changed_resource_is_told_to_who_subscribed_to_it_alone(speaker: Speaker, hub: Hub) -> None:
    session, other = speaker.open_session(), speaker.open_session()
    assert speaker.in_session(session, "resources/subscribe", {"uri": "many://001"}).json()["result"] == {}
    assert speaker.in_session(session, "resources/subscribe", {"uri": "many://002"}).json()["result"] == {}
    assert speaker.in_session(session, "resources/unsubscribe", {"uri": "many://001"}).json()["result"] == {}
    assert speaker.in_session(other, "resources/subscribe", {"uri": "many://003"}).json()["result"] == {}
    wanted = {"resourceSubscriptions": ["many://002", "many://999"]}
    body = speaker.modern_body("subscriptions/listen", {"notifications": wanted}, 5)
    with (
        speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, mine),
        speaker.streaming("GET", mcp_session_id=other, content_type=None) as (_, others),
        speaker.streaming("POST", body, **speaker.modern_headers("subscriptions/listen")) as (_, modern),
    ):
        assert next(modern)["params"]["notifications"] == {"resourceSubscriptions": ["many://002"]}
        for number in ("001", "002", "003"):
            hub.operate(operations.change, RESOURCE, {"uri": f"many://{number}"}, content=f"{number} edited")
        for heard, uri in ((mine, "many://002"), (others, "many://003"), (modern, "many://002")):
            told = next(message for message in heard if message["method"] == "notifications/resources/updated")
            assert told["params"]["uri"] == uri


def test_a_resource_for_some_is_none_for_others(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    missing = error_of(speaker.in_session(session, "resources/read", {"uri": "many://998"}))
    hub.operate(operations.show_to_group_only, RESOURCE, {"uri": "many://099"}, "content")
    try:
        until(lambda: "error" in speaker.in_session(session, "resources/read", {"uri": "many://099"}).json())
        hidden = error_of(speaker.in_session(session, "resources/read", {"uri": "many://099"}))
        assert same(hidden).replace("099", "998") == same(missing)
        assert error_of(speaker.in_session(session, "resources/subscribe", {"uri": "many://099"}))["code"] == -32002
        listed = speaker.in_session(session, "resources/list").json()["result"]["resources"]
        assert "many://099" not in {entry["uri"] for entry in listed}
        assert speaker.modern("resources/list").json()["result"]["cacheScope"] == "private"
    finally:
        hub.operate(operations.show_to_all, RESOURCE, {"uri": "many://099"})


# Prompts and completion ----------------------------------------------------------------------------

PROMPTS = {
    "test_simple_prompt": {},
    "test_prompt_with_arguments": {"arg1": "a", "arg2": "b"},
    "test_prompt_with_embedded_resource": {"resourceUri": "test://x"},
    "test_prompt_with_image": {},
}


@pytest.mark.parametrize("name", PROMPTS)
def test_messages_of_prompts_are_whole(ask: Any, name: str) -> None:
    result = ask("prompts/get", {"name": name, "arguments": PROMPTS[name]}).json()["result"]
    assert result["messages"]
    for message in result["messages"]:
        assert message["role"] in ("user", "assistant")
        block = message["content"]
        if block["type"] in ("image", "audio"):
            assert base64.b64decode(block["data"], validate=True)
            assert re.fullmatch(r"[a-z]+/[a-z0-9.+-]+", block["mimeType"])
        elif block["type"] == "resource":
            resource = block["resource"]
            assert resource["uri"] == "test://x"
            assert resource["mimeType"]
            assert ("text" in resource) != ("blob" in resource)
        else:
            assert block["text"]


@pytest.mark.parametrize("word", ["{other}", "{word}", "{{other}}", "%s", "\u202e", '"', "}{"])
def test_arguments_of_prompts_are_texts_and_nothing_else(ask: Any, word: str) -> None:
    params = {"name": "wordy", "arguments": {"word": word, "other": "SECRET"}}
    text = ask("prompts/get", params).json()["result"]["messages"][0]["content"]["text"]
    assert text == f"{word} and SECRET"


def complete(value: Any, name: Any = "word", prompt: Any = "wordy", **more: Any) -> dict[str, Any]:
    return {"ref": {"type": "ref/prompt", "name": prompt}, "argument": {"name": name, "value": value}, **more}


def test_completion_of_a_hidden_prompt_tells_nothing(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    missing = error_of(speaker.in_session(session, "completion/complete", complete("w", prompt="wordz")))
    hub.operate(operations.show_to_group_only, PROMPT, {"name": "wordy"}, "content")
    try:
        asked = request("completion/complete", complete("w"))
        until(lambda: "error" in speaker.post(asked, mcp_session_id=session).json())
        hidden = error_of(speaker.in_session(session, "completion/complete", complete("w")))
        assert same(hidden).replace("wordy", "wordz") == same(missing)
    finally:
        hub.operate(operations.show_to_all, PROMPT, {"name": "wordy"})
        until(lambda: "error" not in speaker.modern("prompts/get", GET_WORDY).json())


def test_completions_are_limited_as_the_calls_of_a_key_are(hub: Hub) -> None:
    key = hub.operate(operations.issue_key, "typist", ["tools:list"], calls_per_minute=2)
    with Speaker(hub.url, key) as typist:
        until(lambda: typist.modern("server/discover").status_code == 200)
        answers = [typist.modern("completion/complete", complete("w")) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [200, 200, 429]
    assert error_of(answers[2])["data"]["errorCode"] == "rate_limited"
    assert int(answers[2].headers["retry-after"]) > 0
