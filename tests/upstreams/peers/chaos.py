"""An upstream that knows no SDK and misbehaves on request: `chaos.py http|sse|modern|stdio [--yields] [PORT]`.

With `--yields` it takes only the processor time that nobody else wants, as if it had a machine of its own.

Era of sessions, 2025-06-18; `modern` is Streamable HTTP of 2026-07-28.

`tools/call` of `be` does what its argument `mode` names. `CHAOS_STATE` names a file of JSON that is read before each
list: `{"tools": [...]}` replaces the definitions, `"notify": true` sends list_changed with the next call, `"pages"`
names how a list has no end, or no rest.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

BE = {
    "name": "be",
    "description": "Behave.",
    "inputSchema": {"type": "object", "properties": {"mode": {"type": "string"}}, "required": ["mode"]},
}
ECHO = {"name": "echo", "description": "Give the arguments back.", "inputSchema": {"type": "object"}}
PIECE = b"x" * 65536
IS_MODERN = sys.argv[1:2] == ["modern"]
WHOLE = {"resultType": "complete"} if IS_MODERN else {}
MODERN = {**WHOLE, "ttlMs": 0, "cacheScope": "private"}


def state() -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(Path(os.environ["CHAOS_STATE"]).read_text())
    except (KeyError, OSError, ValueError):
        return {}
    return found


def answer(request: dict[str, Any], headers: dict[str, str] | None = None) -> Any:
    """Return the result of a request that is answered well; None for what is not answered, a list for odd answers."""
    method, params, id_ = request["method"], request.get("params", {}), request.get("id")
    if method == "server/discover" and IS_MODERN:
        result: Any = {**MODERN, "supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
    elif method == "initialize" and not IS_MODERN:
        result = {
            "protocolVersion": "2025-06-18",
            "capabilities": {"tools": {"listChanged": True}, "logging": {}},
            "serverInfo": {"name": "chaos", "version": "1"},
        }
    elif method == "tools/list" and (kind := state().get("pages")):
        result = {**(MODERN if IS_MODERN else {}), **page(kind, params.get("cursor"))}
    elif method == "tools/list":
        result = {**(MODERN if IS_MODERN else {}), "tools": state().get("tools", [BE, ECHO])}
    elif method == "tools/call" and params.get("name") != "be":
        told = {"arguments": params.get("arguments"), "meta": params.get("_meta"), "id": id_, "headers": headers}
        result = {**WHOLE, "content": [{"type": "text", "text": json.dumps(told)}]}
        if "meta" in (params.get("arguments") or {}):
            result["_meta"] = params["arguments"]["meta"]
    elif method == "tools/call":
        return params["arguments"]["mode"]
    elif method == "ping":
        result = {}
    else:
        return {"jsonrpc": "2.0", "id": id_, "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": id_, "result": result}


def page(kind: str, cursor: str | None) -> dict[str, Any]:
    """Return one of the pages of a list that has no end, or a list that is never the same."""
    number = int(cursor or 0)
    if kind == "shifts":
        return {"tools": [{**ECHO, "description": uuid.uuid4().hex}]}
    if kind == "repeats":
        return {"tools": [BE], "nextCursor": "1"}
    if kind == "empty":
        return {"tools": [], "nextCursor": str(number + 1)}
    words = "x" * (3_000_000 if kind == "large" else 10)
    tools = [{**ECHO, "name": f"{number}.{one}", "description": words} for one in range(1 if kind == "large" else 100)]
    return {"tools": tools, "nextCursor": str(number + 1)}


def good(id_: Any, text: str = "good") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id_, "result": {**WHOLE, "content": [{"type": "text", "text": text}]}}


def note(number: int) -> dict[str, Any]:
    params = {"level": "info", "data": f"note {number}"}
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": params}


async def misbehaviour(mode: str, id_: Any) -> AsyncIterator[bytes]:
    """Return the lines, without their ends, that a mode writes before it falls silent."""
    if mode == "wrong_id":
        yield json.dumps(good("nobody")).encode()
    elif mode == "two_answers":
        yield json.dumps(good(id_, "first")).encode()
        yield json.dumps(good(id_, "second")).encode()
    elif mode == "garbage":
        yield b"\x00\xff{{{ this is no JSON"
        yield json.dumps(good(id_)).encode()
    elif mode == "invalid_utf8":
        yield b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"text","text":"\xff\xfe"}]}}' % id_
    elif mode == "not_a_result":
        yield json.dumps({"jsonrpc": "2.0", "id": id_, "result": {"content": "no list"}}).encode()
    elif mode == "deep":
        yield b'{"jsonrpc":"2.0","id":%d,"result":' % id_ + b'{"a":' * 100_000 + b"1" + b"}" * 100_001
    elif mode == "flood":
        for number in range(1_000_000):
            yield json.dumps(note(number)).encode()
    elif mode == "stray_progress":
        params = {"progressToken": "of nobody", "progress": 1}
        yield json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode()
        yield json.dumps({"jsonrpc": "2.0", "method": "notifications/of/nobody", "params": {}}).encode()
        yield json.dumps(good(id_)).encode()
    elif mode.startswith("error "):  # with a code that means something to the hub
        error = {"code": int(mode.split()[1]), "message": "m" * 5000}
        yield json.dumps({"jsonrpc": "2.0", "id": id_, "error": error}).encode()
    elif mode == "error":
        yield json.dumps({"jsonrpc": "2.0", "id": id_, "error": {"code": -32050, "message": "no such ticket"}}).encode()
    elif mode != "hang":
        yield json.dumps(good(id_, f"unknown mode {mode}")).encode()


# stdio -------------------------------------------------------------------------------------------------


async def stdio() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        request = json.loads(line)
        if "id" not in request:
            continue
        told = answer(request)
        if isinstance(told, str):
            await misbehaved(told, request["id"])
        else:
            say(json.dumps(told).encode())


def say(line: bytes) -> None:
    sys.stdout.buffer.write(line + b"\n")
    sys.stdout.buffer.flush()


async def misbehaved(mode: str, id_: Any) -> None:
    """Misbehave over stdio."""
    out = sys.stdout.buffer
    if mode == "die":
        os._exit(3)
    if mode == "deaf":
        await asyncio.sleep(3600)
    if mode == "huge":
        out.write(b'{"jsonrpc":"2.0","id":1,"result":{"x":"')
        while True:
            out.write(PIECE)
    if mode == "prattle":
        for _ in range(1000):
            say(b"This is no message.")
        mode = "after words"
    if mode == "mute":
        os.close(1)
        await asyncio.sleep(3600)
    if mode == "shut":
        os.close(0)
        await asyncio.sleep(3600)
    if mode == "stderr":
        for _ in range(2000):
            sys.stderr.write("e" * 4096 + "\n")
        mode = "after stderr"
    if mode == "fork":
        os.spawnlp(os.P_NOWAIT, "sleep", "sleep", "3600")  # noqa: ASYNC220 - it misbehaves on purpose
        mode = "forked"
    async for piece in misbehaviour(mode, id_):
        say(piece)


# HTTP --------------------------------------------------------------------------------------------------


class Http:
    def __init__(self) -> None:
        self.listeners: set[asyncio.StreamWriter] = set()

    async def serve(self, port: int) -> None:
        server = await asyncio.start_server(self.talk, "127.0.0.1", port, limit=64 * 1024 * 1024)
        print(f"ready {server.sockets[0].getsockname()[1]}", flush=True)
        async with server:
            await server.serve_forever()

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while await self.one(reader, writer):
                pass
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.listeners.discard(writer)
            writer.close()

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readline()
        if not head:
            return False
        verb = head.split()[0].decode()
        headers: dict[str, str] = {}
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if head.split()[1] == b"/moved":
            writer.write(b"HTTP/1.1 307 Go\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n")
            return True
        if verb == "GET" and IS_MODERN:
            writer.write(b"HTTP/1.1 405 Method Not Allowed\r\nContent-Length: 0\r\n\r\n")
            return True
        if verb == "GET":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n: hello\n\n")
            self.listeners.add(writer)
            await reader.read()
            return False
        if verb == "DELETE":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True
        request = json.loads(body)
        if "id" not in request:
            writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
            return True
        if state().get("notify"):
            changed = b'data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}\n\n'
            for listener in self.listeners:
                listener.write(changed)
        told = answer(request, headers)
        if not isinstance(told, str):
            session = f"Mcp-Session-Id: {uuid.uuid4().hex}\r\n" if request["method"] == "initialize" else ""
            self.whole(writer, json.dumps(told).encode(), session)
            await writer.drain()
            return True
        return await self.misbehave(told, request["id"], reader, writer)

    def whole(self, writer: asyncio.StreamWriter, body: bytes, more: str = "") -> None:
        writer.write(
            f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode()
            + body
        )

    async def misbehave(self, mode: str, id_: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        stream = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n"
        if mode == "die":
            writer.transport.abort()
            return False
        if mode == "hang_before_headers":
            await reader.read()
            return False
        if mode == "redirect":
            writer.write(b"HTTP/1.1 307 Go\r\nLocation: /mcp\r\nContent-Length: 0\r\n\r\n")
            return True
        if mode == "redirect_inside":
            writer.write(b"HTTP/1.1 307 Go\r\nLocation: http://169.254.169.254/mcp\r\nContent-Length: 0\r\n\r\n")
            return True
        if mode == "status":
            writer.write(b"HTTP/1.1 500 Oops\r\nContent-Length: 4\r\n\r\noops")
            return True
        if mode == "html":
            body = b"<html><body>Welcome</body></html>"
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
            return True
        if mode == "head":
            writer.write(b"HTTP/1.1 200 OK\r\n" + b"X-More: %b\r\n" % (b"x" * 1000) * 5000)
            await writer.drain()
            await reader.read()
            return False
        if mode == "session_lost":
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return True
        if mode == "huge":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n[")
            while True:
                writer.write(PIECE)
                await writer.drain()
        if mode == "drip":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n")
            while True:
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.2)
        if mode == "compressed":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Encoding: gzip\r\n")
            writer.write(b"Content-Length: 3\r\n\r\nabc")
            return True
        writer.write(stream)
        if mode == "comments":
            while True:
                writer.write(b": still here\n\n")
                await writer.drain()
                await asyncio.sleep(0.05)
        async for piece in misbehaviour(mode, id_):
            writer.write(b"data: " + piece + b"\n\n")
            await writer.drain()
        if mode == "hang":
            await reader.read()
        return False


class Sse(Http):
    """HTTP+SSE: one stream for all answers, messages beside."""

    def __init__(self) -> None:
        super().__init__()
        self.streams: dict[str, asyncio.StreamWriter] = {}

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readline()
        if not head:
            return False
        verb, path = head.decode().split()[:2]
        size = 0
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            size = int(value) if name.lower() == "content-length" else size
        body = await reader.readexactly(size)
        if verb == "GET":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            mark = uuid.uuid4().hex
            self.streams[mark] = writer
            writer.write(f"event: endpoint\ndata: /messages?mark={mark}\n\n".encode())
            await reader.read()
            del self.streams[mark]
            return False
        stream = self.streams.get(path.partition("mark=")[2])
        if stream is None:
            writer.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
            return True
        request = json.loads(body)
        told = answer(request) if "id" in request else None
        if told in ("hang_before_headers", "redirect", "redirect_inside", "status", "session_lost"):
            return await self.misbehave(str(told), request["id"], reader, writer)
        writer.write(b"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n")
        await writer.drain()
        if told is not None:
            await self.say(told, request["id"], stream)
        return True

    async def say(self, told: Any, id_: Any, stream: asyncio.StreamWriter) -> None:
        if not isinstance(told, str):
            stream.write(b"event: message\ndata: " + json.dumps(told).encode() + b"\n\n")
        elif told == "die":
            stream.transport.abort()
        elif told in ("huge", "drip"):
            stream.write(b"event: message\ndata: ")
            while not stream.is_closing():
                stream.write(PIECE if told == "huge" else b" ")
                await stream.drain()
                await asyncio.sleep(0 if told == "huge" else 0.2)
        elif told == "comments":
            while not stream.is_closing():
                stream.write(b": still here\n\n")
                await stream.drain()
                await asyncio.sleep(0.05)
        else:
            async for piece in misbehaviour(told, id_):
                stream.write(b"event: message\ndata: " + piece + b"\n\n")
                await stream.drain()


if __name__ == "__main__":
    if "--yields" in sys.argv:
        sys.argv.remove("--yields")
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    if sys.argv[1] == "stdio":
        asyncio.run(stdio())
    elif sys.argv[1] == "sse":
        asyncio.run(Sse().serve(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
    else:
        asyncio.run(Http().serve(int(sys.argv[2]) if len(sys.argv) > 2 else 0))
