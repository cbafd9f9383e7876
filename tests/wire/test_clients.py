"""Clients that others wrote, unmodified, against a real hub with a key.

All list, call, see what they did wrong, read a resource and get a prompt. What else they do, where, and why not:

| Client | answers questions | gives a call up | hears of an edit |
|---|---|---|---|
| `mcp` 2.3.0 | test_asking_clients | here | here |
| `mcp` 1.30.0, 1.12.4 | test_asking_clients | no: a call given up sends nothing | here |
| `mcp` 1.9.4, 1.2.0 | no: their revisions have no elicitation | no: as above | here |
| TypeScript `sdk` 1.32.2, `client` 2.4.0 | test_whole_clients | there | there |
| `mcp-remote` 0.15.1, under the `sdk` | test_whole_clients | there | there |
| `fastmcp` 4.1.2 | test_whole_clients | there | there |
| Inspector CLI 2.12.0 | no: nobody to ask | no: no flag for it | no: it ends with the answer |
"""

from __future__ import annotations

import json
import select
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients import install
from tests.servers import ROOT, Hub, until
from tests.wire.test_calls import Box
from tests.wire.test_streams import edited

STARTER = {"add", "current_time", "echo", "fetch_url", "recent_invocations", "tool_statistics"}
EXPLANATION = '`b` is required; `a` must be number, not "two".'
REFUSAL = 'There is no tool named "nowhere". Ask tools/list for the names.'
STDIO = [sys.executable, "-m", "mcphub.cli", "stdio"]
_SECONDS = 60
_HERE = Path(install.__file__).parent


@dataclass(frozen=True)
class Sdk:
    """A script of ours around somebody's client library."""

    runtime: str
    """A version of Python's `mcp`, or `node`."""
    script: str
    path: str
    """Of the endpoint; or `stdio`: the client starts the hub; or `mcp-remote …`: it starts that bridge to the hub."""
    mode: str
    version: str

    def __str__(self) -> str:
        way = self.path.strip("/").replace(" ", "-")
        return f"{self.runtime}-{Path(self.script).stem}-{way}-{self.mode}"


SDKS = [
    Sdk("2.3.0", "client_v2.py", "/mcp", "auto", "2026-07-28"),
    Sdk("2.3.0", "client_v2.py", "/mcp", "legacy", "2025-11-25"),
    Sdk("2.3.0", "client_v2.py", "/mcp", "2026-07-28", "2026-07-28"),
    Sdk("1.30.0", "client_v1.py", "/mcp", "http", "2025-11-25"),
    Sdk("1.30.0", "client_v1.py", "/sse", "sse", "2025-11-25"),
    Sdk("1.12.4", "client_v1.py", "/mcp", "http", "2025-06-18"),
    Sdk("1.9.4", "client_v1.py", "/mcp", "http", "2025-03-26"),
    Sdk("1.2.0", "client_v1.py", "/sse", "sse", "2024-11-05"),
    Sdk("2.3.0", "client_v2.py", "stdio", "auto", "2026-07-28"),
    Sdk("2.3.0", "client_v2.py", "stdio", "legacy", "2025-11-25"),
    Sdk("1.30.0", "client_v1.py", "stdio", "stdio", "2025-11-25"),
    Sdk("1.12.4", "client_v1.py", "stdio", "stdio", "2025-06-18"),
    Sdk("1.2.0", "client_v1.py", "stdio", "stdio", "2024-11-05"),
]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_a_client_lists_calls_and_understands_what_it_did_wrong(hub: Hub, sdk: Sdk) -> None:
    works(hub, sdk)


def works(hub: Hub, sdk: Sdk, url: str = "") -> list[dict]:
    """Have a client do what all of them do, at another address if one is told; give what is on record, oldest first."""
    words = f"grüße von {sdk}"
    return understood(hub, sdk, words, json.loads(run(hub, program(sdk), sdk, words, url)))


