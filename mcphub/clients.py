"""Ready-to-paste configurations for MCP clients, in the form that each client documents."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

PLACEHOLDER = "YOUR-KEY"

CLIENTS = {
    "vscode": "VS Code",
    "claude": "Claude Desktop",
    "claude-code": "Claude Code",
    "cline": "Cline",
    "cursor": "Cursor",
    "inspector": "MCP Inspector",
}
"""Key of each client -> its title."""

_PLACES = {
    "vscode": ".vscode/mcp.json of a workspace, or the command MCP: Open User Configuration",
    "claude": "claude_desktop_config.json, by Settings > Developer > Edit Config",
    "claude-code": "a terminal",
    "cline": "cline_mcp_settings.json, by MCP Servers > Configure > Configure MCP Servers",
    "cursor": ".cursor/mcp.json of a project, or ~/.cursor/mcp.json",
    "inspector": "a terminal; needs Node.js 22.19 or newer",
}

_NAME = "mcp-hub"
"""What the clients call this server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Snippet:
    """One client's configuration: `text` goes to `where`, verbatim."""

    key: str
    title: str
    where: str
    text: str


def snippets(url: str, token: str) -> list[Snippet]:
    """Give the configuration of every client for the endpoint `url`, with `token` as its bearer key."""
    header = f"Bearer {token}"
    remote = {"url": url, "headers": {"Authorization": header}}
    made = {
        "vscode": _json({"servers": {_NAME: {"type": "http", **remote}}}),
        "claude": _json({"mcpServers": {_NAME: _bridge(url, header)}}),
        "claude-code": f"claude mcp add --transport http {_NAME} {shlex.quote(url)} "
                       f"--header {shlex.quote(f'Authorization: {header}')}",
        "cline": _json({"mcpServers": {_NAME: {"type": "streamableHttp", **remote, "disabled": False}}}),
        "cursor": _json({"mcpServers": {_NAME: remote}}),
        "inspector": f"npx -y @modelcontextprotocol/inspector@2.12.0 --cli {shlex.quote(url)} --transport http "
                     f"--header {shlex.quote(f'Authorization: {header}')} --method tools/list",
    }  # fmt: skip
    places = {**_PLACES, "claude": f"{_PLACES['claude']}; needs Node.js"}
    return [Snippet(key=key, title=title, where=places[key], text=made[key]) for key, title in CLIENTS.items()]


def stdio_snippets(command: Sequence[str], environment: Mapping[str, str]) -> list[Snippet]:
    """Give the configuration of every client that starts the hub by itself, with `command` and `environment`."""
    program = {"command": command[0], "args": list(command[1:])}
    with_environment = {**program, **({"env": dict(environment)} if environment else {})}
    told = " ".join(f"-e {shlex.quote(f'{name}={value}')}" for name, value in environment.items())
    words = shlex.join(command)
    made = {
        "vscode": _json({"servers": {_NAME: {"type": "stdio", **with_environment}}}),
        "claude": _json({"mcpServers": {_NAME: with_environment}}),
        "claude-code": f"claude mcp add {_NAME}{f' {told}' if told else ''} -- {words}",
        "cline": _json({"mcpServers": {_NAME: {**with_environment, "disabled": False}}}),
        "cursor": _json({"mcpServers": {_NAME: {"type": "stdio", **with_environment}}}),
        "inspector": f"npx -y @modelcontextprotocol/inspector@2.12.0 --cli {f'{told} ' if told else ''}"
                     f"{words} --method tools/list",
    }  # fmt: skip
    return [Snippet(key=key, title=title, where=_PLACES[key], text=made[key]) for key, title in CLIENTS.items()]


def _bridge(url: str, header: str) -> dict[str, object]:
    """Claude Desktop's file starts programs only, so mcp-remote speaks HTTP for it.

    The header's blank stands in a variable: some releases on Windows split arguments at blanks.
    """
    # mcp-remote admits plain HTTP to localhost by itself; elsewhere it wants to be told.
    host = urlsplit(url).hostname or ""
    is_plain = url.startswith("http://") and not re.fullmatch(r"localhost", host)
    return {
        "command": "npx",
        "args": [
            "-y", "mcp-remote", url, "--transport", "http-only", *(["--allow-http"] if is_plain else []),
            "--header", "Authorization:${MCPHUB_AUTHORIZATION}",
        ],
        "env": {"MCPHUB_AUTHORIZATION": header},
    }  # fmt: skip


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)
