"""Clients that others wrote, as programs that a test starts: where they are, what they are told, what they say."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients import install
from tests.servers import ROOT, Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.toolbox import Box

STARTER = {"add", "current_time", "echo", "fetch_url", "recent_invocations", "tool_statistics"}
EXPLANATION = '`b` is required; `a` must be number, not "two".'
REFUSAL = 'There is no tool named "nowhere". Ask tools/list for the names.'
STDIO = [sys.executable, "-m", "mcphub.cli", "stdio"]
_LONGEST_SECONDS = 1800
"""Of a client, which may wait long for the others before the edit comes that all wait for."""
_HERE = Path(install.__file__).parent

ASKED: list[tuple[str, dict[str, Any], str]] = [
    (
        "test_elicitation",
        {"message": "Who are you?"},
        'User response: action=accept, content={"username": "ada", "email": "ada@example.org"}',
    ),
    ("test_sampling", {"prompt": "Polly"}, "LLM response: You said: Polly"),
    ("test_input_required_result_list_roots", {}, "The client has 1 roots: file:///home/ada"),
    ("test_reconnection", {}, "Reconnection test completed"),
]
"""Tool, arguments, and what it says once the client has answered or come back."""


@dataclass(frozen=True)
class Sdk:
    """A script of ours around somebody's client library."""

    runtime: str
    """A version of Python's `mcp`, another library of Python, or `node`."""
    script: str
    path: str
    """Of the endpoint; or `stdio`: the client starts the hub; or `mcp-remote …`: it starts that bridge to the hub."""
    mode: str
    version: str

    def __str__(self) -> str:
        way = self.path.strip("/").replace(" ", "-")
        return f"{self.runtime}-{Path(self.script).stem}-{way}-{self.mode}"

    @property
    def names_itself_as(self) -> str:
        """The runtime whose name it tells the hub: fastmcp's client is that of `mcp`."""
        return "2.3.0" if self.runtime == "fastmcp" else self.runtime

    @property
    def asked(self) -> list[tuple[str, dict[str, Any], str]]:
        """Elicitation is of 2025-06-18, and 1.2.0 has no way to answer anything."""
        return ASKED[{"1.9.4": 1, "1.2.0": 3}.get(self.runtime, 0) :]

    @property
    def gives_up(self) -> bool:
        """`mcp` 1.x sends nothing when a call is given up."""
        return not self.runtime.startswith("1.")


class Client:
    """A client at work. Its script says line by line what it saw."""

    def __init__(self, hub: Hub, sdk: Sdk, url: str = "") -> None:
        """`url` is where the client finds the hub, if not at its own address."""
        self.hub = hub
        self.sdk = sdk
        self.box = Box(hub)
        self.words = f"grüße von {sdk} {self.box.name}"
        asked = json.dumps([(tool, arguments) for tool, arguments, _ in sdk.asked])
        told = {"MCPHUB_WORDS": self.words, "MCPHUB_ASKED": asked, "MCPHUB_BOX": self.box.name}
        self.process = subprocess.Popen(
            [*program(sdk), target(hub, sdk, url or hub.url), sdk.mode],
            cwd=ROOT,
            env={**surroundings(hub), **told},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._watch = threading.Timer(_LONGEST_SECONDS, self.process.kill)
        self._watch.start()

    def end(self) -> None:
        self._watch.cancel()
        self.process.kill()
        self.process.communicate()

    def line(self) -> str:
        assert self.process.stdout is not None
        said = self.process.stdout.readline()
        assert said, f"{self.sdk} ended with {self.process.wait(PATIENCE_SECONDS)}"
        return said.strip()

    def acts(self) -> list[dict[str, Any]]:
        """Judge all that the client does until it listens; give its first calls on record, oldest first."""
        rows = self._understands(json.loads(self.line()))
        assert json.loads(self.line()) == [said for _, _, said in self.sdk.asked]
        if self.sdk.gives_up:
            assert json.loads(self.line()) == {"gaveUp": True, "add": "42"}
            # Nobody is answered, so the record is waited for.
            held = until(
                lambda: [row for row in self.hub.rows(tool="hold") if row["arguments"] == {"name": self.box.name}]
            )
            assert [row["error_code"] for row in held] == ["cancelled"]
            assert self.box.has("cancelled")
        assert self.line() == "listening"
        return rows

    def heard(self) -> None:
        """Judge what the client lists once it was told of an edit, which took `current_time` away."""
        assert set(json.loads(self.line())) >= STARTER - {"current_time"}
        assert self.process.wait(PATIENCE_SECONDS) == 0

    def _understands(self, seen: dict[str, Any]) -> list[dict[str, Any]]:
        sdk, hub = self.sdk, self.hub
        assert seen["version"] == sdk.version
        assert set(seen["tools"]) >= STARTER
        assert seen["echo"] == self.words
        assert float(seen["add"]) == 42
        assert seen["bad"] == EXPLANATION
        assert seen["unknown"].endswith(REFUSAL)
        assert {"test://static-text", "test://static-binary"} <= set(seen["resources"])
        assert seen["read"] == "This is the content of the static text resource."
        assert "test_prompt_with_arguments" in seen["prompts"]
        assert seen["prompt"] == "Prompt with arguments: arg1='one', arg2='two'"

        first = next(row for row in hub.rows(tool="echo") if row["arguments"]["text"] == self.words)
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


@contextlib.contextmanager
def client(hub: Hub, sdk: Sdk, url: str = "") -> Iterator[Client]:
    made = Client(hub, sdk, url)
    try:
        yield made
    finally:
        made.end()


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
            str(folder / "node_modules/.bin/node"),
            str(folder / "node_modules/.bin/mcp-remote"),
            url + path,
            "--allow-http",
            "--transport",
            transport,
            "--header",
            f"Authorization: Bearer {hub.key}",
        ]
    )


