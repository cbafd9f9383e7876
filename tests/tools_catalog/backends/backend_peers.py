"""The other sides of a backend: a scripted call context and a real HTTP server on a loopback port."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from sessions_app.workspaces.scope import Scope
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.backends.python import PythonBackend, definition
from tools_catalog.backends.threads import ToolThreads
from tools_catalog.call.base import ToolResult
from tools_catalog.call.context import NO_CLIENT_INPUT, NO_SUSPENSION, NO_TASK, CallInfo, NullNotifier


@dataclass
class ScriptedContext(NullNotifier):
    """A ToolContext that writes down what the tool says."""

    invocation_id: str = "0199-test"
    tool_name: str = "test"
    caller_label: str = "tester"
    caller_principal: str = "key:1"
    caller_scopes: frozenset[str] = frozenset({"tools:call"})
    workspace: Scope | None = None
    client_capabilities: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] | None = None
    seconds: float = PATIENCE_SECONDS
    sent: list[tuple[Any, ...]] = field(default_factory=list)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self.sent.append(("progress", progress, total, message))

    async def log(self, level: str, data: Any, logger: str | None = None) -> None:
        self.sent.append(("log", level, data, logger))

    def remaining_seconds(self) -> float:
        return self.seconds

    @property
    def call(self) -> CallInfo:
        return CallInfo(
            invocation_id=self.invocation_id,
            tool_name=self.tool_name,
            caller_label=self.caller_label,
            caller_principal=self.caller_principal,
            caller_scopes=self.caller_scopes,
            client_capabilities=self.client_capabilities,
            meta=self.meta,
        )

    @property
    def deadline(self) -> ScriptedContext:
        return self

    @property
    def notifier(self) -> ScriptedContext:
        return self

    input = NO_CLIENT_INPUT
    suspension = NO_SUSPENSION
    task = NO_TASK


@dataclass
class Received:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Peer:
    port: int
    received: list[Received] = field(default_factory=list)
    connections: int = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


Script = Callable[[Received, asyncio.StreamWriter], Awaitable[None] | None]


def reply(status: int = 200, body: bytes = b"", content_type: str | None = None, **headers: str) -> bytes:
    """Return the bytes of one HTTP/1.1 answer; underscores in header names stand for hyphens."""
    lines = [f"HTTP/1.1 {status} Scripted", f"Content-Length: {len(body)}"]
    if content_type:
        lines.append(f"Content-Type: {content_type}")
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def always(answer: bytes) -> Script:
    return lambda request, writer: writer.write(answer)


@asynccontextmanager
async def serving(script: Script) -> AsyncIterator[Peer]:
    """Serve `script` on a free loopback port; it writes the raw answer to each request."""
    peer = Peer(port=0)
    conversations: set[asyncio.Task[None]] = set()

    async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        peer.connections += 1
        task = asyncio.current_task()
        assert task is not None
        conversations.add(task)
        task.add_done_callback(conversations.discard)
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                first, *rest = head.decode("latin-1").split("\r\n")
                headers = {
                    name.strip().lower(): value.strip()
                    for name, _, value in (line.partition(":") for line in rest if line)
                }
                body = await reader.readexactly(int(headers.get("content-length", "0")))
                method, target, _ = first.split(" ")
                request = Received(method, target, headers, body)
                peer.received.append(request)
                pending = script(request, writer)
                if pending is not None:
                    await pending
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # the client left
        finally:
            writer.close()

    server = await asyncio.start_server(converse, "127.0.0.1", 0)
    peer.port = server.sockets[0].getsockname()[1]
    try:
        yield peer
    finally:
        server.close()
        for task in list(conversations):
            task.cancel()
        await asyncio.gather(*conversations, return_exceptions=True)


def reference_of(function: Callable[..., Any]) -> str:
    return f"{function.__module__}:{function.__qualname__}"


def run_tool(
    function: Callable[..., Any], arguments: dict[str, Any] | None = None, context: ScriptedContext | None = None
) -> ToolResult:
    """Call a registered function through its backend."""
    threads = ToolThreads(2, name="test-tool")
    backend = PythonBackend(reference_of(function), threads=threads)
    try:
        return asyncio.run(backend.call(arguments or {}, context or ScriptedContext()))
    finally:
        threads.close()


def schema_of(function: Callable[..., Any]) -> dict[str, Any]:
    return definition(reference_of(function))["inputSchema"]
