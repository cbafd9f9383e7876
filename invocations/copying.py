"""A recorded call as a client would make it again: for a shell, as the MCP message, in Python. Never with a key."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sessions_app.kit.shown import unmistakable
from sessions_app.protocol.envelope import param_headers
from sessions_app.protocol.headers import encode_header
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from invocations.models import McpToolInvocation

KEY = "YOUR-KEY"
"""Stands where the reader's own key goes."""
_STATELESS = "2026-07-28"

_PYTHON = """\
# pip install mcp
import asyncio
import json

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

ARGUMENTS = json.loads({arguments})


async def main():
    async with httpx2.AsyncClient(headers={{"Authorization": "Bearer {key}"}}) as http:
        async with Client(streamable_http_client({url}, http_client=http)) as client:
            print(await client.call_tool({tool}, ARGUMENTS))


asyncio.run(main())
"""


@dataclass(frozen=True, slots=True)
class Copy:
    key: str
    title: str
    text: str


def copies(row: McpToolInvocation, url: str, schema: dict[str, Json]) -> list[Copy]:
    """Return the call in each form, for the endpoint `url`; `schema` is the tool's input schema, or empty."""
    return forms(row.tool_name, row.arguments, url, schema=schema)


def forms(
    tool: str,
    arguments: Json,
    url: str,
    *,
    schema: dict[str, Json] | None = None,
    key: str = KEY,
    client: str = "copied-from-the-audit",
) -> list[Copy]:
    """Return a call as curl, as the MCP message and in Python; `client` is the name under which it is made.

    Nothing in the texts is invisible or reorders them: such characters stand as JSON escapes, which mean the same.
    """
    meta = {
        "io.modelcontextprotocol/protocolVersion": _STATELESS,
        "io.modelcontextprotocol/clientInfo": {"name": client, "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": tool, "arguments": arguments, "_meta": meta},
    }
    headers = [
        f"Authorization: Bearer {key}",
        "Content-Type: application/json",
        "Accept: application/json, text/event-stream",
        f"MCP-Protocol-Version: {_STATELESS}",
        "Mcp-Method: tools/call",
        f"Mcp-Name: {_header(tool)}",
        *_repeated(arguments, schema or {}),
    ]
    words = ["curl", "-sS", shlex.quote(url), *(f"-H {shlex.quote(header)}" for header in headers)]
    curl = " \\\n  ".join([" ".join(words[:3]), *words[3:], f"--data-raw {shlex.quote(_json(message, None))}"])
    python = _PYTHON.format(arguments=ascii(json.dumps(arguments)), key=key, url=ascii(url), tool=ascii(tool))
    return [Copy("curl", "curl", curl), Copy("mcp", "MCP JSON", _json(message, 2)), Copy("python", "Python", python)]


def _json(value: Json, indent: int | None) -> str:
    return unmistakable(json.dumps(value, indent=indent, ensure_ascii=False))


def _repeated(arguments: Json, schema: dict[str, Json]) -> list[str]:
    """Return the headers that repeat arguments (SEP-2243)."""
    try:
        annotated = param_headers(schema)
    except ValueError:
        return []
    lines = []
    for header in annotated:
        value = arguments
        for name in header.path:
            value = value.get(name) if isinstance(value, dict) else None
        if value is not None:
            text = value if isinstance(value, str) else json.dumps(value)
            lines.append(f"Mcp-Param-{header.name}: {_header(text)}")
    return lines


def _header(text: str) -> str:
    return encode_header(text.encode(errors="replace").decode())
