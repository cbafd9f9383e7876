"""A call path without doors: real ledger, real database, tools whose backends play a script."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connections

from invocations.calling import CallResult, Calls
from invocations.ledger import Ledger
from invocations.mapping import ErrorMap
from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.origin import Origin
from invocations.redaction.policy import Policy
from sessions_app.caller import Caller
from sessions_app.database import Dedicated
from sessions_app.protocol import schemas
from tests.factories import McpSessionFactory
from tools_catalog.backends.base import ToolResult
from tools_catalog.catalog import Catalog, Tool

CALLER = Caller(principal="key:1", label="tester", scopes=frozenset({"tools:list", "tools:call"}))
SAID = ToolResult(content=[{"type": "text", "text": "done"}])

_numbers = itertools.count(1)


class Script:
    """A backend that counts its effects and then does what it was told to do."""

    def __init__(self, play: Callable[[dict[str, Any], Any], Awaitable[Any]] | None = None) -> None:
        self.effects: list[dict[str, Any]] = []
        self.contexts: list[Any] = []
        self._play = play

    async def call(self, arguments: dict[str, Any], context: Any) -> Any:
        self.effects.append(arguments)
        self.contexts.append(context)
        return SAID if self._play is None else await self._play(arguments, context)

    async def aclose(self) -> None:
        pass


def gives(value: Any) -> Script:
    """A backend that answers `value`, or raises it."""

    async def play(arguments: dict[str, Any], context: Any) -> Any:
        if isinstance(value, BaseException):
            raise value
        return value

    return Script(play)


class Held(Script):
    """A backend that stays in its call until it is released."""

    def __init__(self) -> None:
        super().__init__(self._wait)
        self.entered = asyncio.Event()
        self.release = asyncio.Event()

    async def _wait(self, arguments: dict[str, Any], context: Any) -> ToolResult:
        self.entered.set()
        await self.release.wait()
        return SAID


def tool(backend: Any, name: str = "act", *, output: dict[str, Any] | None = None, **changes: Any) -> Tool:
    schema = changes.pop("schema", {"type": "object"})
    values: dict[str, Any] = {
        "name": name, "version": "1", "digest": "0" * 64, "enabled": True, "groups": frozenset(),
        "read_only": False, "retry_safe": False, "timeout_seconds": 20, "calls_per_minute": None,
        "definition": {"name": name, "inputSchema": schema}, "arguments": schemas.compile(schema),
        "result": schemas.compile(output) if output else None, "param_headers": (), "backend": backend,
    }  # fmt: skip
    return Tool(**{**values, **changes})


class Desk:
    """One process of the hub on the running loop."""

    def __init__(
        self,
        *tools: Tool,
        errors: ErrorMap | None = None,
        connect: Callable[[Any], Dedicated] = Dedicated,
        redaction: Policy | None = None,
    ) -> None:
        self.catalog = Catalog(tools)
        self.ledger = Ledger(connect)
        mapped = errors or ErrorMap()
        self.process_id = f"process{next(_numbers)}"
        policy = redaction or Policy()
        self.calls = Calls(self.ledger, self.process_id, lambda: self.catalog, lambda: mapped, lambda: policy)
        self.started: list[asyncio.Task[CallResult]] = []

    async def __aenter__(self) -> Desk:
        self.ledger.start()
        self.calls.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.calls.stop()
        await self.ledger.stop()
        for task in self.started:
            task.cancel()
        # An exception that nobody fetched is reported by the collector, in the middle of whatever runs by then.
        await asyncio.gather(*self.started, return_exceptions=True)

    async def call(
        self,
        name: str = "act",
        arguments: dict[str, Any] | None = None,
        *,
        session: str | None = None,
        caller: Caller = CALLER,
        **more: Any,
    ) -> CallResult:
        return await self.calls.call_tool(origin(session, caller), name, arguments or {}, **more)

    def start(self, *args: Any, **more: Any) -> asyncio.Task[CallResult]:
        self.started.append(asyncio.create_task(self.call(*args, **more)))
        return self.started[-1]


def origin(session: str | None = None, caller: Caller = CALLER, **more: Any) -> Origin:
    """A stateless caller's origin, or that of a handshake session."""
    return Origin(
        caller=caller, session_id=session or "implicit", transport="streamable-http",
        protocol_version="2025-11-25" if session else "2026-07-28", client_name="client",
        handshake=session is not None, **more,
    )  # fmt: skip


def live_session() -> str:
    return str(McpSessionFactory().session_id)


def run(scenario: Callable[[], Awaitable[Any]]) -> Any:
    """Run a scenario on a loop of its own; a scenario that hangs fails."""

    async def bounded() -> Any:
        try:
            async with asyncio.timeout(20):
                return await scenario()
        finally:
            await sync_to_async(connections.close_all)()

    return asyncio.run(bounded())


async def invocations() -> list[McpToolInvocation]:
    return await sync_to_async(lambda: list(McpToolInvocation.objects.order_by("id")))()


async def only_invocation() -> McpToolInvocation:
    (row,) = await invocations()
    return row


async def envelopes() -> list[McpRequestEnvelope]:
    return await sync_to_async(lambda: list(McpRequestEnvelope.objects.order_by("id")))()


async def until(condition: Callable[[], Any]) -> Any:
    """Wait for what another thread or task brings about; `run` bounds the wait."""
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        await asyncio.sleep(0.01)
