"""An upstream with events on loopback (MCP 2026-07-28, SEP-3415): its log is a list, its cursors are places in it."""

from __future__ import annotations

import http.server
import json
import threading
from dataclasses import dataclass, field
from typing import Any, Self

EXTENSION = "io.modelcontextprotocol/events"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
VERSION = "2026-07-28"
SCHEMA = {"type": "object", "properties": {"number": {"type": "integer"}}, "required": ["number"]}


def event_type(name: str, *delivery: str, **more: Any) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"{name} happened.",
        "delivery": list(delivery),
        "inputSchema": {"type": "object"},
        "payloadSchema": SCHEMA,
        **more,
    }


CITY = {"type": "string", "minLength": 2}
CITIES: dict[str, Any] = {"type": "object", "required": ["city"], "properties": {"city": CITY}}
"""An inputSchema of a type that needs an argument."""


def log_name(name: str, arguments: dict[str, Any] | None = None) -> str:
    """Return the log of a type with these arguments; without any it has the name of the type."""
    return f"{name} {json.dumps(arguments, sort_keys=True)}" if arguments else name


def event(name: str, number: int, **more: Any) -> dict[str, Any]:
    moment = "2026-10-05T12:00:00Z"
    return {"eventId": f"{name}-{number}", "name": name, "timestamp": moment, "data": {"number": number}, **more}


@dataclass
class EventUpstream:
    """Enter it to serve. `emit` adds to a type's log; who streams gets it at once."""

    types: list[dict[str, Any]]
    logs: dict[str, list[Any]] = field(default_factory=dict)
    asked: list[tuple[str, str]] = field(default_factory=list)
    """Methods and types of the requests for events."""
    open: list[Any] = field(default_factory=list)
    """Arguments of the streams that are open."""
    arguments: list[Any] = field(default_factory=list)
    """Of the requests about events."""

    def __post_init__(self) -> None:
        self.news = threading.Condition()
        self.is_over = False

    @property
    def streaming(self) -> int:
        """The number of streams that are open."""
        return len(self.open)

    def emit(self, name: str, *events: Any) -> None:
        with self.news:
            self.logs.setdefault(name, []).extend(events)
            self.news.notify_all()

    def __enter__(self) -> Self:
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if "id" not in asked:
                    self.send_response(202)
                    self.send_header("content-length", "0")
                    self.end_headers()
                elif asked["method"] == "events/stream":
                    self.close_connection = True
                    upstream.stream(self, asked)
                else:
                    answer = {"jsonrpc": "2.0", "id": asked["id"], **upstream.answer(asked["method"], asked["params"])}
                    raw = json.dumps(answer).encode()
                    self.send_response(200)
                    self.send_header("content-type", "application/json")
                    self.send_header("content-length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/mcp"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        with self.news:
            self.is_over = True
            self.news.notify_all()
        self._server.shutdown()
        self._server.server_close()

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "server/discover":
            capabilities = {"tools": {}, "extensions": {EXTENSION: {}}}
            info = {"name": "shop", "version": "1"}
            found = {"supportedVersions": [VERSION], "capabilities": capabilities, "serverInfo": info}
        elif method == "tools/list":
            found = {"tools": [{"name": "buy", "description": "Buys.", "inputSchema": {"type": "object"}}]}
        elif method == "events/list":
            found = {"events": self.types}
        elif method == "events/poll":
            return self.poll(params)
        else:
            return {"error": {"code": -32601, "message": "There is no such method."}}
        return {"result": {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **found}}

    def refusal(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the error where an argument is missing; empty where none is."""
        self.arguments.append(params["arguments"])
        (schema,) = (each["inputSchema"] for each in self.types if each["name"] == params["name"])
        if missing := [name for name in schema.get("required", []) if name not in params["arguments"]]:
            return {"error": {"code": -32602, "message": f"arguments.{missing[0]} is missing."}}
        return {}

    def poll(self, params: dict[str, Any]) -> dict[str, Any]:
        if refusal := self.refusal(params):
            return refusal
        log, cursor = self.logs.setdefault(log_name(params["name"], params["arguments"]), []), params["cursor"]
        self.asked.append(("events/poll", params["name"]))
        begins = len(log) if cursor is None else int(cursor)
        ends = begins + int(params.get("maxEvents", 50))
        found = {"events": log[begins:ends], "cursor": str(min(ends, len(log))), "truncated": False}
        return {"result": {"resultType": "complete", **found, "hasMore": ends < len(log), "nextPollMs": 100}}

    def stream(self, handler: http.server.BaseHTTPRequestHandler, asked: dict[str, Any]) -> None:
        """Serve one stream from its cursor on, until the client leaves."""
        params = asked["params"]
        log = self.logs.setdefault(log_name(params["name"], params["arguments"]), [])
        self.arguments.append(params["arguments"])
        self.asked.append(("events/stream", params["name"]))
        at = len(log) if params["cursor"] is None else int(params["cursor"])
        handler.send_response(200)
        handler.send_header("content-type", "text/event-stream")
        handler.end_headers()

        def say(what: str, **more: Any) -> None:
            message = {
                "method": f"notifications/events/{what}",
                "params": {**more, "_meta": {SUBSCRIPTION: asked["id"]}},
            }
            handler.wfile.write(b"data: " + json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n\n")
            handler.wfile.flush()

        with self.news:
            self.open.append(params["arguments"])
        try:
            say("active", cursor=str(at), truncated=False)
            while not self.is_over:
                with self.news:
                    if len(log) == at:
                        self.news.wait(2)
                    fresh = log[at:]
                for each in fresh:
                    at += 1
                    say("event", **each, cursor=str(at))
                if not fresh:
                    say("heartbeat", cursor=str(at))
        except OSError:
            pass
        finally:
            with self.news:
                self.open.remove(params["arguments"])
