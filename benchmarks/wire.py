"""The MCP requests that the benchmark sends, as HTTP bytes. Standard library only."""

from __future__ import annotations

import json
from typing import Any

MODERN, LEGACY = "2026-07-28", "2025-11-25"
_CLIENT = {"name": "bench", "version": "1"}
_META = "io.modelcontextprotocol/"
_DESCRIPTION = {f"{_META}protocolVersion": MODERN, f"{_META}clientInfo": _CLIENT, f"{_META}clientCapabilities": {}}


def request(port: int, key: str, method: str, tool: str, request_id: int, session: str = "") -> bytes:
    """`tools/call` of `tool` with 20 and 22, or `tools/list`; of the handshake era where there is a session."""
    params: dict[str, Any] = {}
    if method == "tools/call":
        params = {"name": tool, "arguments": {"a": 20, "b": 22}}
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY}
    if not session:
        params["_meta"] = _DESCRIPTION
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if method == "tools/call":
            headers["Mcp-Name"] = tool
    return post(port, key, {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}, headers)


def initialize(port: int, key: str, path: str = "/mcp") -> bytes:
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": _CLIENT}
    return post(port, key, {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, {}, path)


def initialized(port: int, key: str, session: str, path: str = "/mcp") -> bytes:
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY} if session else {}
    return post(port, key, {"jsonrpc": "2.0", "method": "notifications/initialized"}, headers, path)


def get(port: int, key: str, path: str) -> bytes:
    """An event stream of another door."""
    return _http("GET", port, key, {"Accept": "text/event-stream"}, b"", path)


def body_of(request: bytes) -> bytes:
    return request.partition(b"\r\n\r\n")[2]


def delete(port: int, key: str, session: str) -> bytes:
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY, "Accept": "application/json"}
    return _http("DELETE", port, key, headers, b"")


def listen(port: int, key: str, session: str) -> bytes:
    headers = {"Mcp-Session-Id": session, "MCP-Protocol-Version": LEGACY, "Accept": "text/event-stream"}
    return _http("GET", port, key, headers, b"")


def subscribe(port: int, key: str, request_id: int) -> bytes:
    """A stream of the stateless era, told when the list of tools changes."""
    params = {"notifications": {"toolsListChanged": True}, "_meta": _DESCRIPTION}
    message = {"jsonrpc": "2.0", "id": request_id, "method": "subscriptions/listen", "params": params}
    return post(port, key, message, {"MCP-Protocol-Version": MODERN, "Mcp-Method": "subscriptions/listen"})


def post(port: int, key: str, message: dict[str, Any], headers: dict[str, str], path: str = "/mcp") -> bytes:
    body = json.dumps(message, separators=(",", ":")).encode()
    fixed = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    return _http("POST", port, key, {**fixed, **headers, "Content-Length": str(len(body))}, body, path)


def headers_of(head: bytes) -> dict[str, str]:
    """Return the header fields of an answer's head, names in lower case."""
    fields = (line.partition(":") for line in head.decode("latin-1").split("\r\n")[1:])
    return {name.strip().lower(): value.strip() for name, colon, value in fields if colon}


def _http(verb: str, port: int, key: str, headers: dict[str, str], body: bytes, path: str = "/mcp") -> bytes:
    lines = [f"{verb} {path} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    if key:
        lines.append(f"Authorization: Bearer {key}")
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body
