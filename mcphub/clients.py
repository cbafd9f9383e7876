"""Ready-to-paste configurations and programs for clients, in the form that each client documents.

The one source of `mcphub client-config`, of the admin's pages and of the blocks in docs/start/clients.md.
"""

from __future__ import annotations

import base64
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict
from urllib.parse import quote, urlencode, urlsplit

from django.utils.translation import gettext_noop

from invocations import copying
from sessions_app.protocol.json import Json

PLACEHOLDER = copying.KEY

CLIENTS = {
    "vscode": "VS Code",
    "claude": "Claude Desktop",
    "claude-code": "Claude Code",
    "cline": "Cline",
    "roo": "Roo Code",
    "cursor": "Cursor",
    "codex": "Codex",
    "gemini": "Gemini CLI",
    "windsurf": "Windsurf",
    "zed": "Zed",
    "copilot": "GitHub Copilot CLI",
    "jetbrains": "GitHub Copilot in JetBrains",
    "inspector": "MCP Inspector",
}
"""Key of each client that is configured -> its title."""

PROGRAMS = {
    "mcp-remote": "mcp-remote",
    "python": "Python, MCP client",
    "typescript": "TypeScript, MCP client",
    "curl": "curl",
    "openai": "OpenAI SDK",
}
"""Key of each program that is run -> its title."""

_PLACES = {
    "vscode": gettext_noop(".vscode/mcp.json of a workspace, or the command MCP: Open User Configuration"),
    "claude": gettext_noop("claude_desktop_config.json, by Settings > Developer > Edit Config"),
    "claude-code": gettext_noop("a terminal"),
    "cline": gettext_noop("cline_mcp_settings.json, by MCP Servers > Configure > Configure MCP Servers"),
    "roo": gettext_noop(".roo/mcp.json of a project, or mcp_settings.json, by MCP Servers > Edit Global MCP"),
    "cursor": gettext_noop(".cursor/mcp.json of a project, or ~/.cursor/mcp.json"),
    "codex": "~/.codex/config.toml",
    "gemini": "~/.gemini/settings.json",
    "windsurf": "~/.codeium/windsurf/mcp_config.json",
    "zed": "~/.config/zed/settings.json",
    "copilot": "~/.copilot/mcp-config.json",
    "jetbrains": gettext_noop("mcp.json, by the icon of Copilot > Edit Settings > Model Context Protocol > Configure"),
    "inspector": gettext_noop("a terminal; needs Node.js 22.19 or newer"),
    "mcp-remote": gettext_noop("what a client that only starts programs may start; needs Node.js"),
    "python": gettext_noop("hub.py; first pip install mcp==2.3.0"),
    "typescript": gettext_noop("hub.mjs; first npm install @modelcontextprotocol/client@2.4.0"),
    "curl": gettext_noop("a terminal; one call, without a session"),
    "openai": gettext_noop("ask.py; first pip install openai; the key needs the scope chat, and the hub a model"),
}
_BRIDGED_PLACE = gettext_noop("claude_desktop_config.json, by Settings > Developer > Edit Config; needs Node.js")
"""English on the command line; pages translate them."""

SIGN_IN = {
    "vscode": ("document, else registration", "documentation"),
    "claude": ("registration", "tried, through mcp-remote"),
    "claude-code": ("document, else registration", "documentation"),
    "cline": ("registration", "its source"),
    "roo": ("registration", "its source"),
    "cursor": ("document, else registration", "documentation"),
    "codex": ("registration", "documentation"),
    "gemini": ("registration", "documentation"),
    "windsurf": ("registration", "documentation"),
    "zed": ("registration", "documentation"),
    "copilot": ("registration", "documentation"),
    "jetbrains": ("registration", "documentation"),
    "inspector": ("registration", "tried"),
    "mcp-remote": ("registration", "tried"),
}
"""Key of each client that needs nothing but the address -> how it makes itself known, and how that is known here."""

