"""An upstream on Python's `mcp` 2.x with a vendor's extensions: `extended.py SETTINGS stdio|PORT`. Prints `ready PORT`.

`SETTINGS` are the extension's own, as JSON. The tool `declared` returns the capabilities that its caller declared, and
`searched` runs only for callers that declare the extension, as the SDK's extensions demand it.
"""

import json
import socket
import sys
from typing import Any

from mcp.server.extension import Extension, MethodBinding
from mcp.server.mcpserver import Context, MCPServer
from mcp.shared.exceptions import MCPError
from mcp_types import MISSING_REQUIRED_CLIENT_CAPABILITY, EmptyResult, RequestParams

NAME = "com.example/search"


class Searching(Extension):
    identifier = NAME

    def settings(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(sys.argv[1])
        return found

    def methods(self) -> list[MethodBinding]:
        async def own(context: Any, params: RequestParams) -> EmptyResult:
            return EmptyResult()

        return [MethodBinding("com.example/own", RequestParams, own)]


class Unlisted(Extension):
    """One that no connection passes."""

    identifier = "com.example/unlisted"


server = MCPServer("extended", version="1.0", extensions=[Searching(), Unlisted()])


def capabilities_of(context: Context) -> dict[str, Any]:
    found = context.client_capabilities
    return {} if found is None else found.model_dump(mode="json", by_alias=True, exclude_none=True)


@server.tool()
def declared(context: Context) -> dict[str, Any]:
    """Return the caller's capabilities."""
    return capabilities_of(context)


@server.tool()
def searched(context: Context) -> str:
    """Search, for clients with the extension."""
    if NAME not in capabilities_of(context).get("extensions", {}):
        needs = {"requiredCapabilities": {"extensions": {NAME: {}}}}
        raise MCPError(MISSING_REQUIRED_CLIENT_CAPABILITY, "This tool needs the extension.", needs)
    return "found"


if sys.argv[2] == "stdio":
    server.run("stdio")
else:
    from serving import serve  # which a confined child may not read

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(sys.argv[2])))
    listener.listen(128)
    serve(server.streamable_http_app(), listener, lifespan="on")
