"""A server with a handshake that does not take `server/discover` well: `brittle.py HOW REVISION VERSION STARTS`.

HOW is dies, hushes (no answer), answers (an error), broken (it does not begin at all), or refuses (it dies of the
question, and says that it has no handshake). Each start is a line of the
file STARTS.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

how, revision, version, starts = sys.argv[1:5]


def say(id_: Any, **member: Any) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": id_, **member}), flush=True)


with Path(starts).open("a") as file:
    file.write("start\n")
for line in sys.stdin:
    message = json.loads(line)
    method, id_ = message.get("method"), message.get("id")
    if method == "initialize" and how == "refuses":
        say(id_, error={"code": -32601, "message": "There is no handshake here."})
    elif method == "initialize" and how != "broken":
        told = {"name": "brittle", "version": version}
        say(id_, result={"protocolVersion": revision, "capabilities": {"tools": {}}, "serverInfo": told})
    elif method == "tools/list":
        say(id_, result={"tools": [{"name": "be", "inputSchema": {"type": "object"}}]})
    elif method == "server/discover" and how == "answers":
        say(id_, error={"code": -32601, "message": "Method not found"})
    elif how in ("dies", "broken", "refuses"):
        sys.exit("This request is none that I know.")