def run(hub: Hub, command: list[str], sdk: Sdk, words: str) -> str:
    """Run a script that says all that it saw at its end."""
    done = subprocess.run(
        [*command, target(hub, sdk, hub.url), sdk.mode],
        cwd=ROOT,
        env={**surroundings(hub), "MCPHUB_WORDS": words},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def surroundings(hub: Hub) -> dict[str, str]:
    """What a client finds in its environment, and hands to a hub that it starts."""
    return {
        **hub.environment,
        "MCPHUB_KEY": hub.key,
        "MCPHUB_API_KEY": hub.key,
        "PYTHONUTF8": "1",
        "MCP_REMOTE_CONFIG_DIR": str(hub.folder / "mcp-remote"),
    }


# The inspector has flags instead of a script ----------------------------------------------------


def inspected(words: list[str], status: int = 0) -> dict[str, Any]:
    """Run the inspector's command line to its end; give what it prints."""
    folder = install.needed("node")
    done = subprocess.run(
        [
            str(folder / "node_modules/.bin/mcp-inspector"),
            *("--cli", "--connect-timeout", str(PATIENCE_SECONDS * 1000)),  # a hub of stdio starts with it
            *words,
        ],
        env=install.node_environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert done.returncode == status, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def over_http(hub: Hub, era: str, url: str = "") -> list[str]:
    key = ["--header", f"Authorization: Bearer {hub.key}"]
    return [f"{url or hub.url}/mcp", "--transport", "http", "--protocol-era", era, *key]


def over_stdio(hub: Hub, era: str) -> list[str]:
    told = [name for name in hub.environment if name.startswith(("MCPHUB_", "PYTHON"))]
    given = [word for name in told for word in ("-e", f"{name}={hub.environment[name]}")]
    return [*given, "-e", f"MCPHUB_API_KEY={hub.key}", "--cwd", str(ROOT), *STDIO, "--protocol-era", era]


def inspector_works(hub: Hub, way: list[str], version: str) -> list[dict[str, Any]]:
    """Have the inspector list, call, read, get and meet an error; give what is on record, oldest first."""

    def ask(method: str, *more: str, status: int = 0) -> dict[str, Any]:
        return inspected([*way, "--method", method, *more], status)

    assert {tool["name"] for tool in ask("tools/list")["tools"]} >= STARTER
    call = ("tools/call", "--tool-name", "add", "--tool-arg")
    added = ask(*call, "a=2", "--tool-arg", "b=40")
    assert added["content"] == [{"type": "text", "text": "42"}]
    bad = ask(*call, "a=2", status=5)
    assert bad["isError"] is True
    assert bad["content"] == [{"type": "text", "text": "`b` is required."}]
    read = ask("resources/read", "--uri", "test://static-text")
    assert read["contents"][0]["text"] == "This is the content of the static text resource."
    named = ("--prompt-name", "test_prompt_with_arguments", "--prompt-args", "arg1=one", "--prompt-args", "arg2=two")
    got = ask("prompts/get", *named)
    assert got["messages"][0]["content"]["text"] == "Prompt with arguments: arg1='one', arg2='two'"
    known = [answer["_meta"]["mcphub/invocationId"] for answer in (added, bad)]
    rows = sorted(
        (row for row in hub.rows(tool="add") if row["invocation_id"] in known), key=lambda row: row["sequence"]
    )
    assert [row["error_code"] for row in rows] == ["", "invalid_arguments"]
    assert {row["protocol_version"] for row in rows} == {version}
    return rows
