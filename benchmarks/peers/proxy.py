"""FastMCP's own proxy before an upstream, as a peer.

proxy.py --port N --upstream URL
"""

import argparse

import uvicorn
from fastmcp.server import create_proxy

options = argparse.ArgumentParser()
options.add_argument("--port", type=int, required=True)
options.add_argument("--upstream", required=True)
given = options.parse_args()

application = create_proxy(given.upstream, name="proxy").http_app(path="/mcp", json_response=True, stateless_http=True)
uvicorn.run(
    application,
    port=given.port,
    loop="uvloop",
    http="httptools",
    ws="none",
    log_level="warning",
    access_log=False,
    server_header=False,
)
