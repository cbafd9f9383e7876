"""Resources, prompts and completion in both eras: what is listed, read, got, completed, told, and how it fails."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import pytest

from tests import operations
from tests.servers import Hub, until
from tests.wire.edits import PROMPT, RESOURCE, by_method
from tests.wire.speech import LEGACY, META, Speaker, error_of, hello, late_error_of, request
from tests.wire.test_calls import leave
from tests.wire.toolbox import Apart, Box

Ask = Callable[..., Any]

UPDATED = "notifications/resources/updated"


@pytest.fixture(params=["2024-11-05", "2025-03-26", "2025-06-18", LEGACY, "stateless"])
def ask(request: pytest.FixtureRequest, speaker: Speaker) -> Ask:
    """One request in the words of a revision; gives its HTTP answer."""
    return asker(speaker, request.param)


@pytest.fixture(params=[LEGACY, "stateless"])
def ask_either(request: pytest.FixtureRequest, speaker: Speaker) -> Ask:
    return asker(speaker, request.param)


def asker(speaker: Speaker, version: str) -> Ask:
    if version == "stateless":
        return speaker.modern
    session = speaker.open_session(version)
    return lambda method, params=None, id=None: speaker.in_session(session, method, params or {}, id)


def result(answer: Any) -> dict[str, Any]:
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()["result"]
    return found


@pytest.fixture
def box(hub: Hub) -> Box:
    return Box(hub)


def test_lists_are_in_order_and_without_what_is_hidden(ask: Ask, hub: Hub) -> None:
    for method, member, key in (
        ("resources/list", "resources", "uri"),
        ("resources/templates/list", "resourceTemplates", "uriTemplate"),
        ("prompts/list", "prompts", "name"),
    ):
        first, second = result(ask(method)), result(ask(method))
        names = [entry[key] for entry in first[member]]
        assert first == second
        assert names == sorted(names)
        assert {"uri": "hub://guide", "uriTemplate": "box://text/{name}", "name": "box_weather"}[key] in names


def test_a_list_is_the_same_on_every_connection(speaker: Speaker) -> None:
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        first = speaker.modern(method).json()["result"]
        session = speaker.open_session()
        speaker.in_session(session, "resources/subscribe", {"uri": "hub://guide"})
        with Speaker(speaker.url, speaker.key) as other:
            assert other.modern(method).json()["result"] == first


def test_reading_getting_and_completing_are_limited_as_calls_are(hub: Hub) -> None:
    made = hub.operate(operations.issue_key, "few", ["tools:list", "tools:call"], calls_per_minute=2)
    ref = {"ref": {"type": "ref/prompt", "name": "box_weather"}, "argument": {"name": "city", "value": ""}}
    with Speaker(hub.url, made) as few:
        until(lambda: few.modern("server/discover").status_code == 200)
        for method, params in (
            ("resources/read", {"uri": "hub://guide"}),
            ("prompts/get", {"name": "test_simple_prompt"}),
            ("completion/complete", ref),
        ):
            statuses = [few.modern(method, params).status_code for _ in range(3)]
            assert statuses == [200, 200, 429]
            last = few.modern(method, params)
            assert error_of(last)["data"]["errorCode"] == "rate_limited"
            assert int(last.headers["retry-after"]) > 0


def test_text_bytes_and_templates_are_read(ask: Ask, box: Box) -> None:
    [guide] = result(ask("resources/read", {"uri": "hub://guide"}))["contents"]
    assert (guide["uri"], guide["mimeType"]) == ("hub://guide", "text/markdown")
    assert guide["text"].startswith("# How to use this hub")
    [picture] = result(ask("resources/read", {"uri": "test://static-binary"}))["contents"]
    assert base64.b64decode(picture["blob"]).startswith(b"\x89PNG")
    box.write("grüße")
    [text] = result(ask("resources/read", {"uri": f"box://text/{box.name}"}))["contents"]
    assert text == {"uri": f"box://text/{box.name}", "mimeType": "text/plain", "text": "grüße"}
    several = result(ask("resources/read", {"uri": "box://several"}))["contents"]
    assert [content["uri"] for content in several] == ["box://several/a", "box://several/b"]
    [who] = result(ask("resources/read", {"uri": "box://whoami"}))["contents"]
    assert json.loads(who["text"]) == {"caller": "wire"}


@pytest.mark.parametrize(
    "uri", ["nowhere://x", "box://text/", "box://text/nosuchfile", "box://text/a%2F..", "hub://Guide"]
)
def test_what_is_not_there_is_said_so_with_the_revisions_number(ask_either: Ask, uri: str) -> None:
    answer = ask_either("resources/read", {"uri": uri})
    error = error_of(answer)
    stateless = answer.status_code == 400
    assert (answer.status_code, error["code"]) == ((400, -32602) if stateless else (200, -32002))
    assert (error["data"]["uri"], error["data"]["errorCode"]) == (uri, "resource_not_found")


@pytest.mark.parametrize(
    ("method", "params", "told"),
    [
        ("resources/read", {}, "uri"),
        ("resources/read", {"uri": 7}, "uri"),
        ("resources/read", {"uri": "x:" + "y" * 2000}, "2000"),
        ("resources/read", {"uri": "x:\x00"}, "uri"),
        ("resources/list", {"cursor": ""}, "without a cursor"),
        ("resources/templates/list", {"cursor": 7}, "without a cursor"),
        ("prompts/list", {"cursor": "x"}, "without a cursor"),
        ("prompts/get", {}, "name"),
        ("prompts/get", {"name": "nowhere"}, '"nowhere"'),
        ("prompts/get", {"name": "box_weather"}, "needs the argument city"),
        ("prompts/get", {"name": "box_weather", "arguments": {"city": 7}}, "each a text"),
        ("prompts/get", {"name": "box_weather", "arguments": []}, "each a text"),
        ("prompts/get", {"name": "box_weather", "arguments": {"city": "Oslo", "x": "y"}}, 'no argument "x"'),
        ("prompts/get", {"name": "box_weather", "arguments": {"city": "Oslo", "tone": "rude"}}, "tone"),
        ("completion/complete", {}, "ref"),
        ("completion/complete", {"ref": {"type": "ref/tool"}, "argument": {}}, "ref/prompt"),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "box_weather"}}, "argument"),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "box_weather"}, "argument": {"name": "x", "value": ""}},
            "Arguments: city, country, number, tone",
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/prompt", "name": "nowhere"}, "argument": {"name": "x", "value": ""}},
            "nowhere",
        ),
        (
            "completion/complete",
            {"ref": {"type": "ref/resource", "uri": "x://{y}"}, "argument": {"name": "y", "value": ""}},
            "resource",
        ),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "box_weather"},
                "argument": {"name": "city", "value": ""},
                "context": {"arguments": {"country": 7}},
            },
            "context.arguments",
        ),
    ],
)
@pytest.mark.parametrize(("version", "status"), [(LEGACY, 200), ("stateless", 400)])
def test_what_is_asked_wrongly_is_told_what_to_change(
    speaker: Speaker, version: str, status: int, method: str, params: Any, told: str
) -> None:
    answer = asker(speaker, version)(method, params)
    assert answer.status_code == status
    error = error_of(answer)
    assert error["code"] == -32602
    assert told in error["message"]


def test_prompts_are_got_with_their_arguments(ask: Ask) -> None:
    got = result(ask("prompts/get", {"name": "box_weather", "arguments": {"city": "Oslo", "tone": "curt"}}))
    assert got["description"] == "Ask for the weather."
    assert got["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "Weather in Oslo, no? Be curt."}},
        {"role": "assistant", "content": {"type": "text", "text": "I look."}},
    ]
    plan = result(ask("prompts/get", {"name": "plan_with_tools", "arguments": {"task": "{detail}"}}))
    assert "Plan this task before you begin: {detail}" in plan["messages"][0]["content"]["text"]


def complete(ask: Ask, argument: str, typed: str, ref: Any = None, **context: str) -> dict[str, Any]:
    params: dict[str, Any] = {
        "ref": ref or {"type": "ref/prompt", "name": "box_weather"},
        "argument": {"name": argument, "value": typed},
    }
    if context:
        params["context"] = {"arguments": context}
    found: dict[str, Any] = result(ask("completion/complete", params))["completion"]
    return found


def test_values_are_completed(ask: Ask) -> None:
    assert complete(ask, "city", "O") == {"values": ["Oslo", "Odda"], "total": 2, "hasMore": False}
    assert complete(ask, "city", "O", country="jp")["values"] == ["Osaka"]
    assert complete(ask, "tone", "c")["values"] == ["curt"]
    assert complete(ask, "country", "")["values"] == []
    template = {"type": "ref/resource", "uri": "test://template/{id}/data"}
    assert complete(ask, "id", "1", template)["values"] == ["123"]
    many = complete(ask, "number", "7")
    assert (len(many["values"]), many["total"], many["hasMore"]) == (100, 250, True)


def test_failures_of_functions_say_what_they_may(ask_either: Ask, hub: Hub) -> None:
    for method, params, code, told in (
        ("resources/read", {"uri": "box://broken"}, "execution_error", "RuntimeError"),
        ("resources/read", {"uri": "box://slow/s"}, "timeout", "0.3 s"),
        ("resources/read", {"uri": "box://large"}, "result_invalid", "longer than"),
        ("prompts/get", {"name": "box_weather", "arguments": {"city": "Atlantis"}}, "execution_error", "above the sea"),
        (
            "completion/complete",
            {
                "ref": {"type": "ref/prompt", "name": "box_weather"},
                "argument": {"name": "city", "value": ""},
                "context": {"arguments": {"country": "xx"}},
            },
            "execution_error",
            "no country xx",
        ),
    ):
        answer = ask_either(method, params)
        error = error_of(answer)
        assert (answer.status_code, error["data"]["errorCode"]) == (200, code)
        assert told in error["message"]
        assert "inner words" not in answer.text


def test_a_session_cancels_what_it_reads(speaker: Speaker, box: Box) -> None:
    session = speaker.open_session()
    uri = f"box://long/{box.name}"
    reading = Apart(lambda: speaker.in_session(session, "resources/read", {"uri": uri}, id="r"))
    until(lambda: box.has("began"))
    word = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "r"}}
    with Speaker(speaker.url, speaker.key) as other:
        assert other.post(word, mcp_session_id=session).status_code == 202
    assert late_error_of(reading.answer())["data"]["errorCode"] == "cancelled"
    assert box.has("cancelled")


def test_a_stateless_client_that_goes_cancels_what_it_reads(speaker: Speaker, box: Box) -> None:
    body = speaker.modern_body("resources/read", params := {"uri": f"box://long/{box.name}"})
    leave(speaker, body, box, speaker.modern_headers("resources/read", params))
    until(lambda: box.has("cancelled"))


def test_caching_hints_say_who_may_share_what(speaker: Speaker) -> None:
    static = speaker.modern("resources/read", {"uri": "hub://guide"}).json()["result"]
    assert (static["ttlMs"], static["cacheScope"], static["resultType"]) == (60_000, "public", "complete")
    made = speaker.modern("resources/read", {"uri": "box://whoami"}).json()["result"]
    assert (made["ttlMs"], made["cacheScope"]) == (0, "private")
    for method in ("resources/list", "resources/templates/list", "prompts/list"):
        assert speaker.modern(method).json()["result"]["cacheScope"] == "public"
    session = speaker.open_session()
    plain = speaker.in_session(session, "resources/read", {"uri": "hub://guide"}).json()["result"]
    assert set(plain) == {"contents", "_meta"} or set(plain) == {"contents"}


def test_scopes_of_tools_hold_here_too(speaker: Speaker, hub: Hub, keys: dict[str, str]) -> None:
    with Speaker(hub.url, keys["lister"]) as lister:
        assert lister.modern("resources/list").status_code == 200
        for method, params in (
            ("resources/read", {"uri": "hub://guide"}),
            ("prompts/get", {"name": "plan_with_tools"}),
        ):
            refused = lister.modern(method, params)
            assert (refused.status_code, error_of(refused)["data"]["errorCode"]) == (403, "forbidden")


def test_a_reader_of_each_era_hears_of_an_edit_and_reads_the_new_text(speaker: Speaker, hub: Hub) -> None:
    uri = "test://watched-resource"
    session = speaker.open_session()
    assert speaker.in_session(session, "resources/subscribe", {"uri": uri}).json()["result"] == {}
    assert speaker.in_session(session, "resources/subscribe", {"uri": uri}).json()["result"] == {}
    wanted = {"resourcesListChanged": True, "resourceSubscriptions": [uri, "nowhere://x"]}
    body = speaker.modern_body("subscriptions/listen", {"notifications": wanted}, "sub")
    headers = speaker.modern_headers("subscriptions/listen")
    with (
        speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, in_session),
        speaker.streaming("POST", body, **headers) as (_, stateless),
    ):
        accepted = next(stateless)["params"]["notifications"]
        assert accepted == {"resourcesListChanged": True, "resourceSubscriptions": [uri]}
        for number in (1, 2):
            hub.operate(operations.update, RESOURCE, {"uri": uri}, content=f"text {number}")
            plain, told = by_method(in_session, 2), by_method(stateless, 2)
            assert plain[UPDATED] == {"uri": uri}
            assert told[UPDATED] == {"uri": uri, "_meta": {f"{META}subscriptionId": "sub"}}
            assert set(plain) == set(told) == {UPDATED, "notifications/resources/list_changed"}
            [read] = speaker.in_session(session, "resources/read", {"uri": uri}).json()["result"]["contents"]
            assert read["text"] == f"text {number}"
        assert speaker.in_session(session, "resources/unsubscribe", {"uri": uri}).json()["result"] == {}
        hub.operate(operations.update, RESOURCE, {"uri": uri}, content="text 3")
        hub.operate(operations.update, PROMPT, {"name": "test_simple_prompt"}, title="New")
        assert set(by_method(in_session, 2)) == {
            "notifications/resources/list_changed",
            "notifications/prompts/list_changed",
        }


def test_what_a_function_announces_reaches_its_readers(speaker: Speaker, box: Box) -> None:
    box.write("x")
    uri, other = f"box://text/{box.name}", "box://text/other"
    session = speaker.open_session("2025-03-26")
    assert speaker.in_session(session, "resources/subscribe", {"uri": uri}).json()["result"] == {}
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    with (
        speaker.streaming("GET", mcp_session_id=session, content_type=None) as (_, heard),
        speaker.streaming("POST", body, **speaker.modern_headers("subscriptions/listen")) as (_, listened),
    ):
        assert next(listened)["params"]["notifications"] == {"resourceSubscriptions": [uri]}
        assert speaker.modern_call("announce", {"uri": other}).json()["result"]["content"][0]["text"] == "said"
        speaker.modern_call("announce", {"uri": uri})
        assert next(heard) == {"jsonrpc": "2.0", "method": UPDATED, "params": {"uri": uri}}
        assert next(listened)["params"]["uri"] == uri


def test_what_is_not_there_cannot_be_subscribed_to(speaker: Speaker) -> None:
    session = speaker.open_session()
    answer = speaker.in_session(session, "resources/subscribe", {"uri": "nowhere://x"})
    assert error_of(answer)["code"] == -32002
    assert speaker.in_session(session, "resources/unsubscribe", {"uri": "nowhere://x"}).json()["result"] == {}
    for wanted in (
        {"resourceSubscriptions": "x"},
        {"resourceSubscriptions": [7]},
        {"resourceSubscriptions": ["x:y"] * 1001},
    ):
        wrong = speaker.modern("subscriptions/listen", {"notifications": wanted})
        assert (wrong.status_code, error_of(wrong)["code"]) == (400, -32602)


def test_subscriptions_end_with_their_session(speaker: Speaker, hub: Hub) -> None:
    session = speaker.open_session()
    speaker.in_session(session, "resources/subscribe", {"uri": "hub://guide"})
    assert hub.operate(operations.count, "sessions_app.ResourceSubscription", session=session) == 1
    assert speaker.http.delete("/mcp", headers=speaker.headers(mcp_session_id=session)).status_code == 204
    assert hub.operate(operations.count, "sessions_app.ResourceSubscription", session=session) == 0


def test_http_with_sse_reads_and_is_told(speaker: Speaker, hub: Hub) -> None:
    uri = "test://static-text"
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        path = next(heard)["endpoint"]
        speaker.post(hello("2024-11-05", speaker.name, id=1), path)
        assert "resources" in next(heard)["result"]["capabilities"]
        speaker.post(request("resources/read", {"uri": uri}, id=2), path)
        assert next(heard)["result"]["contents"][0]["text"] == "This is the content of the static text resource."
        speaker.post(request("resources/subscribe", {"uri": uri}, id=3), path)
        assert next(heard)["result"] == {}
        hub.operate(operations.update, RESOURCE, {"uri": uri}, description="Edited.")
        assert by_method(heard, 2)[UPDATED] == {"uri": uri}
