"""Two secrets go through every door of the hub: one of a known form, one at a name that a rule marks. Whoever dumps the
database, or reads the log, finds neither; and whoever must read them again does."""

from __future__ import annotations

import base64
import contextlib
import json
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests import operations
from tests.features.chat import dumping
from tests.features.chat.conftest import ENVIRONMENT, TOOLBOX, set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.servers import Hub, postgres_database, until
from tests.upstreams.conftest import Operator, Peer
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import Speaker

MODEL = "openai/scripted-large"
RULES = [
    {"kind": "path", "place": "$..name", "part": "both", "tool_name": tool}
    for tool in ("count", "errand", "hold", "up.*")
]


@dataclass
class Canaries:
    """A fresh pair for each door."""

    formed: str
    named: str

    @classmethod
    def fresh(cls) -> Canaries:
        return cls(f"ghp_{uuid.uuid4().hex}{uuid.uuid4().hex[:4]}", f"tulip{uuid.uuid4().hex}")

    def are_nowhere_in(self, hub: Hub) -> None:
        assert hub.operate(dumping.found, self.formed, self.named) == []
        log = hub.log()
        assert (self.formed in log, self.named in log) == (False, False)


@pytest.fixture
def both() -> Canaries:
    return Canaries.fresh()


@dataclass
class Doors:
    hub: Hub
    api: httpx2.Client
    speaker: Speaker
    provider: ScriptedProvider

    def ask(self, path: str, body: dict[str, Any]) -> Any:
        answer = self.api.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


@pytest.fixture(scope="module", params=["sqlite", pytest.param("postgresql", marks=pytest.mark.rig)])
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, providers: dict[str, ScriptedProvider]
) -> Iterator[Doors]:
    folder: Path = tmp_path_factory.mktemp("canaries")
    with contextlib.ExitStack() as stack:
        environment = dict(ENVIRONMENT)
        if request.param == "postgresql":
            environment["MCPHUB_DATABASE_URL"] = stack.enter_context(postgres_database())
        hub = stack.enter_context(Hub(folder, packs=["starter"], bundle=TOOLBOX, environment=environment))
        key = set_up(hub, providers)
        for rule in RULES:
            hub.operate(operations.create, "invocations.McpRedactionRule", **rule)
        hub.settle()
        headers = {"authorization": f"Bearer {key}"}
        api = stack.enter_context(httpx2.Client(base_url=hub.url, headers=headers, timeout=PATIENCE_SECONDS))
        speaker = stack.enter_context(Speaker(hub.url, key))
        yield Doors(hub, api, speaker, providers["openai"])


def test_a_call_over_mcp(doors: Doors, both: Canaries) -> None:
    echoed = doors.speaker.modern_call("echo", {"text": f"my token is {both.formed}"})
    assert both.formed in echoed.text
    assert "call number 1" in doors.speaker.modern_call("count", {"name": both.named}).text
    both.are_nowhere_in(doors.hub)


