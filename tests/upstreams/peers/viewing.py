"""An upstream with views (MCP Apps) over stdio, without a library: `viewing.py NAME`. It lists none of its resources.

`show` has a view; `refresh` is for views alone, and `told` gives what the client declared.
"""

from __future__ import annotations

import json
import sys
from typing import Any

VIEW = "ui://panel/page.html"
HTML = "text/html;profile=mcp-app"
UI = {"resourceUri": VIEW}
EMPTY = {"type": "object", "properties": {}}
TOOLS = [
    {"name": "show", "_meta": {"ui": UI, "ui/resourceUri": VIEW}},
    {"name": "refresh", "_meta": {"ui": {**UI, "visibility": ["app"]}}},
    {"name": "told", "_meta": {"ui": {"visibility": ["model"]}}},
]
declared: dict[str, Any] = {}


def answer(method: str, params: dict[str, Any], name: str) -> dict[str, Any] | None:
    if method == "initialize":
        declared.update(params["capabilities"])
        capabilities = {"tools": {}, "resources": {}}
        info = {"name": name, "version": "1"}
        return {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
    if method == "tools/list":
        return {"tools": [{"description": "It is tried.", "inputSchema": EMPTY, **tool} for tool in TOOLS]}
    if method in ("resources/list", "resources/templates/list"):
        return {"resources": [], "resourceTemplates": []}
    if method == "resources/read" and params["uri"] == VIEW:
        page = f"<!doctype html><p>the page of {name}</p>"
        return {"contents": [{"uri": VIEW, "mimeType": HTML, "text": page, "_meta": {"ui": {"prefersBorder": True}}}]}
    if method == "tools/call":
        words = json.dumps(declared) if params["name"] == "told" else f"{params['name']} of {name}"
        link = {"type": "resource_link", "uri": VIEW, "name": "page"}
        return {"content": [{"type": "text", "text": words}, link], "_meta": {"ui/resourceUri": VIEW}}
    return {} if method == "ping" else None


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message.get("method", ""), message.get("params", {}), sys.argv[1])
        told = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)


main()
