"""Agent frameworks at `/mcp` of a hub: each lists a tool of an upstream under its prefixed name, and calls it. Then
each asks a model at the hub's `/v1`, which wants this tool called, with the tools of `/mcp`.

Clients of OpenAI's API at `/v1`: the hub offers the tool to the model, and makes the call that the model wants.

    python -m tests.rigs.agents [NAME]...    all of them, or these; installs what is missing

Writes a line for each, and ends with 1 where one could not. Needs the internet's package index at the first run.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests import operations
from tests.clients import install
from tests.features.chat import rows
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.script import calls, say, script
from tests.servers import Hub
from tests.upstreams.conftest import Operator, Peer

_TOOL, _WORDS = "far_echo", "by an agent"
_ASKED, _ANSWER = "asked of a model", "That is the answer."
_ANSWERED_BY_CALL = {"smolagents": ("final_answer", {"answer": _ANSWER})}
"""Frameworks that take no text for an answer, but a call of a function of their own -> that call."""
_PATIENCE_SECONDS = 300


class Unable(Exception):
    """A framework or client did not get to its end; the text says why."""


def use_framework(framework: str, hub: Hub, provider: ScriptedProvider) -> str:
    """Let it list and call the tool, and ask a model with the tools of `/mcp`."""
    key = hub.operate(operations.issue_key, framework, ["tools:list", "tools:call", "chat"])
    answer = calls(_ANSWERED_BY_CALL[framework]) if framework in _ANSWERED_BY_CALL else say(_ANSWER)
    prompt = script(calls((_TOOL, {"text": _ASKED})), answer, prompt="Repeat it. ")
    is_python = framework in install.AGENTS
    program = _python(framework, "frameworks.py") if is_python else _node("agents.mjs")
    said = _ended([*program, framework, f"{hub.url}/mcp", key, _TOOL, f"{hub.url}/v1", prompt], hub, [_WORDS, _ASKED])
    if _TOOL not in said["tools"]:
        raise Unable(f"it lists no {_TOOL}: {', '.join(said['tools'])}")
    if _WORDS not in said["called"]:
        raise Unable(f"its call gave {said['called'][:200]}")
    return "lists and calls, and calls for a model"


def use_client(client: str, hub: Hub, provider: ScriptedProvider) -> str:
    """Let it ask a model, to which the hub offers its tools."""
    key = hub.operate(rows.issue_generous_key, "scripted", "scripted")
    prompt = script(calls((_TOOL, {"text": _ASKED})), say(_ANSWER), prompt=f"Repeat it by {client}. ")
    is_python = client in install.AT_V1
    program = _python(install.AT_V1[client], "chat_clients.py") if is_python else _node("chat_clients.mjs")
    _ended([*program, client, f"{hub.url}/v1", key, prompt], hub, [_ASKED])
    first = provider.about(f"Repeat it by {client}. ")[0]
    offered = [each["function"]["name"] for each in first["body"].get("tools", [])]
    if _TOOL not in offered:
        raise Unable(f"the model was offered no {_TOOL}: {', '.join(offered)}")
    return "asks a model, which is offered the tool and has it called"


def _ended(command: list[str], hub: Hub, texts: list[str]) -> dict[str, Any]:
    """Run a program until it ends; give what it said, if the calls on record have these texts."""
    before = len(hub.rows(tool=_TOOL))
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False)
    except subprocess.TimeoutExpired as late:
        raise Unable(f"it was not done within {_PATIENCE_SECONDS} s") from late
    if ended.returncode:
        raise Unable(ended.stderr.strip().rpartition("\n")[2])
    said: dict[str, Any] = json.loads(ended.stdout.strip().splitlines()[-1])
    rows_now = hub.rows(tool=_TOOL)
    made = rows_now[: len(rows_now) - before][::-1]  # they come newest first
    recorded = [row["arguments"]["text"] for row in made]
    if recorded != texts:
        raise Unable(f"the calls on record are {recorded}")
    if said["answered"] != _ANSWER:
        raise Unable(f"of the model it heard {str(said['answered'])[:200]!r}")
    return said


def _python(framework: str, program: str) -> list[str]:
    return [str(install.agent(framework)), str(install.HERE / program)]


def _node(program: str) -> list[str]:
    folder = install.node(install.FRAMEWORKS)
    assert folder is not None
    scripts = install.scripts(folder, install.FRAMEWORKS.parent)
    return [str(folder / "node_modules/.bin/node"), str(scripts / program)]


def _pin(name: str) -> str:
    if name in install.AGENTS:
        return f" {install.AGENTS[name][0]}"
    if name not in install.AGENTS_IN_JAVASCRIPT:
        return ""
    package = install.AGENTS_IN_JAVASCRIPT[name]
    return f" {package} {json.loads(install.FRAMEWORKS.read_text())['dependencies'][package]}"


def main() -> int:
    frameworks = [*install.AGENTS, *install.AGENTS_IN_JAVASCRIPT]
    wanted = sys.argv[1:] or [*frameworks, *install.AT_V1, *install.AT_V1_IN_JAVASCRIPT]
    failed = 0
    settings = {"MCPHUB_EGRESS_ALLOW": "127.0.0.1", "MCPHUB_LIMITS": "chat_burst=1000", "MCPHUB_CHAT_APPROVAL": "never"}
    with (
        tempfile.TemporaryDirectory() as folder,
        Peer("sdk_v2.py", "http") as peer,
        ScriptedProvider() as provider,
        Hub(Path(folder), environment=settings) as hub,
    ):
        Operator(hub).connect("far", url=peer.url, prefix="far_")
        model = {"scripted": {"is_default": True}}
        hub.operate(rows.provide, "scripted", "compatible", provider.url, "", model, breaker_failures=10000)
        for name in wanted:
            use = use_framework if name in frameworks else use_client
            try:
                outcome = use(name, hub, provider)
            except (Unable, subprocess.SubprocessError) as error:  # the second where it could not be installed
                failed, outcome = failed + 1, str(error)
            print(f"{name}{_pin(name)}: {outcome}", flush=True)
    print(f"{len(wanted) - failed} of {len(wanted)} get to the end", flush=True)
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
