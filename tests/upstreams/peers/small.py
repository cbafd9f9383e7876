"""The smallest upstream over stdio, without a library: `small.py NAME`. It has one tool, or three, and may want
SMALL_TOKEN."""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def answer(method: str, name: str) -> dict[str, Any] | None:
    if method == "initialize":
        info = {"name": name, "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
    if method == "tools/list":
        schema = {"type": "object", "properties": {}}
        names = ["greet", "thank", "leave"] if "--three-tools" in sys.argv else ["greet"]
        told = [
            {"name": each, "description": f"{each.capitalize()} from {name}.", "inputSchema": schema} for each in names
        ]
        return {"tools": told}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": f"hello from {name}"}]}
    return {} if method == "ping" else None


def main() -> None:
    if "--wants-token" in sys.argv and not os.environ.get("SMALL_TOKEN"):
        raise SystemExit("SMALL_TOKEN is not set")
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        result = answer(message.get("method", ""), sys.argv[1])
        told = {"error": {"code": -32601, "message": "Method not found"}} if result is None else {"result": result}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **told}), flush=True)


main()
