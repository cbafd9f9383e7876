"""A server on `fastmcp` 4.2 with the skills of a folder, read at each request: `skills_fast.py FOLDER PORT`."""

from __future__ import annotations

import socket
import sys

import serving
from fastmcp import FastMCP
from fastmcp.skills.provider import SkillsDirectoryProvider

folder, port = sys.argv[1:]
server = FastMCP("skills")
server.add_provider(SkillsDirectoryProvider(folder, reload=True))


@server.tool
def be() -> str:
    """Be."""
    return "is"


serving.serve(server.http_app(), socket.create_server(("127.0.0.1", int(port))))
