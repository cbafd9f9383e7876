"""Servers as npm and PyPI publish them, as confined children of a hub: connected, listed, approved, called.

    python -m tests.rigs.published [NAME]... [--known 12]

Each runs offline. It is called directly first, then through the hub, in a folder that is made anew in between, with the
same arguments. Printed for each: its protocol, how many tools it lists, and how many calls gave the same JSON, with the
same order of members, but for what docs/upstreams.md names. Complaints: a server that does not connect, an offer that
cannot be approved, a call that differs, and fewer than `--known` servers that are installed.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import operations
from tests.clients import install
from tests.servers import Hub, until
from tests.upstreams import direct
from tests.upstreams.conftest import Operator
from tests.wire.speech import Speaker

OFFERS = "tools_catalog.McpUpstreamTool"
Calls = tuple[tuple[str, dict[str, Any]], ...]


@dataclass(frozen=True)
class Published:
    """A server: who publishes it, how it is started, and what is asked of it. FOLDER stands for the folder of a run."""

    name: str
    package: str
    """Of npm; of Python the module or the program, with the environment of `tests.clients.install` before a colon."""
    calls: Calls
    words: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)

    def command(self, folder: Path) -> list[str] | None:
        """Give how it is started; None where it is not installed."""
        environment, is_python, program = self.package.partition(":")
        found = _python(environment, program) if is_python else _npm(self.package)
        return None if found is None else [*found, *_placed(list(self.words), folder)]


def _python(environment: str, program: str) -> list[str] | None:
    python = install.python(environment, install=False)
    if python is None:
        return None
    script = python.parent / program
    return [str(script)] if script.exists() else [str(python), "-m", program]


def _npm(package: str) -> list[str] | None:
    folder = install.node(install.PUBLISHED, install=False)
    if folder is None:
        return None
    where = folder / "node_modules" / package
    programs = json.loads((where / "package.json").read_text())["bin"]
    program = programs if isinstance(programs, str) else next(iter(programs.values()))
    return [str(folder / "node_modules/.bin/node"), str(where / program)]


def _placed(value: Any, folder: Path) -> Any:
    """Put the folder of the run into words and arguments."""
    return json.loads(json.dumps(value).replace("FOLDER", str(folder)))


_LISTED_TWICE = "as a resource"
"""One of them lists a resource among its templates, too; docs/upstreams.md tells which of the two is served."""
NOTE = "FOLDER/note.txt"
THOUGHT = {"thought": "Begin.", "nextThoughtNeeded": True, "thoughtNumber": 1, "totalThoughts": 2}
SERVERS = (
    Published(
        "everything",
        "@modelcontextprotocol/server-everything",
        (
            ("echo", {"message": "Grüße"}),
            ("get-sum", {"a": 1.5, "b": 2}),
            ("get-annotated-message", {"messageType": "error", "includeImage": True}),
            ("get-resource-links", {"count": 2}),
            ("get-structured-content", {"location": "Chicago"}),
            ("get-tiny-image", {}),
        ),
    ),
    Published(
        "filesystem",
        "@modelcontextprotocol/server-filesystem",
        (
            ("read_text_file", {"path": NOTE}),
            ("write_file", {"path": "FOLDER/new.txt", "content": "ü"}),
            ("edit_file", {"path": NOTE, "edits": [{"oldText": "hello", "newText": "bye"}]}),
            ("directory_tree", {"path": "FOLDER"}),
            ("read_text_file", {"path": "/nothing/there"}),
        ),
        ("FOLDER",),
    ),
    Published(
        "memory",
        "@modelcontextprotocol/server-memory",
        (
            ("create_entities", {"entities": [{"name": "Ada", "entityType": "person", "observations": ["counts"]}]}),
            ("search_nodes", {"query": "Ada"}),
            ("read_graph", {}),
        ),
        environment={"MEMORY_FILE_PATH": "FOLDER/memory.json"},
    ),
    Published(
        "thinking",
        "@modelcontextprotocol/server-sequential-thinking",
        (("sequentialthinking", THOUGHT), ("sequentialthinking", {**THOUGHT, "thoughtNumber": 2})),
    ),
    Published(
        "calc",
        "@coo-quack/calc-mcp",
        (
            ("hash", {"input": "a", "algorithm": "sha256"}),
            ("base64", {"input": "ü", "action": "encode"}),
            ("semver", {"action": "compare", "version": "1.2.3", "version2": "1.10.0"}),
            ("math", {"expression": "2^10"}),
            ("url_parse", {"url": "https://a.example/b?c=d"}),
        ),
    ),
    Published(
        "commands",
        "@agent-infra/mcp-server-commands",
        (("run_command", {"command": "echo one"}), ("run_command", {"command": "cat /nothing/there"})),
    ),
    Published(
        "bank",
        "@allpepper/memory-bank-mcp",
        (
            ("memory_bank_write", {"projectName": "p", "fileName": "a.md", "content": "# A"}),
            ("memory_bank_read", {"projectName": "p", "fileName": "a.md"}),
            ("list_projects", {}),
        ),
        environment={"MEMORY_BANK_ROOT": "FOLDER"},
    ),
    Published(
        "gitjs",
        "@cyanheads/git-mcp-server",
        (("git_status", {"path": "FOLDER/tree"}), ("git_branch", {"path": "FOLDER/tree", "mode": "list"})),
        environment={"MCP_TRANSPORT_TYPE": "stdio", "LOGS_DIR": "FOLDER/logs"},
    ),
    Published("hello", "mcp-hello-world", (("echo", {"message": "hi"}), ("add", {"a": 1, "b": 2}))),
    Published(
        "clock",
        "servers:mcp_server_time",
        (
            ("convert_time", {"source_timezone": "UTC", "time": "10:00", "target_timezone": "Asia/Tokyo"}),
            ("get_current_time", {"timezone": "Nowhere/Land"}),
        ),
        ("--local-timezone", "UTC"),
    ),
    Published(
        "git",
        "servers:mcp_server_git",
        (
            ("git_status", {"repo_path": "FOLDER/tree"}),
            ("git_branch", {"repo_path": "FOLDER/tree", "branch_type": "all"}),
        ),
        ("--repository", "FOLDER/tree"),
    ),
    Published("fetch", "servers:mcp_server_fetch", (("fetch", {"url": "http://127.0.0.1:9/none"}),)),
    Published(
        "sqlite",
        "published:mcp-server-sqlite",
        (
            ("create_table", {"query": "CREATE TABLE t (a INTEGER, b TEXT)"}),
            ("write_query", {"query": "INSERT INTO t VALUES (1, 'x')"}),
            ("read_query", {"query": "SELECT * FROM t"}),
            ("list_tables", {}),
            ("read_query", {"query": "SELECT * FROM nowhere"}),
        ),
        ("--db-path", "FOLDER/rows.db"),
    ),
    Published("calculator", "published:mcp_server_calculator", (("calculate", {"expression": "6*7"}),)),
    Published(
        "editor",
        "published:mcp-text-editor",
        (("get_text_file_contents", {"files": [{"file_path": NOTE, "ranges": [{"start": 1, "end": 1}]}]}),),
    ),
    Published(
        "excel",
        "excel:excel-mcp-server",
        (
            ("create_workbook", {"path": "FOLDER/a.xlsx"}),
            ("create_sheet", {"path": "FOLDER/a.xlsx", "new_name": "B"}),
            ("write_range", {"path": "FOLDER/a.xlsx", "sheet": "B", "at": "A1", "rows": [["x", 1.5], ["y", None]]}),
            ("read_range", {"path": "FOLDER/a.xlsx", "sheet": "B"}),
            ("describe_workbook", {"path": "FOLDER/none.xlsx"}),
        ),
        ("stdio",),
    ),
    Published(
        "chroma",
        "chroma:chroma-mcp",
        (("chroma_list_collections", {}), ("chroma_get_collection_count", {"collection_name": "none"})),
        ("--client-type", "ephemeral"),
    ),
)


class Rig:
    def __init__(self, hub: Hub, folder: Path) -> None:
        self.hub = hub
        self.operator = Operator(hub)
        self.folder = folder
        self.complaints: list[str] = []

    def run(self, server: Published) -> None:
        command = server.command(self.folder)
        if command is None:
            print(f"{server.name:12} not installed")
            return
        environment: dict[str, str] = _placed(dict(server.environment), self.folder)
        calls: Calls = _placed([list(call) for call in server.calls], self.folder)
        self._make_folder()
        with direct.over_stdio(command, environment) as session:
            expected = [json.dumps(session.call(tool, words)) for tool, words in calls]
        self._make_folder()
        place = {"readable": [*_around(command), str(self.folder)], "writable": [str(self.folder)]}
        profile = {"name": server.name, "command": command[0], "arguments": command[1:], "environment": environment}
        # Some look at the network when they begin, and none is there for them.
        self.operator.connect(
            server.name, transport="stdio", profile={**profile, **place}, policy="hold_all", connect_seconds=60
        )
        row = self.operator.row(server.name)
        if not row["discovered"]:
            self._complain(server, f"does not connect: {row['error']} {row['stderr'][-400:]}")
            return
        refused = self.hub.operate(operations.values, OFFERS, "refusal", connection__slug=server.name)
        for refusal in (words for words in refused if words and _LISTED_TWICE not in words):
            self._complain(server, f"has an offer that cannot be approved: {refusal}")
        self.operator.approve(server.name)
        same = list(self._compared(server, row["prefix"], calls, expected))
        version = until(lambda: self.operator.row(server.name)["version"])
        offers = f"{version:12} {len(row['states']):3} offers"
        print(f"{server.name:12} {offers}  {sum(same)}/{len(calls)} calls the same")
        self.operator.change(server.name, enabled=False)

    def _compared(self, server: Published, prefix: str, calls: Calls, expected: list[str]) -> Iterator[bool]:
        with Speaker(self.hub.url, self.hub.key) as speaker:
            until(lambda: f'"{prefix}{calls[0][0]}"' in speaker.modern("tools/list").text)
            session = speaker.open_session()
            for (tool, words), before in zip(calls, expected, strict=True):
                answer = json.loads(speaker.call(session, prefix + tool, words).content)
                result = answer.get("result")
                came = json.dumps(direct.without_the_hubs(result) if result is not None else answer["error"])
                if came != before:
                    self._complain(server, f"answers {tool} otherwise:\n    {before[:600]}\n    {came[:600]}")
                yield came == before

    def _make_folder(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()
        (self.folder / "note.txt").write_text("hello from a file\nsecond line\n")
        subprocess.run(["git", "init", "-q", "-b", "trunk", str(self.folder / "tree")], check=True)

    def _complain(self, server: Published, words: str) -> None:
        print(f"{server.name:12} {words}")
        self.complaints.append(f"{server.name} {words}")


def _around(command: list[str]) -> list[str]:
    """Give the folder of everything that npm or pip installed together."""
    program = Path(command[0])
    return [str(program.parents[2] if "node_modules" in program.parts else program.parents[1])]


def main(names: list[str], known: int) -> int:
    chosen = [server for server in SERVERS if not names or server.name in names]
    with tempfile.TemporaryDirectory() as place:
        data, folder = Path(place) / "hub", Path(place) / "work"
        with Hub(data) as hub:
            rig = Rig(hub, folder)
            for server in chosen:
                rig.run(server)
    installed = sum(server.command(Path("/")) is not None for server in SERVERS)
    if not names and installed < known:
        rig.complaints.append(f"Only {installed} servers are installed: python -m tests.clients.install")
    print(f"{len(chosen)} servers, {len(rig.complaints)} complaints")
    return 1 if rig.complaints else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--known", type=int, default=12)
    given = parser.parse_args()
    sys.exit(main(given.names, given.known))
