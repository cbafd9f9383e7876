"""What the hub tells people to run, run as it is told: each makes its call, and the call is on record."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from mcphub import clients
from tests.clients import install
from tests.servers import Hub
from tests.waiting import PATIENCE_SECONDS

_SECONDS = PATIENCE_SECONDS


def told(hub: Hub, key: str) -> str:
    """Return the text of a client's snippet, with the hub's address and first key."""
    made = [*clients.snippets(f"{hub.url}/mcp", hub.key), *clients.programs(f"{hub.url}/mcp", hub.key)]
    return next(snippet.text for snippet in made if snippet.key == key)


def run(command: list[str], **options: object) -> str:
    ended = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, **options)  # type: ignore[call-overload]
    assert ended.returncode == 0, ended.stderr
    return str(ended.stdout)


def newest(hub: Hub) -> dict[str, object]:
    return hub.rows(tool="add")[0]


def test_the_python_program_lists_and_calls(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "hub.py").write_text(told(hub, "python"))
    names, answer = run([sys.executable, str(tmp_path / "hub.py")]).splitlines()
    assert "'add'" in names
    assert answer == "42"
    assert newest(hub)["caller_label"] == "first key"


def test_the_line_for_curl_calls(hub: Hub) -> None:
    answer = json.loads(run(["sh", "-c", told(hub, "curl")]))
    assert answer["result"]["content"][0]["text"] == "42"
    assert newest(hub)["client_name"] == "curl"


def test_the_typescript_program_lists_and_calls(hub: Hub) -> None:
    folder = install.needed("node")
    program = folder / f"hub-{hub.port}.mjs"
    program.write_text(told(hub, "typescript"))
    try:
        said = run(["node", str(program)], env=install.node_environment(folder))
    finally:
        program.unlink()
    assert said.splitlines()[-1] == "42"
    assert newest(hub)["client_name"] == "my-client"


def test_the_line_for_the_inspector_lists(hub: Hub) -> None:
    folder = install.needed("node")
    said = run(["sh", "-c", told(hub, "inspector")], cwd=folder, env=install.node_environment(folder))
    assert "add" in {tool["name"] for tool in json.loads(said)["tools"]}


@pytest.mark.parametrize("key", ["mcp-remote", "claude"])
def test_the_bridge_passes_on_what_a_client_says(hub: Hub, key: str) -> None:
    folder = install.needed("node")
    text, environment = told(hub, key), install.node_environment(folder)
    if key == "claude":
        server = json.loads(text)["mcpServers"]["mcp-hub"]
        words, environment = [server["command"], *server["args"]], environment | server["env"]
    else:
        variable, *words = shlex.split(text)
        environment |= dict([variable.split("=", 1)])
        assert "Bearer" not in str(words)
    bridge = subprocess.Popen(
        words,
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert bridge.stdin is not None
    assert bridge.stdout is not None
    params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "starter", "version": "1"}}
    messages = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params},
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "add", "arguments": {"a": 1, "b": 2}}},
    ]
    try:
        answers = []
        for message in messages:
            bridge.stdin.write(json.dumps(message) + "\n")
            bridge.stdin.flush()
            if "id" in message:
                answers.append(json.loads(bridge.stdout.readline()))
    finally:
        bridge.kill()
        bridge.communicate()
    assert answers[1]["result"]["content"][0]["text"] == "3"
    assert str(newest(hub)["client_name"]).startswith("starter")
