"""Resources, prompts and completion of other servers: approved like tools, read, completed and followed in each era."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import pytest

from tests.servers import until
from tests.upstreams.conftest import Operator, Peer, child, old_python
from tests.wire.speech import Speaker

KINDS = ["read2", "read1", "readio1"]


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator) -> Iterator[None]:
    old = old_python()

    def peer(scheme: str, script: str, *words: str, python: str = sys.executable) -> Peer:
        return Peer(script, *words, python=python, environment={**os.environ, "PEER_SCHEME": scheme})

    modern = peer("read2", "sdk_v2.py", "http")
    legacy = peer("read1", "sdk_v1.py", "streamable-http", python=old)
    with ExitStack() as stack:
        for each in (modern, legacy):
            stack.callback(each.kill)
            each.launch()
        for each in (modern, legacy):
            each.await_ready()
        kid = child("readio1", "sdk_v1.py", old, environment={"PEER_SCHEME": "readio1"})
        operator.connect_all({"read2": {"url": modern.url}, "read1": {"url": legacy.url}, "readio1": kid})
        yield
        for slug in KINDS:
            operator.change(slug, enabled=False)


@pytest.fixture
def speaker(speaker: Speaker) -> Speaker:
    until(lambda: "readio1.greet" in speaker.modern("prompts/list").text)
    until(lambda: all(f"{kind}://note" in speaker.modern("resources/list").text for kind in KINDS))
    return speaker


def both(speaker: Speaker, method: str, params: dict[str, Any]) -> list[dict[str, Any]]:
    """Ask in both eras; give the results."""
    answers = [speaker.modern(method, params), speaker.in_session(speaker.open_session(), method, params)]
    return [answer.json()["result"] for answer in answers]


@pytest.mark.parametrize("kind", KINDS)
def test_a_resource_and_what_a_template_names_are_read_over_there(kind: str, speaker: Speaker) -> None:
    for result in both(speaker, "resources/read", {"uri": f"{kind}://note"}):
        assert result["contents"][0]["text"].startswith("note")
        assert result["contents"][0]["uri"] == f"{kind}://note"
    for result in both(speaker, "resources/read", {"uri": f"{kind}://echo/parrot"}):
        assert result["contents"][0]["text"] == "parrot"
    templates = speaker.modern("resources/templates/list").json()["result"]["resourceTemplates"]
    assert f"{kind}://echo/{{word}}" in [template["uriTemplate"] for template in templates]


@pytest.mark.parametrize("kind", KINDS)
def test_a_prompt_is_got_and_what_is_typed_is_completed_over_there(kind: str, speaker: Speaker) -> None:
    for result in both(speaker, "prompts/get", {"name": f"{kind}.greet", "arguments": {"name": "Ada"}}):
        assert result["messages"][0]["content"]["text"] == "Hello, Ada!"
    for ref in (
        {"type": "ref/prompt", "name": f"{kind}.greet"},
        {"type": "ref/resource", "uri": f"{kind}://echo/{{word}}"},
    ):
        argument = {"name": "name" if ref["type"] == "ref/prompt" else "word", "value": "a"}
        for result in both(speaker, "completion/complete", {"ref": ref, "argument": argument}):
            assert result["completion"]["values"] == ["ada", "alan"]


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_not_there_is_not_found(kind: str, speaker: Speaker) -> None:
    answer = speaker.modern("resources/read", {"uri": f"{kind}://nothing"}).json()
    assert answer["error"]["code"] == -32602


def test_who_subscribed_hears_that_a_resource_over_there_reads_differently(speaker: Speaker) -> None:
    session = speaker.open_session()
    uri = "read2://note"
    assert speaker.in_session(session, "resources/subscribe", {"uri": uri}).json()["result"] == {}
    body = speaker.modern_body("subscriptions/listen", {"notifications": {"resourceSubscriptions": [uri]}})
    with (
        speaker.streaming("GET", mcp_session_id=session) as (_, heard),
        speaker.streaming("POST", body, **speaker.modern_headers("subscriptions/listen")) as (_, listened),
        Speaker(speaker.url, speaker.key) as other,
        ThreadPoolExecutor(1) as apart,
    ):
        assert next(listened)["method"] == "notifications/subscriptions/acknowledged"
        # The hub follows the upstream a moment after the subscription; until then a touch goes unheard.
        first = apart.submit(next, listened)
        until(lambda: other.modern_call("read2.touch", {}).status_code == 200 and first.done())
        assert first.result()["params"]["uri"] == uri
        # The stream of a session tells of lists as well, which other modules' connections may change meanwhile.
        assert next(news for news in heard if "list_changed" not in news["method"])["params"] == {"uri": uri}


def test_offers_wait_for_approval_like_tools(operator: Operator, speaker: Speaker) -> None:
    states = operator.row("read2")["states"]
    assert {states[name] for name in ("read2://note", "read2://echo/{word}", "greet", "touch")} == {"approved"}
    operator.change("read2", enabled=False)
    until(lambda: "read2://note" not in speaker.modern("resources/list").text)
    assert "read2.greet" not in speaker.modern("prompts/list").text
    operator.change("read2", enabled=True)
    until(lambda: "read2://note" in speaker.modern("resources/list").text)