def test_a_question_without_a_session(doors: Doors, both: Canaries) -> None:
    """The rule marks the value in a call; the user had said it before, and the model says it after."""
    steps = script(calls(("count", {"name": both.named})), say(f"{both.named} and {both.formed} are counted."))
    tools = [{"type": "mcp", "server_label": "hub", "require_approval": "never"}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": f"{both.formed} {steps}"}], "tools": tools}
    answer = doors.ask("/v1/chat/completions", body)
    assert both.named in answer["choices"][0]["message"]["content"]
    both.are_nowhere_in(doors.hub)


def test_a_conversation_goes_on_with_what_was_said(doors: Doors, both: Canaries) -> None:
    opened = doors.api.post("/api/session", json={"context": {"token": both.formed}}).json()
    assert opened["context"] == {"token": both.formed}
    once = script(calls(("count", {"name": both.named})), say(f"Counted {both.named}."))
    first = doors.ask("/api/query", {"content": f"{both.formed} {once}", "session_id": opened["id"]})
    assert first["tool_calls"][0]["arguments"] == {"name": both.named}
    doors.ask("/api/query", {"content": script(say(f"It was {both.named}.")), "session_id": opened["id"]})
    both.are_nowhere_in(doors.hub)
    # The model and the caller read what was said, not what is on record.
    last = json.dumps(doors.provider.about(both.formed)[-1]["body"]["messages"])
    assert last.count(both.named) >= 3
    told = doors.api.get(f"/api/session/{opened['id']}").json()
    assert told["context"] == {"token": both.formed}
    assert both.named in json.dumps(told["messages"])
    assert doors.api.delete(f"/api/session/{opened['id']}").status_code == 204

    def kept() -> int:
        models = ("chat.ChatMessage", "chat.ChatSession")
        return sum(doors.hub.operate(operations.count, model, clear__isnull=False) for model in models)

    until(lambda: not kept())


def test_an_approved_call_is_made_with_the_arguments_that_were_asked(doors: Doors, both: Canaries) -> None:
    steps = script(calls(("count", {"name": both.named})), say("Counted."))
    tools = [{"type": "mcp", "server_label": "hub", "allowed_tools": ["count"], "require_approval": "always"}]
    body = {"model": MODEL, "messages": [{"role": "user", "content": steps}], "tools": tools}
    id_ = doors.ask("/v1/chat/completions", body)["x_mcp"]["approval_requests"][0]["id"]
    both.are_nowhere_in(doors.hub)
    asked = doors.api.get(f"/v1/approvals/{id_}").json()
    assert json.loads(asked["arguments"]) == {"name": both.named}
    doors.ask(f"/v1/approvals/{id_}", {"approve": True, "reason": f"fine: {both.formed}"})
    doors.ask("/v1/chat/completions", body)
    assert (doors.hub.data / "toolbox" / f"{both.named}.counted").exists()
    used = doors.api.get(f"/v1/approvals/{id_}").json()
    assert (used["status"], both.named in used["arguments"]) == ("used", False)
    both.are_nowhere_in(doors.hub)


def test_a_response_goes_on_after_an_approval(doors: Doors, both: Canaries) -> None:
    tools = [{"type": "mcp", "server_label": "hub", "server_url": "hub", "allowed_tools": ["count"]}]
    steps = script(calls(("count", {"name": both.named})), say("Counted."))
    first = doors.ask("/v1/responses", {"model": MODEL, "input": f"{both.formed} {steps}", "tools": tools})
    request = first["output"][-1]
    both.are_nowhere_in(doors.hub)
    yes = {"type": "mcp_approval_response", "approval_request_id": request["id"], "approve": True}
    more = {"model": MODEL, "input": [yes], "tools": tools, "previous_response_id": first["id"]}
    second = doors.ask("/v1/responses", more)
    call = next(item for item in second["output"] if item["type"] == "mcp_call")
    assert (json.loads(call["arguments"]), call["output"]) == ({"name": both.named}, "call number 1")
    assert both.named in doors.api.get(f"/v1/responses/{second['id']}").text
    again = doors.api.post("/v1/responses", json=more)
    assert again.json()["error"]["code"] == "approval_used"
    both.are_nowhere_in(doors.hub)


def test_a_task_gives_its_client_what_its_row_hides(doors: Doors, both: Canaries) -> None:
    session = doors.speaker.open_session()
    name = f"{both.named}-{both.formed}"
    params = {"name": "errand", "arguments": {"name": name}, "task": {"ttl": 60_000}}
    made = doors.speaker.in_session(session, "tools/call", params).json()["result"]["task"]
    folder = doors.hub.data / "toolbox"
    until(lambda: (folder / f"{name}.began").exists())
    both.are_nowhere_in(doors.hub)
    (folder / f"{name}.release").touch()
    told = doors.speaker.in_session(session, "tasks/result", {"taskId": made["taskId"]})
    assert f"{name} was released" in told.text
    both.are_nowhere_in(doors.hub)


def test_a_stream_that_waits_for_its_client(doors: Doors, both: Canaries) -> None:
    """The call's answer is on an event stream, whose events are kept for a client that comes back."""
    session = doors.speaker.open_session()
    name = f"{both.named}-{both.formed}"
    (doors.hub.data / "toolbox").mkdir(exist_ok=True)
    (doors.hub.data / "toolbox" / f"{name}.release").touch()
    meta = {"progressToken": "p"}
    params = {"name": "hold", "arguments": {"name": name}, "_meta": meta}
    told = doors.speaker.in_session(session, "tools/call", params)
    assert f"{name} was released" in told.text

    def kept() -> bool:
        return any(doors.hub.operate(operations.values, "sessions_app.StreamEvent", "message", session_id=session))

    until(kept)
    both.are_nowhere_in(doors.hub)


def test_refused_requests(doors: Doors, both: Canaries) -> None:
    """Of a stranger's words only forms are known: no rule names a place in them."""
    headers = {"user-agent": f"agent {both.formed}", "content-type": "application/json"}
    for path in ("/mcp", f"/nowhere/{both.formed}"):
        assert (
            httpx2.post(f"{doors.hub.url}{path}", content=b"{}", headers=headers, timeout=PATIENCE_SECONDS).status_code
            >= 400
        )
    unknown = doors.speaker.modern_call(f"no-{both.formed}", {"password": both.named})
    assert unknown.status_code < 500
    until(lambda: doors.hub.operate(operations.count, "sessions_app.RefusedRequest", agent__startswith="agent "))
    both.are_nowhere_in(doors.hub)


def test_an_upstream_that_says_back_what_it_was_told(doors: Doors, both: Canaries) -> None:
    """In a result and in an error, with the value in Base64 beside it; and a call that its schema refuses."""
    with Peer("sdk_v2.py", "http") as peer:
        Operator(doors.hub).connect("up", url=peer.url)
        until(lambda: "up.echo" in doors.speaker.modern("tools/list").text)
        text = f"{both.formed} {base64.b64encode(both.formed.encode()).decode()}"
        assert both.formed in doors.speaker.modern_call("up.echo", {"text": text}).text
        assert both.formed in doors.speaker.modern_call("up.fail", {"words": text}).text
        assert "isError" in doors.speaker.modern_call("up.echo", {"text": 3, "name": both.named}).text
        both.are_nowhere_in(doors.hub)
    doors.hub.operate(operations.change, "tools_catalog.McpConnection", {"slug": "up"}, enabled=False)