INSTALLS = {"vscode": "VS Code", "cursor": "Cursor", "lm-studio": "LM Studio", "goose": "Goose"}
"""Key of each client with a link that adds a server -> its title."""

ON_THE_WEB = {
    "Claude": gettext_noop("Settings > Connectors > Add custom connector"),
    "ChatGPT": gettext_noop("Settings > Apps > Advanced settings > Developer mode, then Create app"),
}
"""Title of each client on the web -> the way to its field for the address."""

_VARIABLE = "MCPHUB_AUTHORIZATION"
_NAME = "mcp-hub"
"""The server's name in clients."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSnippet:
    """One client's configuration: `text` goes to `where`, verbatim."""

    key: str
    title: str
    where: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstCall:
    """The call that a program makes."""

    tool: str = "add"
    arguments: Mapping[str, Any] = field(default_factory=lambda: {"a": 19, "b": 23})


def address_only(url: str) -> list[ClientSnippet]:
    """Return the configuration of every client that signs in, for the endpoint `url`: it holds no secret."""
    server: dict[str, Json] = {"url": url}
    inspect = f"npx -y @modelcontextprotocol/inspector@2.12.0 --cli {shlex.quote(url)} --transport http"
    made = {
        "vscode": _json({"servers": {_NAME: {"type": "http", **server}}}),
        "claude": _json({"mcpServers": {_NAME: _bridge(url)}}),
        "claude-code": f"claude mcp add --transport http {_NAME} {shlex.quote(url)}",
        "cline": _json({"mcpServers": {_NAME: {"type": "streamableHttp", **server, "disabled": False}}}),
        "roo": _json({"mcpServers": {_NAME: {"type": "streamable-http", **server, "disabled": False}}}),
        "cursor": _json({"mcpServers": {_NAME: server}}),
        "codex": _toml(server),
        "gemini": _json({"mcpServers": {_NAME: {"httpUrl": url}}}),
        "windsurf": _json({"mcpServers": {_NAME: {"serverUrl": url}}}),
        "zed": _json({"context_servers": {_NAME: server}}),
        "copilot": _json({"mcpServers": {_NAME: {"type": "http", **server, "tools": ["*"]}}}),
        "jetbrains": _json({"servers": {_NAME: server}}),
        "inspector": f"{inspect} --method tools/list",
        "mcp-remote": shlex.join(["npx", *_bridge(url)["args"]]),
    }
    titles = {**CLIENTS, **PROGRAMS}
    return [ClientSnippet(key=key, title=titles[key], where=_place(key), text=made[key]) for key in SIGN_IN]


def install_links(url: str) -> dict[str, str]:
    """Return the link of each client that adds the endpoint `url` at a click: it holds no secret."""
    encoded = base64.b64encode(json.dumps({"url": url}).encode()).decode()
    asked = urlencode({"name": _NAME, "config": encoded})
    goose = {
        "type": "streamable_http",
        "url": url,
        "id": _NAME,
        "name": _NAME,
        "description": "MCP Hub",
        "timeout": 300,
    }
    return {
        "vscode": f"vscode:mcp/install?{quote(json.dumps({'name': _NAME, 'type': 'http', 'url': url}))}",
        "cursor": f"cursor://anysphere.cursor-deeplink/mcp/install?{asked}",
        "lm-studio": f"lmstudio://add_mcp?{asked}",
        "goose": f"goose://extension?{urlencode(goose, quote_via=quote)}",
    }