def understood(hub: Hub, sdk: Sdk, words: str, seen: dict) -> list[dict]:
    """Judge what a client says that it saw when it did what all do; give what is on record of that, oldest first."""
    assert seen["version"] == sdk.version
    assert set(seen["tools"]) >= STARTER
    assert seen["echo"] == words
    assert float(seen["add"]) == 42
    assert seen["bad"] == EXPLANATION
    assert seen["unknown"].endswith(REFUSAL)
    assert {"test://static-text", "test://static-binary"} <= set(seen["resources"])
    assert seen["read"] == "This is the content of the static text resource."
    assert "test_prompt_with_arguments" in seen["prompts"]
    assert seen["prompt"] == "Prompt with arguments: arg1='one', arg2='two'"

    first = next(row for row in hub.rows(tool="echo") if row["arguments"]["text"] == words)
    rows = [row for row in hub.rows(session=first["session_id"]) if row["sequence"] >= first["sequence"]][:-5:-1]
    assert [(row["tool_name"], row["error_code"]) for row in rows] == [
        ("echo", ""),
        ("add", ""),
        ("add", "invalid_arguments"),
        ("nowhere", "tool_not_found"),
    ]
    assert (first["protocol_version"], first["caller_label"]) == (sdk.version, "first key")
    assert (first["transport"] == "stdio") == (sdk.path == "stdio")
    return rows


CANCELLING = [
    Sdk("2.3.0", "cancelling_v2.py", "/mcp", "auto", "2026-07-28"),
    Sdk("2.3.0", "cancelling_v2.py", "/mcp", "legacy", "2025-11-25"),
    Sdk("2.3.0", "cancelling_v2.py", "stdio", "auto", "2026-07-28"),
    Sdk("2.3.0", "cancelling_v2.py", "stdio", "legacy", "2025-11-25"),
]


@pytest.mark.parametrize("sdk", CANCELLING, ids=str)
def test_a_client_that_gives_a_call_up_stops_the_tool(hub: Hub, sdk: Sdk) -> None:
    box = Box(hub)
    seen = json.loads(run(hub, program(sdk), sdk, box.name))
    assert seen == {"version": sdk.version, "cancelled": True, "add": "42"}
    until(lambda: box.has("cancelled"))
    row = next(row for row in hub.rows(tool="hold") if row["arguments"] == {"name": box.name})
    assert row["error_code"] == "cancelled"


WATCHING = [
    Sdk("2.3.0", "watching_v2.py", "/mcp", "auto", "2026-07-28"),
    Sdk("2.3.0", "watching_v2.py", "/mcp", "legacy", "2025-11-25"),
    Sdk("2.3.0", "watching_v2.py", "stdio", "auto", "2026-07-28"),
    Sdk("1.30.0", "watching_v1.py", "/sse", "sse", "2025-11-25"),
    Sdk("1.12.4", "watching_v1.py", "stdio", "stdio", "2025-06-18"),
    Sdk("1.9.4", "watching_v1.py", "/mcp", "http", "2025-03-26"),
    Sdk("1.2.0", "watching_v1.py", "/sse", "sse", "2024-11-05"),
]


@pytest.mark.parametrize("sdk", WATCHING, ids=str)
def test_a_client_hears_of_an_edit(hub: Hub, sdk: Sdk) -> None:
    command = [*program(sdk), target(hub, sdk, hub.url), sdk.mode]
    started = subprocess.Popen(command, cwd=ROOT, env=surroundings(hub), stdout=subprocess.PIPE, text=True)
    try:
        hears(hub, started)
    finally:
        started.kill()
        started.communicate()


def hears(hub: Hub, started: subprocess.Popen[str]) -> None:
    """Have a client that is about to say that it listens hear of an edit, list anew, and end."""
    assert started.stdout is not None
    assert started.stdout.readline() == "listening\n"

    def told() -> bool:
        # A session's client cannot say when its stream is open: what it missed it hears the next time.
        with edited(hub, "current_time"):
            return bool(select.select([started.stdout], [], [], 1)[0])

    until(told, _SECONDS)
    assert set(json.loads(started.stdout.readline())) >= STARTER - {"current_time"}
    assert started.wait(_SECONDS) == 0


