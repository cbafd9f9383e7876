"""MCP spoken by hand: requests of both eras, event streams, raw bytes. Knows no SDK and nothing of the hub."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import socket
import uuid
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.waiting import PATIENCE_SECONDS

MODERN = "2026-07-28"
LEGACY = "2025-11-25"
META = "io.modelcontextprotocol/"
BOTH = "application/json, text/event-stream"

_ids = itertools.count(1)


class Answer(httpx2.Response):
    """What the hub answered: JSON or, where that took ten seconds, an event stream that ends with the same."""

    @classmethod
    def of(cls, answer: httpx2.Response) -> Answer:
        made = cls(answer.status_code, headers=answer.headers, request=answer.request, extensions=answer.extensions)
        made._content = answer.content
        made.is_closed = made.is_stream_consumed = True
        return made

    def json(self, **options: Any) -> Any:
        if self.headers.get("content-type", "").startswith("text/event-stream"):
            return list(events(self))[-1]
        return super().json(**options)


class Speaker:
    """One client program. Its name is its own, so that its calls are found in the audit by it."""

    def __init__(self, url: str, key: str | None) -> None:
        self.url = url
        self.key = key
        self.name = f"speaker-{uuid.uuid4().hex[:12]}"
        self.http = httpx2.Client(base_url=url, timeout=PATIENCE_SECONDS)

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *_: object) -> None:
        self.http.close()

    # Any era -------------------------------------------------------------------------------------

    def headers(self, **more: str | None) -> dict[str, str]:
        """What every POST carries; `mcp_method="x"` adds `mcp-method`, None takes a header away."""
        base = {
            "accept": BOTH,
            "content-type": "application/json",
            "authorization": f"Bearer {self.key}" if self.key else None,
        }
        base |= {name.replace("_", "-"): value for name, value in more.items()}
        return {name: value for name, value in base.items() if value is not None}

    def post(self, body: Any, path: str = "/mcp", **headers: str | None) -> httpx2.Response:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        return Answer.of(self.http.post(path, content=raw, headers=self.headers(**headers)))

    @contextlib.contextmanager
    def streaming(
        self, method: str, body: Any = None, path: str = "/mcp", **headers: str | None
    ) -> Iterator[tuple[httpx2.Response, Iterator[dict[str, Any]]]]:
        """Send a request; give its answer while it is still coming, and its events."""
        raw = b"" if body is None else json.dumps(body).encode()
        with self.http.stream(method, path, content=raw, headers=self.headers(**headers)) as answer:
            yield answer, events(answer)

    # The era of sessions --------------------------------------------------------------------------

    def open_session(self, version: str = LEGACY, **capabilities: Any) -> str:
        """Shake hands and give the session id."""
        answer = self.post(hello(version, self.name, **capabilities))
        assert answer.status_code == 200, answer.text
        session: str = answer.headers["mcp-session-id"]
        done = self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, mcp_session_id=session)
        assert (done.status_code, done.content) == (202, b"")
        return session

    def in_session(self, session: str, method: str, params: Any = None, id: Any = None) -> httpx2.Response:
        return self.post(request(method, params, id), mcp_session_id=session)

    def call(self, session: str, tool: str, arguments: Any = None, id: Any = None) -> httpx2.Response:
        return self.in_session(session, "tools/call", {"name": tool, "arguments": arguments or {}}, id)

    # The era without -------------------------------------------------------------------------------

    def modern(
        self, method: str, params: dict[str, Any] | None = None, id: Any = None, **headers: str | None
    ) -> httpx2.Response:
        return self.post(self.modern_body(method, params, id), **self.modern_headers(method, params, **headers))

    def modern_body(self, method: str, params: dict[str, Any] | None = None, id: Any = None) -> dict[str, Any]:
        meta = {
            f"{META}protocolVersion": MODERN,
            f"{META}clientCapabilities": {},
            f"{META}clientInfo": {"name": self.name, "version": "1"},
        }
        params = params or {}
        return request(method, {**params, "_meta": {**meta, **params.get("_meta", {})}}, id)

    def modern_headers(
        self, method: str, params: dict[str, Any] | None = None, **headers: str | None
    ) -> dict[str, str | None]:
        named_by = {"resources/read": "uri", "tasks/get": "taskId", "tasks/update": "taskId", "tasks/cancel": "taskId"}
        name = (params or {}).get(named_by.get(method, "name"))
        named = {"mcp_name": in_header(name)} if isinstance(name, str) else {}
        return {"mcp_protocol_version": MODERN, "mcp_method": method, **named, **headers}

    def modern_call(self, tool: str, arguments: Any = None, **meta: Any) -> httpx2.Response:
        return self.modern("tools/call", {"name": tool, "arguments": arguments or {}, "_meta": meta})


def in_header(text: str) -> str:
    """A text as a routing header carries it."""
    plain = text.isascii() and text.isprintable() and text == text.strip()
    return text if plain else f"=?base64?{base64.b64encode(text.encode()).decode()}?="


def request(method: str, params: Any = None, id: Any = None) -> dict[str, Any]:
    body = {"jsonrpc": "2.0", "id": next(_ids) if id is None else id, "method": method}
    return body if params is None else {**body, "params": params}


def hello(version: str = LEGACY, name: str = "speaker", id: Any = None, **capabilities: Any) -> dict[str, Any]:
    info = {"name": name, "version": "1"}
    return request("initialize", {"protocolVersion": version, "capabilities": capabilities, "clientInfo": info}, id)


def events(answer: httpx2.Response) -> Iterator[dict[str, Any]]:
    """The JSON messages of an event stream; an event of another name comes as `{name: data}`, an empty one not."""
    name, data = "message", []
    for line in answer.iter_lines():
        field, _, value = line.partition(":")
        if line == "":
            if any(data):
                text = "\n".join(data)
                yield json.loads(text) if name == "message" else {name: text}
            name, data = "message", []
        elif field == "event":
            name = value.removeprefix(" ")
        elif field == "data":
            data.append(value.removeprefix(" "))


def unmarked(error: dict[str, Any]) -> dict[str, Any]:
    """An error without the id that tells it from others of its kind."""
    return {**error, "data": {name: value for name, value in error["data"].items() if name != "correlationId"}}


def error_of(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC error in a body, which every refusal carries."""
    assert answer.headers["content-type"] == "application/json", answer.text
    return late_error_of(answer)


def late_error_of(answer: httpx2.Response) -> dict[str, Any]:
    """The JSON-RPC error of a call that was under way: after ten seconds its answer is a stream, of status 200."""
    body = answer.json()
    assert body["jsonrpc"] == "2.0"
    assert "result" not in body
    error: dict[str, Any] = body["error"]
    assert isinstance(error["code"], int)
    assert error["message"]
    return error


@contextlib.contextmanager
def wire(url: str) -> Iterator[socket.socket]:
    """A bare connection, for what no HTTP client would send."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE_SECONDS) as connection:
        yield connection


def raw_answer(connection: socket.socket) -> tuple[int, bytes]:
    """Read one answer to its end; give status and body."""
    with connection.makefile("rb") as file:
        status = int(file.readline().split()[1])
        length = 0
        while (line := file.readline().strip()) != b"":
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                length = int(value)
        return status, file.read(length)
