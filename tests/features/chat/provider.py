"""A language model's provider that does what the conversation says: each fault that a real one may show, on demand.

    python -m tests.features.chat.provider --port 0 [--key SECRET]

It prints `ready http://HOST:PORT/v1` and speaks HTTP/1.1 by hand, because half of its faults no server would send. What
it shall do stands in the user's message (`script.py`). It records every request: `GET /control/requests?about=TEXT`
gives those that contain the text, [{path, headers, body, text, attempt, is_gone, sent}], `DELETE /control/requests`
forgets all. `is_gone` becomes true when the client left before the end of the answer.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import signal
import socket
import struct
import sys
from collections import Counter
from typing import Any
from urllib.parse import unquote_plus

from tests.features.chat.answers import Answer, signature
from tests.features.chat.complaints import COMPLAINTS, Complaint
from tests.features.chat.embedding import FAILS, STALLS, embedding
from tests.features.chat.native import NativeRequest, Refused, refusal
from tests.features.chat.script import Step, steps_of

HUGE_BYTES = 100 * 1024 * 1024
_MODELS = ("scripted-large", "scripted-small")
_REASONS = {200: "OK", 307: "Temporary Redirect", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found"}


class Gone(Exception):
    """The client left, or the script cut the connection."""


class Provider:
    """What all connections share."""

    def __init__(self, key: str) -> None:
        self.key = key
        self.requests: list[dict[str, Any]] = []
        self.attempts: Counter[str] = Counter()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(Gone, ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            connection = Connection(self, reader, writer)
            while await connection.exchange():
                pass
        writer.close()


class Connection:
    def __init__(self, provider: Provider, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._provider = provider
        self._reader = reader
        self._writer = writer
        self._early = b""
        self._record: dict[str, Any] = {}
        self._write_bytes = 0

    async def exchange(self) -> bool:
        """Answer one request; say whether another may follow."""
        if not self._early:
            self._early = await self._reader.read(1)
        if not self._early:
            return False
        head = self._early + await self._reader.readuntil(b"\r\n\r\n")
        self._early = b""
        first, *lines = head.decode("latin-1").strip().split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        if path.startswith("/control/requests"):
            await self._control(method, unquote_plus(path.partition("?about=")[2]))
        elif path.endswith("/models") and method == "GET":
            await self._json(200, {"object": "list", "data": [_model(name) for name in _MODELS]})
        else:
            await self._post(path, headers, body)
        return True

    async def _control(self, method: str, about: str) -> None:
        provider = self._provider
        if method == "DELETE":
            provider.requests.clear()
            provider.attempts.clear()
        await self._json(200, [each for each in provider.requests if about in each["text"]])

    async def _post(self, path: str, headers: dict[str, str], raw: bytes) -> None:
        provider = self._provider
        digest = hashlib.sha256(raw).hexdigest()
        provider.attempts[digest] += 1
        attempt = provider.attempts[digest]
        try:
            body = json.loads(raw)
        except ValueError:
            body = None
        self._record = {
            "path": path,
            "headers": headers,
            "body": body,
            "attempt": attempt,
            "is_gone": False,
            "sent": 0,
            "text": raw.decode("utf-8", "replace"),
        }
        provider.requests.append(self._record)
        if provider.key and headers.get("authorization") != f"Bearer {provider.key}":
            await self._complain(COMPLAINTS["invalid_api_key"])
        elif path.endswith("/embeddings") and isinstance(body, dict):
            await self._watched(self._embed(body))
        elif path.endswith(("/responses", "/messages")) and isinstance(body, dict):
            await self._watched(self._natively(path, body, attempt))
        elif not path.endswith("/chat/completions"):
            await self._complain(Complaint(404, b'{"error":{"message":"Not found.","type":"invalid_request_error"}}'))
        elif not isinstance(body, dict) or not body.get("messages"):
            await self._complain(COMPLAINTS["invalid_request"])
        else:
            lost = _lost_signature(body["messages"])
            await self._watched(self._complain(lost) if lost else self._follow(_step(body["messages"], attempt), body))

    async def _natively(self, path: str, body: dict[str, Any], attempt: int) -> None:
        """Answer on a wire that loads tools."""
        try:
            request = NativeRequest(path, body)
            answer = request.answer(_step(request.messages, attempt))
        except Refused as refused:
            return await self._json(400, refusal(path, str(refused)))
        if not body.get("stream"):
            return await self._json(200, request.whole(answer))
        await self._begin("text/event-stream; charset=utf-8")
        for event in request.events(answer):
            await self._chunk(f"event: {event['type']}\n".encode() + _event(event, "lf"))
        return await self._end()

    async def _embed(self, body: dict[str, Any]) -> None:
        """Answer vectors by words; `STALLS` in a text is never answered, `FAILS` with an error."""
        texts = body["input"]
        if any(STALLS in text for text in texts):
            await asyncio.Event().wait()
        if any(FAILS in text for text in texts):
            return await self._json(500, {"error": {"message": "The model failed.", "type": "server_error"}})
        data = [{"object": "embedding", "index": at, "embedding": embedding(text)} for at, text in enumerate(texts)]
        tokens = sum(len(text.split()) for text in texts)
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return await self._json(200, {"object": "list", "data": data, "model": body["model"], "usage": usage})

    async def _watched(self, work: Any) -> None:
        """Do it beside a look-out for the client's leaving."""
        doing = asyncio.ensure_future(work)
        looking = asyncio.ensure_future(self._reader.read(1))
        await asyncio.wait([doing, looking], return_when=asyncio.FIRST_COMPLETED)
        if not doing.done() and _has_gone(looking):
            doing.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await doing
            self._record["is_gone"] = True
            raise Gone
        try:
            await doing
        finally:
            if looking.done():
                self._early = b"" if _has_gone(looking) else looking.result()
            else:
                looking.cancel()
                with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                    self._early = await looking

    async def _follow(self, step: Step, body: dict[str, Any]) -> None:
        self._write_bytes = step.get("bytes", 0)
        if "wait_ms" in step:
            await asyncio.sleep(step["wait_ms"] / 1000)
        if "error" in step:
            await self._complain(COMPLAINTS[step["error"]])
        elif "strange" in step:
            await self._strange(step["strange"], streams=bool(body.get("stream")))
        elif body.get("stream"):
            await self._stream(Answer(step, body), step)
        else:
            await self._whole(Answer(step, body), step)

    async def _whole(self, answer: Answer, step: Step) -> None:
        content = _text(answer.whole()).encode("utf-8", "surrogatepass")
        if step.get("cut") in ("reset", "stall"):
            await self._cut(step)
        elif step.get("cut"):
            headers = [("content-type", "application/json"), ("content-length", str(len(content)))]
            await self._write(self._head(200, headers) + content[: len(content) // 2])
            raise Gone
        await self._complain(Complaint(200, content))

    async def _stream(self, answer: Answer, step: Step) -> None:
        await self._begin("text/event-stream; charset=utf-8")
        style = step.get("wire", "lf")
        for count, chunk in enumerate(answer.chunks()):
            if step.get("cut") and count == step.get("after", 2):
                await self._cut(step)
                if step["cut"] == "close":
                    return await self._end()
            if step.get("pause_ms"):
                await asyncio.sleep(step["pause_ms"] / 1000)
            await self._chunk(_event(chunk, style))
        if step.get("done", True):
            await self._chunk(_event("[DONE]", style))
        return await self._end()

    async def _cut(self, step: Step) -> None:
        cut = step["cut"]
        if cut == "stall":
            await asyncio.Event().wait()
        elif cut == "reset":
            self._reset()
        elif cut == "error":
            told = {"error": {"message": "The model's server failed.", "type": "server_error", "code": "broken"}}
            await self._chunk(_event(told, step.get("wire", "lf")))
            await self._end()
            raise Gone

    async def _strange(self, kind: str, *, streams: bool) -> None:
        if kind == "content_type":
            await self._complain(Complaint(200, b"<html>Log in first</html>", (("content-type", "text/html"),)))
        elif kind == "not_json" and streams:
            await self._begin("text/event-stream")
            await self._chunk(b"data: {not json\n\ndata: [DONE]\n\n")
            await self._end()
        elif kind in ("not_json", "truncated_json"):
            await self._complain(Complaint(200, b'{"id":"chatcmpl-1","choices":[{"index":0,"mess'))
        else:
            await self._huge(streams=streams, in_one_line=kind == "huge_line")

    async def _huge(self, *, streams: bool, in_one_line: bool) -> None:
        """100 MB of text; with streams in many deltas, or in one line that does not end before."""
        await self._begin("text/event-stream" if streams else "application/json")
        piece = "x" * 65000
        many = {"id": "huge", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        event = _event({**many, "choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]}, "lf")
        if not streams or in_one_line:
            head = b"data: " if streams else b""
            await self._chunk(head + b'{"id":"huge","choices":[{"index":0,"message":{"role":"assistant","content":"')
            event = piece.encode()
        for _ in range(HUGE_BYTES // len(event)):
            await self._chunk(event)
        if not streams or in_one_line:
            await self._chunk(b'"},"finish_reason":"stop"}]}' + (b"\n\n" if streams else b""))
        await self._end()

    # Bytes ---------------------------------------------------------------------------------------

    async def _json(self, status: int, body: Any) -> None:
        await self._complain(Complaint(status, _text(body).encode("utf-8", "surrogatepass")))

    async def _complain(self, answer: Complaint) -> None:
        headers = [*answer.headers, ("x-request-id", "req_scripted"), ("content-length", str(len(answer.body)))]
        await self._write(self._head(answer.status, headers) + answer.body)

    async def _begin(self, kind: str) -> None:
        headers = [("content-type", kind), ("x-request-id", "req_scripted"), ("transfer-encoding", "chunked")]
        await self._write(self._head(200, headers))

    async def _chunk(self, data: bytes) -> None:
        size = self._write_bytes or len(data)
        for at in range(0, len(data), size):
            part = data[at : at + size]
            await self._write(b"%x\r\n%b\r\n" % (len(part), part))
            if self._write_bytes:
                await asyncio.sleep(0)
        self._record["sent"] += len(data)

    async def _end(self) -> None:
        await self._write(b"0\r\n\r\n")

    def _head(self, status: int, headers: list[tuple[str, str]]) -> bytes:
        lines = [
            f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}",
            *(f"{name}: {value}" for name, value in headers),
        ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    async def _write(self, data: bytes) -> None:
        try:
            self._writer.write(data)
            await self._writer.drain()
        except ConnectionError:
            self._record["is_gone"] = True
            raise Gone from None

    def _reset(self) -> None:
        """Close with RST, as a crash of the peer looks like."""
        held = self._writer.get_extra_info("socket")
        held.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._writer.transport.abort()
        raise Gone


def _has_gone(looking: asyncio.Future[bytes]) -> bool:
    """Return whether the look-out saw the end of the connection, or its reset."""
    return looking.exception() is not None or not looking.result()


def _step(messages: list[dict[str, Any]], attempt: int) -> Step:
    steps, turn, text = steps_of(messages)
    step = steps[min(turn, len(steps) - 1)] if steps else {"say": f"You said: {text}"}
    if attempt > step.get("times", attempt):
        then: Step = step.get("then", {"say": "At last."})
        return then
    return step


def _lost_signature(messages: list[dict[str, Any]]) -> Complaint | None:
    """Return the refusal of messages in which a call of the turn lacks the signature that its step gave it."""
    steps, _, _ = steps_of(messages)
    begins = max((at for at, each in enumerate(messages) if each.get("role") == "user"), default=0)
    rounds = [each for each in messages[begins:] if each.get("role") == "assistant"]
    for step, message in zip(steps, rounds, strict=False):
        for call in message.get("tool_calls") or []:
            if "sign" in step and call.get("extra_content") != signature(step["sign"]):
                words = "Function call is missing a thought_signature in functionCall parts."
                return Complaint(400, json.dumps([{"error": {"code": 400, "message": words}}]).encode())
    return None


def _text(body: Any) -> str:
    # Not escaped, so that a write can end within a character.
    return json.dumps(body, ensure_ascii=False, separators=(",", ":"))


def _event(data: Any, style: str) -> bytes:
    """Write one event of the stream, in a style that the format allows."""
    end = {"crlf": "\r\n", "cr": "\r"}.get(style, "\n")
    text = data if isinstance(data, str) else _text(data)
    lines = [f"data: {text}"]
    if style == "multiline":
        spread = text if isinstance(data, str) else json.dumps(data, ensure_ascii=False, indent=1)
        lines = [": spread", "event: message", *(f"data:{line}" for line in spread.split("\n")), "id: 7"]
    return (end.join(lines) + end + end).encode("utf-8", "surrogatepass")


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "scripted"}


async def run(port: int, key: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    provider = Provider(key)
    server = await asyncio.start_server(provider.serve, "127.0.0.1", port, limit=64 * 1024 * 1024, backlog=1024)
    print(f"ready http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await stop.wait()
    server.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--key", default="", help="refuse requests without this bearer key")
    words = parser.parse_args()
    with contextlib.suppress(ImportError):
        import uvloop

        uvloop.install()
    asyncio.run(run(words.port, words.key))


if __name__ == "__main__":
    sys.exit(main())