@pytest.mark.parametrize(("era", "version"), [("legacy", "2025-11-25"), ("modern", "2026-07-28")])
def test_the_inspector_lists_calls_reads_gets_and_shows_errors(hub: Hub, era: str, version: str) -> None:
    folder = install.needed("node")
    assert {tool["name"] for tool in inspect(folder, over_http(hub, era, "tools/list"))["tools"]} >= STARTER
    call = ("tools/call", "--tool-name", "add", "--tool-arg")
    added = inspect(folder, over_http(hub, era, *call, "a=2", "--tool-arg", "b=40"))
    assert added["content"] == [{"type": "text", "text": "42"}]
    bad = inspect(folder, over_http(hub, era, *call, "a=2"), status=5)
    assert bad["isError"] is True
    assert bad["content"] == [{"type": "text", "text": "`b` is required."}]
    rows = [row for row in hub.rows(client="inspector-cli", tool="add") if row["protocol_version"] == version]
    assert [row["error_code"] for row in rows[:2]] == ["invalid_arguments", ""]
    assert rows[0]["invocation_id"] == bad["_meta"]["mcphub/invocationId"]
    read = inspect(folder, over_http(hub, era, "resources/read", "--uri", "test://static-text"))
    assert read["contents"][0]["text"] == "This is the content of the static text resource."
    named = ("--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=one", "--prompt-args", "arg2=two")
    got = inspect(folder, over_http(hub, era, "prompts/get", *named))
    assert got["messages"][0]["content"]["text"] == "Prompt with arguments: arg1='one', arg2='two'"


def test_the_inspector_starts_the_hub(hub: Hub) -> None:
    folder = install.needed("node")
    told = [name for name in hub.environment if name.startswith(("MCPHUB_", "PYTHON"))]
    given = [word for name in told for word in ("-e", f"{name}={hub.environment[name]}")]
    target = [*given, "-e", f"MCPHUB_API_KEY={hub.key}", "--cwd", str(ROOT), *STDIO, "--protocol-era", "modern"]
    listed = inspect(folder, [*target, "--method", "tools/list"])
    assert {tool["name"] for tool in listed["tools"]} >= STARTER
    bad = inspect(folder, [*target, "--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2"], status=5)
    assert bad["content"] == [{"type": "text", "text": "`b` is required."}]
    row = next(row for row in hub.rows(tool="add") if row["invocation_id"] == bad["_meta"]["mcphub/invocationId"])
    assert (row["transport"], row["protocol_version"]) == ("stdio", "2026-07-28")


def over_http(hub: Hub, era: str, method: str, *more: str) -> list[str]:
    key = ["--header", f"Authorization: Bearer {hub.key}"]
    return [f"{hub.url}/mcp", "--transport", "http", "--protocol-era", era, *key, "--method", method, *more]


def inspect(folder: Path, words: list[str], status: int = 0) -> dict:
    done = subprocess.run(
        [str(folder / "node_modules/.bin/mcp-inspector"), "--cli", *words],
        env=install.node_environment(folder), capture_output=True, text=True, timeout=_SECONDS,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    found: dict = json.loads(done.stdout)
    return found


def program(sdk: Sdk) -> list[str]:
    found = install.needed(sdk.runtime)
    if sdk.runtime != "node":
        return [str(found), str(_HERE / sdk.script)]
    return [str(found / "node_modules/.bin/node"), str(install.scripts(found) / sdk.script)]


def target(hub: Hub, sdk: Sdk, url: str) -> str:
    """An address, or the JSON of a command that the client is to start."""
    if sdk.path == "stdio":
        return json.dumps(STDIO)
    if sdk.path.startswith("/"):
        return url + sdk.path
    folder, transport = install.needed("node"), sdk.path.removeprefix("mcp-remote ")
    path = "/sse" if transport == "sse-only" else "/mcp"
    return json.dumps(
        [
            str(folder / "node_modules/.bin/node"), str(folder / "node_modules/.bin/mcp-remote"), url + path,
            "--allow-http", "--transport", transport, "--header", f"Authorization: Bearer {hub.key}",
        ]
    )  # fmt: skip


def run(hub: Hub, command: list[str], sdk: Sdk, words: str, url: str = "") -> str:
    done = subprocess.run(
        [*command, target(hub, sdk, url or hub.url), sdk.mode],
        cwd=ROOT, env={**surroundings(hub), "MCPHUB_WORDS": words}, capture_output=True, text=True, timeout=_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def surroundings(hub: Hub) -> dict[str, str]:
    """What a client finds in its environment, and hands to a hub that it starts."""
    return {
        **hub.environment, "MCPHUB_KEY": hub.key, "MCPHUB_API_KEY": hub.key, "PYTHONUTF8": "1",
        "MCP_REMOTE_CONFIG_DIR": str(hub.folder / "mcp-remote"),
    }  # fmt: skip
