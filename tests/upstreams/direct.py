"""A server called without a hub, by hand, over each transport: what it answers, as it wrote it. Handshake era."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import httpx2

from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import BOTH, LEGACY, events, hello, request

Message = dict[str, Any]


def without_the_hubs(result: Message) -> Message:
    """Return a result that came through the hub without the hub's own keys in `_meta`, in the order in which it
    came.
    """
    meta = {name: value for name, value in result.get("_meta", {}).items() if not name.startswith("mcphub/")}
    return {name: meta if name == "_meta" else value for name, value in result.items() if name != "_meta" or meta}


class Line(Protocol):
    """A way to the server. `ask` sends a request and gives the response to it."""

    def ask(self, body: Message) -> Message: ...
    def tell(self, body: Message) -> None: ...


class Session:
    """A session that has begun."""

    def __init__(self, line: Line) -> None:
        self._line = line
        answer = line.ask(hello(LEGACY, "direct"))
        self.began: Message = answer["result"]
        line.tell({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def tools(self) -> list[str]:
        return [tool["name"] for tool in self._line.ask(request("tools/list", {}))["result"]["tools"]]

    def call(self, tool: str, arguments: Mapping[str, Any]) -> Message:
        """Return the result of a call, its members in the order in which they came; an error is given as it came."""
        answer = self._line.ask(request("tools/call", {"name": tool, "arguments": dict(arguments)}))
        return answer["result"] if "result" in answer else {"error": answer["error"]}


@contextlib.contextmanager
def over_stdio(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Iterator[Session]:
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(
        command, text=True, env={**os.environ, **(environment or {})}, start_new_session=True, **pipes
    ) as process:
        line = _Pipes(process)
        try:
            yield Session(line)
        finally:
            # A wrapper may have left its server with the pipes open.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            line.end()


@contextlib.contextmanager
def over_http(url: str) -> Iterator[Session]:
    with httpx2.Client(timeout=PATIENCE_SECONDS, follow_redirects=True) as http:
        yield Session(_Posts(http, url))


@contextlib.contextmanager
def over_sse(url: str) -> Iterator[Session]:
    with (
        httpx2.Client(timeout=PATIENCE_SECONDS, follow_redirects=True) as http,
        http.stream("GET", url, headers={"accept": "text/event-stream"}) as answer,
    ):
        yield Session(_Events(http, answer))


class _Pipes:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._heard: queue.Queue[Message | None] = queue.Queue()
        self._hearing = threading.Thread(target=self._hear, daemon=True)
        self._hearing.start()

    def end(self) -> None:
        self._hearing.join()

    def tell(self, body: Message) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(body) + "\n")
        self._process.stdin.flush()

    def ask(self, body: Message) -> Message:
        self.tell(body)
        while (message := self._heard.get(timeout=PATIENCE_SECONDS)) is not None:
            if message.get("id") == body["id"] and "method" not in message:
                return message
        raise AssertionError("The server ended.")

    def _hear(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError):
                self._heard.put(json.loads(line))
        self._heard.put(None)


class _Posts:
    def __init__(self, http: httpx2.Client, url: str) -> None:
        self._http = http
        self._url = url
        self._session: dict[str, str] = {}

    def tell(self, body: Message) -> None:
        self._post(body)

    def ask(self, body: Message) -> Message:
        answer = self._post(body)
        if (session := answer.headers.get("mcp-session-id")) is not None:
            self._session = {"mcp-session-id": session}
        if answer.headers["content-type"].startswith("application/json"):
            found: Message = answer.json()
            return found
        return next(message for message in events(answer) if message.get("id") == body["id"])

    def _post(self, body: Message) -> httpx2.Response:
        answer = self._http.post(self._url, json=body, headers={"accept": BOTH, **self._session})
        assert answer.status_code < 300, answer.text
        return answer


class _Events:
    def __init__(self, http: httpx2.Client, stream: httpx2.Response) -> None:
        self._http = http
        self._events = events(stream)
        (named,) = next(self._events).values()
        self._url = stream.url.join(named)

    def tell(self, body: Message) -> None:
        assert self._http.post(self._url, json=body).status_code < 300

    def ask(self, body: Message) -> Message:
        self.tell(body)
        return next(message for message in self._events if message.get("id") == body["id"])
