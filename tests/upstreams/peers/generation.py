"""A server on whichever Python library is installed: `generation.py LIBRARY stdio|sse|streamable-http [PORT [alone]]`.

LIBRARY is mcp (1.x or 2.x) or fastmcp. `alone` lets each request of `mcp` 1.x over HTTP stand alone, without a session.
"""

from __future__ import annotations

import inspect
import sys
from typing import Any

library, transport = sys.argv[1:3]
port = int(sys.argv[3]) if len(sys.argv) > 3 else 0

if library == "fastmcp":
    from fastmcp import FastMCP as Server
else:
    try:
        from mcp.server.fastmcp import FastMCP as Server
    except ImportError:
        from mcp.server.mcpserver import MCPServer as Server  # type: ignore[assignment]

takes = inspect.signature(Server.__init__).parameters
is_told_at_once = library == "mcp" and ("port" in takes or "settings" in takes)
told: dict[str, Any] = {"port": port} if is_told_at_once else {}
if sys.argv[4:] == ["alone"]:
    told["stateless_http"] = True
server: Any = Server("generation", **told)


@server.tool()
def turn(text: str, times: int = 1) -> str:
    """Return the text turned round, so many times."""
    return text[::-1] * times


@server.tool()
def order(zebra: int) -> dict[str, Any]:
    """Return an object whose names are in no order."""
    return {"zebra": zebra, "apple": {"y": 1, "b": [1.5, None, True]}, "Mango": "ü"}


@server.tool()
def fail(words: str) -> str:
    """Fail with these words."""
    raise ValueError(words)


options: dict[str, Any] = {} if is_told_at_once or transport == "stdio" else {"host": "127.0.0.1", "port": port}
if library == "fastmcp":
    options["show_banner"] = False
server.run(transport=transport, **options)
