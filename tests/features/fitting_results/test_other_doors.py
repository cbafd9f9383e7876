"""Kept results through the chat, over stdio and by clients of others: the rest is read, and another's is not there."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from tests import operations
from tests.clients import install
from tests.features.chat.conftest import ENVIRONMENT, KEYS, set_up
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.features.fitting_results import operations as sizes
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.piped import beside
from tests.wire.speech import Speaker

pytestmark = pytest.mark.program

MODEL = "openai/scripted-large"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    bundle = Path(__file__).parent / "bundle.json"
    environment = {**ENVIRONMENT, "MCPHUB_APPS": "tests.features.fitting_results"}
    with Hub(tmp_path_factory.mktemp("doors"), bundle=bundle, environment=environment) as running:
        fields = "values[].{id: id, title: title}"
        running.operate(sizes.fit, "list_pulls", fields=fields, fields_argument="pick", most_characters=4000)
        running.settle()
        yield running


@pytest.fixture(scope="module")
def other(hub: Hub) -> str:
    """The link of a result that was kept for another caller."""
    key = hub.operate(operations.issue_key, "other", ["tools:list", "tools:call"])
    with Speaker(hub.url, key) as speaker:

        def links() -> list[str]:
            answer = speaker.modern_call("list_pulls", {"count": 500})
            return [] if answer.status_code != 200 else _links(answer.text)

        return until(links)[0]


def _links(text: str) -> list[str]:
    return re.findall(r"mcphub://results/[\w-]{32}", text)


def test_a_model_reads_the_rest_by_the_tool_and_nothing_of_another_caller(hub: Hub, other: str) -> None:
    with ScriptedProvider(KEYS["openai"]) as provider:
        key = set_up(hub, {"openai": provider})
        with openai.OpenAI(base_url=f"{hub.url}/v1", api_key=key, max_retries=0, timeout=PATIENCE_SECONDS) as client:

            def outputs(*wanted: tuple[str, dict[str, Any]]) -> list[str]:
                server: Any = {"type": "mcp", "server_label": "hub", "require_approval": "never"}
                steps = script(calls(*wanted), say("Done."))
                response = client.responses.create(model=MODEL, input=steps, tools=[server])
                return [str(item.output or item.error) for item in response.output if item.type == "mcp_call"]

            (preview,) = outputs(("list_pulls", {"count": 500}))
            assert "this is not the whole result" in preview
            uri = _links(preview)[0]
            mine, few, chosen, foreign = outputs(
                ("read_result", {"uri": uri, "path": "/values/7/author"}),
                ("read_result", {"uri": uri, "path": "/values", "start": 498}),
                ("list_pulls", {"count": 2, "pick": "values[].id"}),
                ("read_result", {"uri": other}),
            )
            assert json.loads(mine)["name"] == "person7"
            assert [each["id"] for each in json.loads(few)] == [498, 499]
            assert chosen.startswith("[0,1]\n[MCP Hub: ")
            assert "There is no such result" in foreign


def test_a_client_that_starts_the_hub_reads_the_rest(hub: Hub, other: str) -> None:
    with beside(hub) as piped:
        called = piped.ask(piped.modern("tools/call", {"name": "list_pulls", "arguments": {"count": 500}}, 1))
        uri = called["result"]["content"][2]["uri"]
        part = piped.ask(piped.modern("resources/read", {"uri": f"{uri}?path=%2Fvalues&start=499"}, 2))
        (last,) = json.loads(part["result"]["contents"][0]["text"])
        assert last["id"] == 499
        foreign = piped.ask(piped.modern("resources/read", {"uri": other}, 3))
        assert foreign["error"]["data"]["errorCode"] == "resource_not_found"


def _key(hub: Hub, name: str) -> str:
    """Return a new key that works."""
    key: str = hub.operate(operations.issue_key, name, ["tools:list", "tools:call"])
    with Speaker(hub.url, key) as speaker:
        until(lambda: speaker.modern("server/discover").status_code == 200)
    return key


def _ran(command: list[str], environment: dict[str, str], status: int = 0) -> Any:
    """Return the JSON that a client writes."""
    made = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
    )
    assert made.returncode == status, made.stdout + made.stderr
    return json.loads(made.stdout)


@pytest.mark.rig
@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_the_typescript_sdk_takes_a_preview_and_reads_the_rest(hub: Hub, other: str, mode: str) -> None:
    key = _key(hub, f"typescript {mode}")
    folder = install.needed("node")
    command = [str(folder / "node_modules/.bin/node"), str(install.scripts(folder) / "handles.mjs")]
    seen = _ran([*command, f"{hub.url}/mcp", mode, other], {**install.node_environment(folder), "MCPHUB_KEY": key})
    assert seen["shown"] < 500
    assert seen["last"] == 499
    assert "no such resource" in seen["refused"].lower()


@pytest.mark.rig
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_the_inspector_reads_a_range_and_fields_of_its_own(hub: Hub, other: str, era: str) -> None:
    key = _key(hub, f"inspector {era}")
    folder = install.needed("node")
    program = [str(folder / "node_modules/.bin/mcp-inspector"), "--cli", f"{hub.url}/mcp", "--transport", "http"]
    way = [*program, "--protocol-era", era, "--header", f"Authorization: Bearer {key}", "--method"]
    environment = install.node_environment(folder)

    def call(*arguments: str) -> Any:
        told = [word for each in arguments for word in ("--tool-arg", each)]
        return _ran([*way, "tools/call", "--tool-name", "list_pulls", *told], environment)

    uri = call("count=500")["content"][2]["uri"]
    part = _ran([*way, "resources/read", "--uri", f"{uri}?path=%2Fvalues&start=499"], environment)
    assert json.loads(part["contents"][0]["text"])[0]["id"] == 499
    assert json.loads(call("count=2", "pick=values[].id")["content"][0]["text"]) == [0, 1]
    with pytest.raises(AssertionError, match=r"(?i)no such resource"):
        _ran([*way, "resources/read", "--uri", other], environment)


@pytest.mark.rig
@pytest.mark.long
def test_langchain_reads_a_range_and_fields_of_its_own(hub: Hub, other: str) -> None:
    script = Path(install.__file__).parent / "handles_langchain.py"
    command = [
        str(install.agent("langchain", install=True)),
        str(script),
        f"{hub.url}/mcp",
        _key(hub, "langchain"),
        other,
    ]
    seen = _ran(command, dict(os.environ))
    assert seen["last"] == 499
    assert "[0,1]" in seen["chosen"].replace(" ", "")
    assert "no such resource" in seen["refused"].lower()
