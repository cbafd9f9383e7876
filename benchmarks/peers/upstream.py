"""The least of an upstream on each way: one tool that adds, answered without a library of MCP.

upstream.py stateless|sessions|sse|stdio [--port N]
"""

import argparse
import asyncio
import itertools
import json
import sys

NUMBERS = {"type": "object", "properties": {"a": {"type": "number"}, "b": {"type": "number"}}, "required": ["a", "b"]}
TOOL = {"name": "add", "description": "Add two numbers.", "inputSchema": NUMBERS}
NOT_FOUND = {"code": -32601, "message": "Method not found"}

options = argparse.ArgumentParser()
options.add_argument("way", choices=("stateless", "sessions", "sse", "stdio"))
options.add_argument("--port", type=int, default=0)
given = options.parse_args()


def answer(request: dict) -> bytes:
    method, params = request["method"], request.get("params", {})
    whole = {"resultType": "complete"} if given.way == "stateless" else {}
    cached = {**whole, "ttlMs": 0, "cacheScope": "private"} if whole else {}
    if method == "server/discover" and given.way == "stateless":
        result = {**cached, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    elif method == "initialize" and given.way != "stateless":
        named = {"name": "least", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": named}
    elif method == "tools/list":
        result = {**cached, "tools": [TOOL]}
    elif method == "tools/call":
        total = params["arguments"]["a"] + params["arguments"]["b"]
        result = {**whole, "content": [{"type": "text", "text": str(total)}], "structuredContent": {"result": total}}
    else:
        return json.dumps({"jsonrpc": "2.0", "id": request["id"], "error": NOT_FOUND}).encode()
    return json.dumps({"jsonrpc": "2.0", "id": request["id"], "result": result}).encode()


def stdio() -> None:
    for line in sys.stdin.buffer:
        request = json.loads(line)
        if "id" in request:
            sys.stdout.buffer.write(answer(request) + b"\n")
            sys.stdout.buffer.flush()


numbers = itertools.count(1)
streams: dict[bytes, asyncio.Queue] = {}


async def application(scope, receive, send):
    if scope["method"] == "GET":
        await listen(send)
        return
    body = b""
    while True:
        event = await receive()
        body += event.get("body", b"")
        if not event.get("more_body"):
            break
    request = json.loads(body) if scope["method"] == "POST" else {}
    said = answer(request) if "id" in request else b""
    headers = [(b"content-type", b"application/json")]
    if given.way == "sse":
        if said:
            streams[scope["query_string"]].put_nowait(said)
        said = b""
    elif request.get("method") == "initialize":
        headers.append((b"mcp-session-id", b"session-%d" % next(numbers)))
    headers.append((b"content-length", b"%d" % len(said)))
    await send({"type": "http.response.start", "status": 200 if said else 202, "headers": headers})
    await send({"type": "http.response.body", "body": said})


async def listen(send):
    if given.way != "sse":
        await send({"type": "http.response.start", "status": 405, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body"})
        return
    name = b"stream=%d" % next(numbers)
    queue = streams[name] = asyncio.Queue()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    event = b"event: endpoint\ndata: /messages?%b\n\n" % name
    while True:
        await send({"type": "http.response.body", "body": event, "more_body": True})
        event = b"event: message\ndata: %b\n\n" % await queue.get()


if given.way == "stdio":
    stdio()
else:
    import uvicorn

    uvicorn.run(
        application,
        port=given.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        lifespan="off",
        log_level="warning",
        access_log=False,
        server_header=False,
    )
