"""An MCP server over stdio that asks its client whatever a call tells it to ask, and answers with what it was told.

    tools/call ask {"method": "elicitation/create", "params": {...}}

It knows no SDK, and no package but the standard library.
"""

from __future__ import annotations

import json
import sys
from typing import Any

TOOL = {"name": "ask", "description": "Ask the client.", "inputSchema": {"type": "object"}}


def say(**message: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def heard() -> dict[str, Any]:
    line = sys.stdin.readline()
    if not line:
        raise SystemExit
    message: dict[str, Any] = json.loads(line)
    return message


def asked(arguments: dict[str, Any]) -> dict[str, Any]:
    """Ask, and wait for the answer; what else comes meanwhile is left."""
    say(id="question", method=arguments["method"], params=arguments["params"])
    while (message := heard()).get("id") != "question":
        pass
    return {name: message[name] for name in ("result", "error") if name in message}


def main() -> None:
    while True:
        message = heard()
        method, known = message.get("method"), message.get("id")
        if method == "initialize":
            version = message["params"]["protocolVersion"]
            told = {"protocolVersion": version, "capabilities": {"tools": {}}}
            say(id=known, result={**told, "serverInfo": {"name": "insolent", "version": "1"}})
        elif method == "tools/list":
            say(id=known, result={"tools": [TOOL]})
        elif method == "tools/call":
            text = json.dumps(asked(message["params"]["arguments"]))
            say(id=known, result={"content": [{"type": "text", "text": text}]})
        elif known is not None:
            say(id=known, error={"code": -32601, "message": "Unknown"})


if __name__ == "__main__":
    main()