def snippets(url: str, token: str) -> list[ClientSnippet]:
    """Return the configuration of every client for the endpoint `url`, with `token` as its bearer key."""
    header = f"Bearer {token}"
    sent = {"headers": {"Authorization": header}}
    remote = {"url": url, **sent}
    made = {
        "vscode": _json({"servers": {_NAME: {"type": "http", **remote}}}),
        "claude": _json({"mcpServers": {_NAME: _bridge(url, header)}}),
        "claude-code": f"claude mcp add --transport http {_NAME} {shlex.quote(url)} "
        f"--header {shlex.quote(f'Authorization: {header}')}",
        "cline": _json({"mcpServers": {_NAME: {"type": "streamableHttp", **remote, "disabled": False}}}),
        "roo": _json({"mcpServers": {_NAME: {"type": "streamable-http", **remote, "disabled": False}}}),
        "cursor": _json({"mcpServers": {_NAME: remote}}),
        "codex": _toml({"url": url, "http_headers": sent["headers"]}),
        "gemini": _json({"mcpServers": {_NAME: {"httpUrl": url, **sent}}}),
        "windsurf": _json({"mcpServers": {_NAME: {"serverUrl": url, **sent}}}),
        "zed": _json({"context_servers": {_NAME: remote}}),
        "copilot": _json({"mcpServers": {_NAME: {"type": "http", **remote, "tools": ["*"]}}}),
        "jetbrains": _json({"servers": {_NAME: {"url": url, "requestInit": sent}}}),
        "inspector": f"npx -y @modelcontextprotocol/inspector@2.12.0 --cli {shlex.quote(url)} --transport http "
        f"--header {shlex.quote(f'Authorization: {header}')} --method tools/list",
    }
    return [ClientSnippet(key=key, title=title, where=_place(key), text=made[key]) for key, title in CLIENTS.items()]


def programs(url: str, token: str, call: FirstCall | None = None) -> list[ClientSnippet]:
    """Return programs that call the endpoint `url` from a terminal or a script; without a call, `add` is called."""
    call = call or FirstCall()
    header, arguments = f"Bearer {token}", json.dumps(call.arguments)
    values = {
        "url": _text(url),
        "v1": _text(_origin(url) + "/v1"),
        "key": _text(token),
        "header": _text(header),
        "tool": _text(call.tool),
        "arguments": arguments,
        "literals": ascii(dict(call.arguments)) if re.search("true|false|null", arguments) else arguments,
    }
    made = {
        "mcp-remote": f"{_VARIABLE}={shlex.quote(header)} {shlex.join(['npx', *_bridge(url, header)['args']])}",
        "python": _PYTHON % values,
        "typescript": _TYPESCRIPT % values,
        "curl": _by_input(
            copying.forms(call.tool, dict(call.arguments), url, key=token, client="curl")[0].text, header
        ),
        "openai": _OPENAI % values,
    }
    return [ClientSnippet(key=key, title=title, where=_PLACES[key], text=made[key]) for key, title in PROGRAMS.items()]


def stdio_snippets(command: Sequence[str], environment: Mapping[str, str]) -> list[ClientSnippet]:
    """Return the configuration of every client that starts the hub by itself, with `command` and `environment`."""
    program = {"command": command[0], "args": list(command[1:])}
    with_environment = {**program, **({"env": dict(environment)} if environment else {})}
    variables = " ".join(f"-e {shlex.quote(f'{name}={value}')}" for name, value in environment.items())
    words = shlex.join(command)
    made = {
        "vscode": _json({"servers": {_NAME: {"type": "stdio", **with_environment}}}),
        "claude": _json({"mcpServers": {_NAME: with_environment}}),
        "claude-code": f"claude mcp add {_NAME}{f' {variables}' if variables else ''} -- {words}",
        "cline": _json({"mcpServers": {_NAME: {**with_environment, "disabled": False}}}),
        "roo": _json({"mcpServers": {_NAME: {"type": "stdio", **with_environment, "disabled": False}}}),
        "cursor": _json({"mcpServers": {_NAME: {"type": "stdio", **with_environment}}}),
        "codex": _toml(with_environment),
        "gemini": _json({"mcpServers": {_NAME: with_environment}}),
        "windsurf": _json({"mcpServers": {_NAME: with_environment}}),
        "zed": _json({"context_servers": {_NAME: with_environment}}),
        "copilot": _json({"mcpServers": {_NAME: {"type": "local", **with_environment, "tools": ["*"]}}}),
        "jetbrains": _json({"servers": {_NAME: with_environment}}),
        "inspector": f"npx -y @modelcontextprotocol/inspector@2.12.0 --cli {f'{variables} ' if variables else ''}"
        f"{words} --method tools/list",
    }
    return [ClientSnippet(key=key, title=title, where=_PLACES[key], text=made[key]) for key, title in CLIENTS.items()]


