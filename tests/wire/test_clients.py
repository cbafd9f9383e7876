"""Clients that others wrote, unmodified, against a real hub with a key."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients import install
from tests.servers import Hub

STARTER = {"add", "current_time", "echo", "fetch_url", "recent_invocations", "tool_statistics"}
EXPLANATION = '`b` is required; `a` must be number, not "two".'
REFUSAL = 'There is no tool named "nowhere". Ask tools/list for the names.'
_SECONDS = 60
_HERE = Path(install.__file__).parent
_MAY_INSTALL = bool(os.environ.get("MCPHUB_TEST_CLIENTS"))


@dataclass(frozen=True)
class Sdk:
    """A script of ours around somebody's client library."""

    runtime: str
    """A version of Python's `mcp`, or `node`."""
    script: str
    path: str
    mode: str
    version: str

    def __str__(self) -> str:
        return f"{self.runtime}-{Path(self.script).stem}-{self.mode}"


SDKS = [
    Sdk("2.3.0", "client_v2.py", "/mcp", "auto", "2026-07-28"),
    Sdk("2.3.0", "client_v2.py", "/mcp", "legacy", "2025-11-25"),
    Sdk("2.3.0", "client_v2.py", "/mcp", "2026-07-28", "2026-07-28"),
    Sdk("1.30.0", "client_v1.py", "/mcp", "http", "2025-11-25"),
    Sdk("1.30.0", "client_v1.py", "/sse", "sse", "2025-11-25"),
    Sdk("1.12.4", "client_v1.py", "/mcp", "http", "2025-06-18"),
    Sdk("1.9.4", "client_v1.py", "/mcp", "http", "2025-03-26"),
    Sdk("1.2.0", "client_v1.py", "/sse", "sse", "2024-11-05"),
    Sdk("node", "sdk.mjs", "/mcp", "http", "2025-11-25"),
    Sdk("node", "sdk.mjs", "/sse", "sse", "2025-11-25"),
    Sdk("node", "client.mjs", "/mcp", "legacy", "2025-11-25"),
    Sdk("node", "client.mjs", "/mcp", "auto", "2026-07-28"),
]


@pytest.mark.parametrize("sdk", SDKS, ids=str)
def test_a_client_lists_calls_and_understands_what_it_did_wrong(hub: Hub, sdk: Sdk) -> None:
    words = f"grüße von {sdk}"
    seen = json.loads(run(hub, program(sdk), sdk, words))
    assert seen["version"] == sdk.version
    assert set(seen["tools"]) >= STARTER
    assert seen["echo"] == words
    assert float(seen["add"]) == 42
    assert seen["bad"] == EXPLANATION
    assert seen["unknown"].endswith(REFUSAL)

    first = next(row for row in hub.rows(tool="echo") if row["arguments"]["text"] == words)
    calls = [
        (row["tool_name"], row["error_code"])
        for row in hub.rows(session=first["session_id"])
        if row["sequence"] >= first["sequence"]
    ]
    assert calls[::-1] == [
        ("echo", ""),
        ("add", ""),
        ("add", "invalid_arguments"),
        ("nowhere", "tool_not_found"),
    ]
    assert (first["protocol_version"], first["caller_label"]) == (sdk.version, "first key")


@pytest.mark.parametrize(("era", "version"), [("legacy", "2025-11-25"), ("modern", "2026-07-28")])
def test_the_inspector_lists_calls_and_shows_errors(hub: Hub, era: str, version: str) -> None:
    folder = environment_of("node")
    assert {tool["name"] for tool in inspect(hub, folder, era, "tools/list")["tools"]} >= STARTER
    call = ("tools/call", "--tool-name", "add", "--tool-arg")
    added = inspect(hub, folder, era, *call, "a=2", "--tool-arg", "b=40")
    assert added["content"] == [{"type": "text", "text": "42"}]
    bad = inspect(hub, folder, era, *call, "a=2", status=5)
    assert bad["isError"] is True
    assert bad["content"] == [{"type": "text", "text": "`b` is required."}]
    rows = [row for row in hub.rows(client="inspector-cli", tool="add") if row["protocol_version"] == version]
    assert [row["error_code"] for row in rows[:2]] == ["invalid_arguments", ""]
    assert rows[0]["invocation_id"] == bad["_meta"]["mcphub/invocationId"]


def inspect(hub: Hub, folder: Path, era: str, method: str, *more: str, status: int = 0) -> dict:
    done = subprocess.run(
        [
            str(folder / "node_modules/.bin/mcp-inspector"), "--cli", f"{hub.url}/mcp", "--transport", "http",
            "--protocol-era", era, "--header", f"Authorization: Bearer {hub.key}", "--method", method, *more,
        ],
        env=install.node_environment(folder), capture_output=True, text=True, timeout=_SECONDS,
    )  # fmt: skip
    assert done.returncode == status, done.stdout + done.stderr
    found: dict = json.loads(done.stdout)
    return found


def environment_of(runtime: str) -> Path:
    """The folder of the JavaScript programs, or an interpreter; skips what nobody installed."""
    node = runtime == "node"
    found = install.node(install=_MAY_INSTALL) if node else install.python(runtime, install=_MAY_INSTALL)
    if found is None:
        pytest.skip("Not installed. Run python -m tests.clients.install, or set MCPHUB_TEST_CLIENTS=1.")
    return found


def program(sdk: Sdk) -> list[str]:
    found = environment_of(sdk.runtime)
    if sdk.runtime != "node":
        return [str(found), str(_HERE / sdk.script)]
    for script in _HERE.glob("*.mjs"):  # node looks for packages beside the script
        shutil.copy(script, found)
    return [str(found / "node_modules/.bin/node"), str(found / sdk.script)]


def run(hub: Hub, command: list[str], sdk: Sdk, words: str) -> str:
    done = subprocess.run(
        [*command, f"{hub.url}{sdk.path}", sdk.mode],
        env={**os.environ, "MCPHUB_KEY": hub.key, "MCPHUB_WORDS": words, "PYTHONUTF8": "1"},
        capture_output=True, text=True, timeout=_SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
