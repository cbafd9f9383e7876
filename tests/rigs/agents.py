"""Agent frameworks at `/mcp` of a hub: each lists a tool of an upstream under its prefixed name, and calls it. Then
each asks a model at the hub's `/v1`, which wants this tool called, with the tools of `/mcp`.

    python -m tests.rigs.agents [FRAMEWORK]...    all of them, or these; installs what is missing

Writes a line for each, and ends with 1 where one could not. Needs the internet's package index at the first run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from tests import operations
from tests.chat import rows
from tests.chat.running import ScriptedProvider
from tests.chat.script import calls, say, script
from tests.clients import install
from tests.servers import Hub
from tests.upstreams.conftest import Operator, Peer

_TOOL, _WORDS = "far_echo", "by an agent"
_ASKED, _ANSWER = "asked of a model", "That is the answer."
_PROMPT = script(calls((_TOOL, {"text": _ASKED})), say(_ANSWER), prompt="Repeat it. ")
_UNSAID = ("smolagents",)
"""Frameworks that take no text for an answer, but a call of a function of their own, and else ask and call again."""
_PATIENCE_SECONDS = 300


def problem_of(framework: str, hub: Hub, key: str) -> str:
    """Say why a framework does not list and call the tool, or does not for a model; empty where it does."""
    before = len(hub.rows(tool=_TOOL))
    command = [*_program(framework), framework, f"{hub.url}/mcp", key, _TOOL, f"{hub.url}/v1", _PROMPT]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    except subprocess.TimeoutExpired:
        return f"it was not done within {_PATIENCE_SECONDS} s"
    if ended.returncode:
        return ended.stderr.strip().rpartition("\n")[2]
    said = json.loads(ended.stdout.strip().splitlines()[-1])
    if _TOOL not in said["tools"]:
        return f"it lists no {_TOOL}: {', '.join(said['tools'])}"
    if _WORDS not in said["called"]:
        return f"its call gave {said['called'][:200]}"
    rows_now = hub.rows(tool=_TOOL)
    made = rows_now[: len(rows_now) - before][::-1]  # they come newest first
    texts = [row["arguments"]["text"] for row in made]
    if framework in _UNSAID:
        return "" if texts[:2] == [_WORDS, _ASKED] else f"the calls on record are {texts}"
    if texts != [_WORDS, _ASKED]:
        return f"the calls on record are {texts}"
    if said["answered"] != _ANSWER:
        return f"of the model it heard {str(said['answered'])[:200]!r}"
    return ""


def _program(framework: str) -> list[str]:
    if framework not in install.AGENTS_IN_JAVASCRIPT:
        return [str(install.agent(framework)), str(install.HERE / "frameworks.py")]
    folder = install.node(install.FRAMEWORKS)
    assert folder is not None
    scripts = install.scripts(folder, install.FRAMEWORKS.parent)
    return [str(folder / "node_modules/.bin/node"), str(scripts / "agents.mjs")]


def _pin(framework: str) -> str:
    if framework in install.AGENTS:
        return install.AGENTS[framework][0]
    package = install.AGENTS_IN_JAVASCRIPT[framework]
    return f"{package} {json.loads(install.FRAMEWORKS.read_text())['dependencies'][package]}"


def main() -> int:
    wanted = sys.argv[1:] or [*install.AGENTS, *install.AGENTS_IN_JAVASCRIPT]
    failed = 0
    settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1", "MCPHUB_CHAT_BURST": "1000"}
    with (
        tempfile.TemporaryDirectory() as folder,
        Peer("sdk_v2.py", "http") as peer,
        ScriptedProvider() as provider,
        Hub(Path(folder), environment=settings) as hub,
    ):
        Operator(hub).connect("far", url=peer.url, prefix="far_")
        model = {"scripted": {"is_default": True}}
        hub.operate(rows.provide, "scripted", "compatible", provider.url, "", model, breaker_failures=10000)
        for framework in wanted:
            key = hub.operate(operations.issue_key, framework, ["tools:list", "tools:call", "chat"])
            problem = problem_of(framework, hub, key)
            failed += bool(problem)
            print(f"{framework} {_pin(framework)}: {problem or 'lists and calls, and calls for a model'}", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
