"""Servers that others wrote, behind the hub: each transport, both languages of the official SDKs."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.clients import install
from tests.servers import Hub, free_port, until
from tests.upstreams.conftest import Operator
from tests.wire.input_requests import ALL, answer_to, calling, demanded
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of

pytestmark = pytest.mark.rig

EVERYTHING = ["every", "everyhttp", "everysse"]
PERSON = {"elicitation": ALL["elicitation"]}
"""No roots: they ask for those a third of a second after a connection began, amid the call that there is by then."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("others")
    (made / "note.txt").write_text("hello from a file")
    subprocess.run(["git", "init", "-q", "-b", "trunk", str(made)], check=True)
    return made


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator, folder: Path) -> Iterator[None]:
    programs, python = install.node(install.UPSTREAMS, install=False), install.python("servers", install=False)
    if programs is None or python is None:
        pytest.skip("The servers of others are not installed: python -m tests.clients.install")
    node = str(programs / "node_modules/.bin/node")
    scope = programs / "node_modules/@modelcontextprotocol"
    everything = str(scope / "server-everything/dist/index.js")
    children = {
        "every": (node, everything, "stdio"),
        "files": (node, str(scope / "server-filesystem/dist/index.js"), str(folder)),
        "clock": (str(python), "-m", "mcp_server_time", "--local-timezone", "UTC"),
        "git": (str(python), "-m", "mcp_server_git", "--repository", str(folder)),
    }
    with ExitStack() as stack:
        for name, (command, *words) in children.items():
            profile = {"name": name, "command": command, "arguments": words, "readable": [str(folder)]}
            operator.connect(name, transport="stdio", profile=profile, may_sample=True)
        for name, mode, transport, path in (
            ("everyhttp", "streamableHttp", "streamable-http", "/mcp"),
            ("everysse", "sse", "sse", "/sse"),
        ):
            port = free_port()
            server = subprocess.Popen(
                [node, everything, mode],
                env={**os.environ, "PORT": str(port)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            stack.callback(server.wait)
            stack.callback(server.kill)
            operator.connect(name, url=f"http://127.0.0.1:{port}{path}", transport=transport, may_sample=True)
            until(lambda name=name: operator.row(name)["discovered"])  # type: ignore[misc]
        yield
        for name in (*children, "everyhttp", "everysse"):
            operator.change(name, enabled=False)


@pytest.fixture
def speaker(speaker: Speaker) -> Speaker:
    until(
        lambda: all(f'"{name}.' in speaker.modern("tools/list").text for name in (*EVERYTHING, "files", "clock", "git"))
    )
    return speaker


def test_each_of_them_answers(speaker: Speaker, folder: Path) -> None:
    assert [text_of(speaker.modern_call(f"{name}.echo", {"message": "hi"})) for name in EVERYTHING] == ["Echo: hi"] * 3
    assert (
        text_of(speaker.modern_call("files.read_text_file", {"path": str(folder / "note.txt")})) == "hello from a file"
    )
    assert "UTC" in text_of(speaker.modern_call("clock.get_current_time", {"timezone": "UTC"}))
    assert "trunk" in text_of(speaker.modern_call("git.git_status", {"repo_path": str(folder)}))


def test_structured_results_and_images_come_through(speaker: Speaker) -> None:
    answer = speaker.modern_call("everyhttp.get-structured-content", {"location": "New York"}).json()["result"]
    assert set(answer["structuredContent"]) == {"temperature", "conditions", "humidity"}
    image = speaker.modern_call("every.get-tiny-image", {}).json()["result"]["content"]
    assert "image/png" in [block.get("mimeType") for block in image]


@pytest.mark.parametrize("name", EVERYTHING)
def test_progress_of_a_long_operation_is_heard(name: str, speaker: Speaker) -> None:
    session = speaker.open_session()
    body = {
        "jsonrpc": "2.0",
        "id": f"long-{name}",
        "method": "tools/call",
        "params": {
            "name": f"{name}.trigger-long-running-operation",
            "arguments": {"duration": 1, "steps": 4},
            "_meta": {"progressToken": "p"},
        },
    }
    with speaker.streaming("POST", body, mcp_session_id=session) as (_, heard):
        said = list(heard)
    steps = [message["params"]["progress"] for message in said if message.get("method") == "notifications/progress"]
    assert steps == sorted(steps)
    assert len(steps) >= 3
    assert "result" in said[-1]


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_model_is_asked_through_the_hub(name: str, speaker: Speaker) -> None:
    session = speaker.open_session(**ALL)
    answer: dict[str, Any] = {"role": "assistant", "model": "m", "content": {"type": "text", "text": "a thought"}}
    with calling(speaker, session, f"{name}.trigger-sampling-request", {"prompt": "Think", "maxTokens": 10}) as (
        _,
        heard,
    ):
        for message in heard:
            if message.get("method") == "sampling/createMessage":
                speaker.post(answer_to(message, answer), mcp_session_id=session)
            elif "result" in message:
                break
    assert "a thought" in str(message["result"])


@pytest.mark.parametrize("name", EVERYTHING)
def test_a_person_is_asked_through_the_hub(name: str, speaker: Speaker) -> None:
    session = speaker.open_session(**PERSON)
    with calling(speaker, session, f"{name}.trigger-elicitation-request") as (_, heard):
        asked = next(heard)
        assert (asked["method"], asked["params"].get("mode", "form")) == ("elicitation/create", "form")
        speaker.post(answer_to(asked, {"action": "accept", "content": {"name": "Ada"}}), mcp_session_id=session)
        assert "Ada" in str(next(heard)["result"])


@pytest.mark.parametrize("name", EVERYTHING)
def test_an_address_comes_first_and_is_asked_for_after(name: str, speaker: Speaker) -> None:
    session = speaker.open_session(**PERSON)
    arguments = {"url": f"https://example.org/{name}", "elicitationId": name, "errorPath": True}
    tool = f"{name}.trigger-url-elicitation"
    first = demanded(speaker.call(session, tool, arguments))
    assert first["url"].startswith("https://")  # its own, whatever it was given
    assert first["elicitationId"] != name
    with calling(speaker, session, tool, arguments) as (_, heard):  # by a request, the second time
        asked = next(heard)
        assert asked["params"]["url"] == arguments["url"]
        speaker.post(answer_to(asked, {"action": "accept"}), mcp_session_id=session)
        answer = next(message for message in heard if "result" in message)  # it may tell of the end first
        assert "accept" in str(answer["result"])


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("git.git_status", {"repo_path": "/"}),
        ("clock.get_current_time", {"timezone": "Nowhere/Land"}),
        ("files.read_text_file", {"path": "/nothing/there"}),
        ("every.echo", {"message": 5}),
    ],
)
def test_what_fails_there_fails_here_with_a_reason(tool: str, arguments: dict[str, Any], speaker: Speaker) -> None:
    answer = speaker.modern_call(tool, arguments).json()
    failed = answer["result"]
    assert failed["isError"] is True
    assert failed["content"][0]["text"]


def test_a_file_outside_stays_closed(speaker: Speaker) -> None:
    answer = speaker.modern_call("files.read_text_file", {"path": sys.executable}).json()["result"]
    assert answer["isError"] is True


def test_calls_of_all_of_them_are_on_record(speaker: Speaker, upstream_hub: Hub) -> None:
    for name in EVERYTHING:
        speaker.modern_call(f"{name}.echo", {"message": name})
    assert {row["tool_name"] for row in upstream_hub.rows(client=speaker.name, method="tools/call")} == {
        f"{name}.echo" for name in EVERYTHING
    }