def stdio_command(data: Path) -> list[str]:
    """Name program and data by whole paths: clients start it in a directory of their own."""
    program = Path(sys.executable).with_name("mcphub")
    words = [str(program)] if program.is_file() else [sys.executable, "-m", "mcphub.cli"]
    return [*words, "stdio", "--data-dir", str(data)]


def _place(key: str) -> str:
    return _BRIDGED_PLACE if key == "claude" else _PLACES[key]


class _Bridge(TypedDict, total=False):
    command: str
    args: list[str]
    env: dict[str, str]


def _bridge(url: str, header: str = "") -> _Bridge:
    """Claude Desktop's file starts programs only, so mcp-remote speaks HTTP for it; without a header it signs in.

    The header's blank stands in a variable: some releases on Windows split arguments at blanks.
    """
    # mcp-remote admits plain HTTP to localhost by itself; elsewhere it wants to be told.
    host = urlsplit(url).hostname or ""
    is_plain = url.startswith("http://") and not re.fullmatch(r"localhost", host)
    words = ["-y", "mcp-remote", url, "--transport", "http-only", *(["--allow-http"] if is_plain else [])]
    if not header:
        return {"command": "npx", "args": words}
    sent = ["--header", f"Authorization:${{{_VARIABLE}}}"]
    return {"command": "npx", "args": [*words, *sent], "env": {_VARIABLE: header}}


def _by_input(curl: str, header: str) -> str:
    """Let curl read the key from its input: every user of a machine may read the command lines of its processes."""
    line = f"Authorization: {header}"
    return f"{curl.replace(f'-H {shlex.quote(line)}', '-H @-', 1)} <<'END'\n{line}\nEND"


def _json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _toml(server: Mapping[str, Any]) -> str:
    """Return the table of a server: texts and lists are written as in JSON, which TOML reads alike."""
    lines = [
        f"{name} = {{ {', '.join(f'{key} = {json.dumps(each)}' for key, each in value.items())} }}"
        if isinstance(value, Mapping)
        else f"{name} = {json.dumps(value)}"
        for name, value in server.items()
    ]
    return "\n".join([f"[mcp_servers.{_NAME}]", *lines])


def _text(value: str) -> str:
    """Write a text as Python and JavaScript both read it."""
    return json.dumps(value)


def _origin(url: str) -> str:
    """Return the hub's own address, of that of its endpoint or of a toolset's."""
    return re.sub(r"/mcp(/s/[^/]+)?/?$", "", url)


_PYTHON = """\
import asyncio

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main():
    async with httpx2.AsyncClient(headers={"Authorization": %(header)s}) as http:
        async with Client(streamable_http_client(%(url)s, http_client=http)) as client:
            print([tool.name for tool in (await client.list_tools()).tools])
            print((await client.call_tool(%(tool)s, %(literals)s)).content[0].text)


asyncio.run(main())"""

_TYPESCRIPT = """\
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";

const client = new Client({ name: "my-client", version: "1.0.0" }, { versionNegotiation: { mode: "auto" } });
const requestInit = { headers: { Authorization: %(header)s } };
await client.connect(new StreamableHTTPClientTransport(new URL(%(url)s), { requestInit }));
console.log((await client.listTools()).tools.map((tool) => tool.name));
console.log((await client.callTool({ name: %(tool)s, arguments: %(arguments)s })).content[0].text);
await client.close();"""

_OPENAI = """\
from openai import OpenAI

client = OpenAI(base_url=%(v1)s, api_key=%(key)s)
answer = client.chat.completions.create(
    model="default",
    messages=[{"role": "user", "content": "What is 19 plus 23?"}],
    extra_body={"x_mcp": {"tools": [%(tool)s]}},
)
print(answer.choices[0].message.content, answer.x_mcp["invocations"])"""
