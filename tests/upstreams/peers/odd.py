"""Upstreams as odd as published ones: `odd.py http|sse|modern|stdio [--yields] [PORT | HABIT]`.

Over HTTP each path `/HABIT` is a server of its own. It has the habit in all its answers, and yet each of its calls can
be answered right. `be` misbehaves once, by the modes of chaos.py and by those below.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
from typing import Any

import chaos

SLASH = "redirected"
CLOSED = {"closes_idle"}
HELD = itertools.count(1)
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}}
SCHEMAS: dict[str, Any] = {
    "php_schemas": {"type": "object", "properties": [], "required": []},
    "dotnet_schemas": {"type": "object", "properties": {"text": {"type": ["string", "null"]}}, "required": None},
    "empty_schemas": {},
    "draft_3_schemas": {"type": "object", "properties": {"text": {"type": "string", "required": True}}},
    "draft_4_schemas": {
        "id": "http://example.test/echo",
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"n": {"type": "integer", "minimum": 0, "exclusiveMinimum": True}, "text": {"type": "string"}},
    },
    "draft_7_schemas": {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "definitions": {"words": {"type": "string"}},
        "properties": {"text": {"$ref": "#/definitions/words"}, "l": {"type": "array", "items": [{"type": "integer"}]}},
    },
}
CAPABILITIES: dict[str, Any] = {
    "capabilities_array": {"tools": []},
    "capabilities_true": {"tools": True},
    "capabilities_none": {"tools": None},
    "capabilities_empty": {},
    "capabilities_of_php": [],
}
DISCOVER: dict[str, tuple[int, bytes]] = {
    "discover_401": (401, b""),
    "discover_403": (403, b'{"message":"Forbidden"}'),
    "discover_404": (404, b"<html>Not Found</html>"),
    "discover_429": (429, b""),
    "discover_500": (500, b"Traceback (most recent call last)"),
}
LOST: dict[str, tuple[int, str]] = {
    "404": (404, ""),
    "410": (410, "gone"),
    "typescript": (
        400,
        '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: No valid session ID provided"},"id":null}',
    ),
    "python": (404, '{"jsonrpc":"2.0","id":"server-error","error":{"code":-32600,"message":"Session not found"}}'),
    "not_initialized": (
        400,
        '{"jsonrpc":"2.0","error":{"code":-32000,"message":"Bad Request: Server not initialized"},"id":null}',
    ),
    "plain": (400, "Invalid session ID\n"),
    "bare_400": (400, ""),
    "problem": (409, '{"title":"Conflict","detail":"The session has expired"}'),
    "page_500": (500, "<html><title>Unknown session</title></html>"),
    "error_500": (500, '{"jsonrpc":"2.0","error":{"code":-32603,"message":"Session does not exist"},"id":null}'),
    "401": (401, '{"error":"Unauthorized: Invalid session"}'),
    "bare_401": (401, ""),
    "403": (403, "Session terminated"),
}
PARTS: dict[str, bytes] = {
    "nan": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":NaN}}',
    "big": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":1208925819614629174706176}}',
    "twice": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":1,"x":2}}',
    "no_utf8": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[],"x":"\xff"}}',
    "cut": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":"te',
    "both": b'{"jsonrpc":"2.0","id":%d,"result":{"content":[]},"error":{"code":1,"message":"and an error"}}',
    "neither": b'{"jsonrpc":"2.0","id":%d}',
    "text_error": b'{"jsonrpc":"2.0","id":%d,"error":"plain words"}',
    "float_code": b'{"jsonrpc":"2.0","id":%d,"error":{"code":"E_FAIL","message":null}}',
    "null_result": b'{"jsonrpc":"2.0","id":%d,"result":null}',
}
"""Answers to a call, most of which nobody can read."""
LONE: dict[str, bytes] = {
    "null_id": b'{"jsonrpc":"2.0","id":null,"result":{"content":[]}}',
    "null_error": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
}


def answered(habit: str, request: dict[str, Any]) -> Any:
    """Return the answer of a server with this habit, a text for a mode; None where none is sent."""
    method, params = request["method"], request.get("params", {})
    told = chaos.answer(request)
    if "id" not in request or isinstance(told, str) or "result" not in told:
        return told
    result = told["result"]
    if method in ("initialize", "server/discover") and habit in CAPABILITIES:
        result["capabilities"] = CAPABILITIES[habit]
    elif method == "initialize" and habit == "capabilities_absent":
        del result["capabilities"]
    elif method == "tools/list":
        result.update(listed(habit, params.get("cursor")))
    elif method == "tools/call":
        text = params.get("arguments", {}).get("text", "")
        result["content"] = [{"type": "text", "text": f"{text}\ud83d" if habit == "half_pairs" else text}]
        if habit == "more_members":
            result |= {"structuredContent": None, "isError": None, "_meta": None}
    return told


def listed(habit: str, cursor: str | None) -> dict[str, Any]:
    echo = {**chaos.ECHO, "inputSchema": SCHEMAS.get(habit, TEXT)}
    tools = [chaos.BE, echo]
    if habit == "names":
        tools = [{**echo, "name": name} for name in ("查询", "插入", "поиск", "a b", "a/b")]
    if habit == "tools_by_number":
        return {"tools": dict(enumerate(tools))}
    if habit == "pages_repeat":
        return {"tools": tools, "nextCursor": "again"}
    if habit == "pages_empty":
        return {"tools": tools, "nextCursor": ""}
    if habit == "pages_endless":
        number = int(cursor or 0)
        return {"tools": tools if not number else [{**echo, "name": f"more{number}"}], "nextCursor": str(number + 1)}
    if habit == "page_fails" and cursor:
        return {"tools": "none"}
    return {"tools": tools, "nextCursor": "2"} if habit == "page_fails" else {"tools": tools}


def lines(habit: str, message: dict[str, Any]) -> list[bytes]:
    """Return what is written in place of a message, each on a line or in an event."""
    id_ = message.get("id")
    whole: Any = message
    if habit == "text_ids":
        whole = {**message, "id": str(id_)}
    elif habit == "float_ids":
        whole = {**message, "id": float(id_)}
    elif habit == "arrays":
        whole = [message]
    elif habit == "arrays_with_notes":
        whole = [chaos.note(1), message]
    elif habit == "null_errors":
        whole = {**message, "error": None}
    elif habit == "no_version":
        whole = {"id": id_, **{name: value for name, value in message.items() if name != "jsonrpc"}}
    raw = json.dumps(whole).encode()
    if habit == "marks":
        raw = b"\xef\xbb\xbf" + raw
    before = {
        "answers_to_others": [json.dumps(chaos.good(999_999)).encode()],
        "heartbeats": [b'{"type":"heartbeat","timestamp":"now"}'],
        "chatter": [b"Listening on standard input", b"[info] a call came in"],
        "progress": [
            b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"x","progress":%d}}' % step
            for step in range(100)
        ],
        "null_ids": [b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}'],
    }
    return [*before.get(habit, []), raw]


# stdio -------------------------------------------------------------------------------------------------


async def stdio(habit: str) -> None:
    out = sys.stdout.buffer
    end = b"\r\n" if habit == "crlf" else b"\n"
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    if habit == "mark_first":
        out.write(b"\xef\xbb\xbf")
    while line := await reader.readline():
        request = json.loads(line)
        told = answered(habit, request) if "id" in request else None
        if habit == "stderr":
            sys.stderr.write(("e" * 4000 + "\n") * 100)
        if habit == "blank_lines":
            out.write(b"\n\n \n")
        if isinstance(told, dict):
            out.writelines(each + end for each in lines(habit, told))
            out.flush()
        elif told is not None:
            await misbehaved(told, request, out)


async def misbehaved(mode: str, request: dict[str, Any], out: Any) -> None:
    if mode in PARTS:
        raw = PARTS[mode]
        out.write((raw % request["id"] if b"%d" in raw else raw) + b"\n")
    elif mode in LONE:
        out.write(LONE[mode] + b"\n")
    elif mode == "exit":
        os._exit(0)
    elif mode == "half_line":
        out.write(b'{"jsonrpc":"2.0","id"')
        out.flush()
        os._exit(1)
    elif mode == "utf16":
        out.write(json.dumps(chaos.good(request["id"])).encode("utf-16") + b"\n")
    elif mode == "progress_flood":
        flood(lambda raw: out.write(raw + b"\n"), request)
        out.write(json.dumps(chaos.good(request["id"])).encode() + b"\n")
    elif mode == "newlines":
        out.write(b"\n" * 1_000_000)
        out.write(json.dumps(chaos.good(request["id"])).encode() + b"\n")
    else:
        await chaos.misbehaved(mode, request["id"])
    out.flush()


def flood(write: Any, request: dict[str, Any]) -> None:
    token = request.get("params", {}).get("_meta", {}).get("progressToken", "none")
    for step in range(20_000):
        params = {"progressToken": token, "progress": step, "message": "x" * 50}
        write(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params}).encode())


# HTTP --------------------------------------------------------------------------------------------------


class Odd(chaos.Http):
    def __init__(self) -> None:
        super().__init__()
        self.sessions: dict[str, set[str]] = {}
        self.lost: dict[str, tuple[int, str]] = {}
        """Path -> how the loss of a session is answered there."""

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        read = await self.read(reader)
        if read is None:
            return False
        verb, path, headers, body = read
        habit = path.strip("/")
        if habit == SLASH and not path.endswith("/"):
            return status(writer, 307, b"", f"Location: {path}/\r\n")
        if verb == "GET":
            return await self.listening(habit, reader, writer)
        if verb == "DELETE":
            return status(writer, 500 if habit == "delete_500" else 200, b"")
        request = json.loads(body)
        method = request.get("method")
        session = headers.get("mcp-session-id", "")
        known = self.sessions.setdefault(habit, set())
        if not chaos.IS_MODERN and session and session not in known:
            code, words = self.lost.get(habit, LOST["typescript"])
            return status(writer, code, words.encode())
        if "id" not in request:
            return status(writer, 400 if habit == "notes_refused" else 202, b"")
        if method == "server/discover" and habit in DISCOVER:
            return status(writer, *DISCOVER[habit])
        if method == "server/discover" and habit == "discover_breaks_off":
            writer.transport.abort()
            return False
        told = answered(habit, request)
        if isinstance(told, str):
            return await self.turned(told, habit, request, reader, writer)
        named = ""
        if method == "initialize" and not chaos.IS_MODERN:
            mark = f"{habit}-{next(HELD)}-{os.getpid()}"
            known.add(mark)
            named = f"Mcp-Session-Id: {mark}\r\n"
        return await self.write(writer, habit, lines(habit, told), named)

    async def read(self, reader: asyncio.StreamReader) -> tuple[str, str, dict[str, str], bytes] | None:
        head = await reader.readline()
        if not head:
            return None
        verb, path = head.decode().split()[:2]
        headers: dict[str, str] = {}
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.strip().lower()] = value.strip()
        return verb, path, headers, await reader.readexactly(int(headers.get("content-length", 0)))

    async def listening(self, habit: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        if habit == "get_500":
            return status(writer, 500, b"no")
        if habit == "get_page":
            return status(writer, 200, b"<html>Welcome</html>", "Content-Type: text/html\r\n")
        if habit == "get_ends":
            return status(writer, 200, b": nothing\n\n", "Content-Type: text/event-stream\r\n")
        if habit == "get_hangs":
            await reader.read()
            return False
        return status(writer, 405, b"")

    async def write(self, writer: asyncio.StreamWriter, habit: str, parts: list[bytes], more: str) -> bool:
        """Write an answer as the habit has it; return whether the connection stays."""
        kind = "application/json"
        if len(parts) > 1 or habit in EVENTS:
            body = b"".join(EVENTS.get(habit, b"") + b"data: " + part + b"\n\n" for part in parts)
            kind = "text/event-stream"
        else:
            body = parts[0]
        if habit == "crlf":
            body, kind = b"event: message\r\ndata: " + parts[0] + b"\r\n\r\n", "text/event-stream"
        elif habit == "many_data_lines":
            body = b"data: " + parts[0].replace(b", ", b", \ndata: ") + b"\n\n"
            kind = "text/event-stream"
        elif habit == "called_text":
            kind = "text/plain; charset=utf-8"
        elif habit == "type_in_capitals":
            kind = "Application/JSON;Charset=UTF-8"
        named = f"Content-Type: {kind}\r\n{more}"
        if habit == "many_headers":
            named += "".join(f"X-More-{number}: {'x' * 200}\r\n" for number in range(60))
        if habit == "until_closed":
            writer.write(f"HTTP/1.1 200 OK\r\n{named}Connection: close\r\n\r\n".encode() + body)
            return False
        if habit == "http_1_0":
            writer.write(f"HTTP/1.0 200 OK\r\n{named}\r\n".encode() + body)
            return False
        if habit in ("drips", "chunks"):
            writer.write(f"HTTP/1.1 200 OK\r\n{named}Transfer-Encoding: chunked\r\n\r\n".encode())
            size = max(1, len(body) // 20) if habit == "drips" else 7
            for start in range(0, len(body), size):
                piece = body[start : start + size]
                writer.write(b"%x;part=1\r\n%b\r\n" % (len(piece), piece))
                await writer.drain()
                await asyncio.sleep(0.01 if habit == "drips" else 0)
            writer.write(b"0\r\nX-Trailer: yes\r\n\r\n")
            return True
        if habit == "created":
            return status(writer, 201, body, named)
        if habit == "continues":
            writer.write(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n")
        status(writer, 200, body, named)
        return habit not in CLOSED  # some close without a word, when the next request may be on its way

    async def turned(
        self, mode: str, habit: str, request: dict[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        id_ = request["id"]
        good = json.dumps(chaos.good(id_, "good")).encode()
        kind = "Content-Type: application/json\r\n"
        if mode.startswith("forget "):
            self.lost[habit] = LOST[mode.split()[1]]
            self.sessions[habit].clear()
            return status(writer, 200, good, kind)
        if mode in PARTS:
            raw = PARTS[mode]
            return status(writer, 200, raw % id_ if b"%d" in raw else raw, kind)
        if mode in LONE:
            return status(writer, 200, LONE[mode], kind)
        if mode == "limited":
            words = b'{"error":{"message":"Rate limit exceeded, retry in 20 s"}}'
            return status(writer, 429, words, f"{kind}Retry-After: 20\r\n")
        if mode == "away":
            return status(writer, 503, b"<html><title>Service Unavailable</title></html>", "Retry-After: 1\r\n")
        if mode == "proxy":
            return status(writer, 502, b"<html><title>502 Bad Gateway</title></html>", "Content-Type: text/html\r\n")
        if mode == "octets":
            return status(writer, 200, b"\x00\x01\x02", "Content-Type: application/octet-stream\r\n")
        if mode == "nothing":
            return status(writer, 200, b"", kind)
        if mode == "no_content":
            writer.write(b"HTTP/1.1 204 No Content\r\n\r\n")
            return True
        if mode == "accepted":
            return status(writer, 202, b"")
        if mode == "no_events":
            return status(writer, 200, b"", "Content-Type: text/event-stream\r\n")
        if mode == "loop":
            return status(writer, 308, b"", f"Location: /{habit}\r\n")
        if mode == "switch":
            writer.write(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n")
            await reader.read()
            return False
        if mode == "no_http":
            writer.write(b"SSH-2.0-OpenSSH_9.6\r\n")
            return False
        if mode == "truncated":
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}Content-Length: {len(good) * 2}\r\n\r\n".encode() + good)
            return False
        if mode == "truncated_chunks":
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}Transfer-Encoding: chunked\r\n\r\n40\r\n".encode() + good[:20])
            return False
        if mode == "no_chunks":
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}Transfer-Encoding: chunked\r\n\r\nzz\r\n".encode() + good)
            return False
        if mode == "negative":
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}Content-Length: -5\r\n\r\n".encode() + good)
            return False
        if mode == "two_lengths":
            two = f"Content-Length: {len(good)}\r\nContent-Length: 5\r\n"
            writer.write(f"HTTP/1.1 200 OK\r\n{kind}{two}\r\n".encode() + good)
            return False
        if mode == "rest":
            status(writer, 200, good, kind)
            writer.write(b"what nobody asked for\r\n\r\n")
            return True
        if mode == "half_closed":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n: soon\n\n")
            writer.write_eof()
            await reader.read()
            return False
        if mode == "events_cut":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: " + good[:30])
            return False
        if mode == "progress_flood":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            flood(lambda raw: writer.write(b"data: " + raw + b"\n\n"), request)
            writer.write(b"data: " + good + b"\n\n")
            return False
        if mode == "exit":
            os._exit(3)
        if mode == "exit_half":
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999\r\n\r\n{")
            await writer.drain()
            os._exit(3)
        return await self.misbehave(mode, id_, reader, writer)


EVENTS: dict[str, bytes] = {
    "ping_events": b"event: ping\ndata: ping\n\n",
    "keepalives": b"data: keepalive\n\n",
    "comments": b": comment\n\nretry: 10\nid: 1\n\n",
    "blank_data": b"data: \n\n",
    "named_events": b"event: message\nid: 7\n",
    "other_events": b'event: status\ndata: {"jsonrpc":"2.0","id":1,"result":{}}\n\n',
}
"""Habit -> what stands before each event of an answer."""


def status(writer: asyncio.StreamWriter, code: int, body: bytes, more: str = "") -> bool:
    writer.write(f"HTTP/1.1 {code} Odd\r\n{more}Content-Length: {len(body)}\r\n\r\n".encode() + body)
    return True


class OddSse(chaos.Sse):
    """HTTP+SSE: `/HABIT` for the stream, messages beside."""

    async def one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readline()
        if not head:
            return False
        verb, path = head.decode().split()[:2]
        headers: dict[str, str] = {}
        while (line := await reader.readline()).strip():
            name, _, value = line.decode().partition(":")
            headers[name.strip().lower()] = value.strip()
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        if verb == "GET":
            habit = path.strip("/")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n")
            mark = f"{habit}-{next(HELD)}"
            self.streams[mark] = writer
            place = f"http://{headers['host']}" if habit == "whole_address" else ""
            end = "\r\n" if habit == "crlf" else "\n"
            writer.write(f"event: endpoint{end}data: {place}/messages?mark={mark}{end}{end}".encode())
            await reader.read()
            self.streams.pop(mark, None)
            return False
        mark = path.partition("mark=")[2]
        stream = self.streams.get(mark)
        if stream is None:
            return status(writer, 404, b"Could not find session")
        request = json.loads(body)
        habit = mark.rpartition("-")[0]
        told = answered(habit, request) if "id" in request else None
        if told in ("hang_before_headers", "redirect", "redirect_inside", "status", "session_lost"):
            return await self.misbehave(str(told), request["id"], reader, writer)
        if habit == "answered_200":
            status(writer, 200, b'{"ok":true}', "Content-Type: application/json\r\n")
        else:
            status(writer, 202, b"Accepted")
        await writer.drain()
        if isinstance(told, dict):
            end = b"\r\n" if habit == "crlf" else b"\n"
            for part in lines(habit, told):
                stream.write(EVENTS.get(habit, b"") + b"event: message" + end + b"data: " + part + end + end)
        elif told is not None:
            await self.spoken(told, request, stream)
        return True

    async def spoken(self, mode: str, request: dict[str, Any], stream: asyncio.StreamWriter) -> None:
        def event(raw: bytes) -> None:
            stream.write(b"event: message\ndata: " + raw + b"\n\n")

        if mode in PARTS:
            event(PARTS[mode] % request["id"] if b"%d" in PARTS[mode] else PARTS[mode])
        elif mode in LONE:
            event(LONE[mode])
        elif mode == "progress_flood":
            flood(event, request)
            event(json.dumps(chaos.good(request["id"])).encode())
        elif mode == "events_cut":
            stream.write(b'event: message\ndata: {"jsonrpc"')
            stream.close()
        else:
            await self.say(mode, request["id"], stream)


if __name__ == "__main__":
    if "--yields" in sys.argv:
        sys.argv.remove("--yields")
        os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    last = sys.argv[2] if len(sys.argv) > 2 else ""
    if sys.argv[1] == "stdio":
        asyncio.run(stdio(last))
    else:
        asyncio.run((OddSse() if sys.argv[1] == "sse" else Odd()).serve(int(last or 0)))
