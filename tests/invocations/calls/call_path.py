"""A call path without transports: real ledger, real database, tools whose backends play a script."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections

from invocations.call_source import CallSource
from invocations.calling import CallResult, Calls
from invocations.configuration import Configuration
from invocations.exchange import CallExchange, CallRequest
from invocations.ledger.writer import Ledger
from invocations.mapping.error_map import ErrorMap
from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.redaction.policy import RedactionPolicy
from mcphub.features.quotas.quota import Quotas
from mcphub.features.quotas.rules import SUBJECT
from sessions_app.caller import Caller
from sessions_app.kit.database import Dedicated
from sessions_app.protocol import schemas
from tests.factories import McpSessionFactory
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.call.base import ToolResult
from tools_catalog.catalog.snapshot import Catalog, Tool

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
        "name": name,
        "version": "1",
        "digest": "0" * 64,
        "enabled": True,
        "groups": frozenset(),
        "read_only": False,
        "retry_safe": False,
        "timeout_seconds": 20,
        "calls_per_minute": None,
        "definition": {"name": name, "inputSchema": schema},
        "arguments": schemas.compile(schema),
        "result": schemas.compile(output) if output else None,
        "param_headers": (),
        "backend": backend,
    }
    return Tool(**{**values, **changes})


class CallPath:
    """One process of the hub on the running loop."""

    def __init__(
        self,
        *tools: Tool,
        errors: ErrorMap | None = None,
        connect: Callable[[Any], Dedicated] = Dedicated,
        redaction: RedactionPolicy | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        self.configuration = Configuration(
            catalog=Catalog(tools),
            errors=errors or ErrorMap(),
            redaction=redaction or RedactionPolicy((), settings.MCPHUB_ENCRYPTION_KEYS),
            additions={SUBJECT: quotas or Quotas()},
        )
        self.ledger = Ledger(connect)
        self.process_id = f"process{next(_numbers)}"
        self.calls = Calls(self.ledger, self.process_id, lambda: self.configuration)
        self.started: list[asyncio.Task[CallResult]] = []

    async def __aenter__(self) -> CallPath:
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
        heard = {each: more.pop(each) for each in ("channel", "progress_token", "log_level", "watch") if each in more}
        request = CallRequest(name=name, arguments=arguments or {}, **more)
        return await self.calls.call_tool(request, self.exchange(source(session, caller), **heard))

    def exchange(self, source: CallSource, **heard: Any) -> CallExchange:
        return CallExchange(source=source, configuration=self.configuration, **heard)

    def start(self, *args: Any, **more: Any) -> asyncio.Task[CallResult]:
        self.started.append(asyncio.create_task(self.call(*args, **more)))
        return self.started[-1]


def source(session: str | None = None, caller: Caller = CALLER, **more: Any) -> CallSource:
    """A stateless caller's source, or that of a handshake session."""
    return CallSource(
        caller=caller,
        session_id=session or "implicit",
        transport="streamable-http",
        protocol_version="2025-11-25" if session else "2026-07-28",
        client_name="client",
        in_session=session is not None,
        **more,
    )


def live_session() -> str:
    return str(McpSessionFactory().session_id)


def run(scenario: Callable[[], Awaitable[Any]]) -> Any:
    """Run a scenario on a loop of its own; a scenario that hangs fails."""

    async def bounded() -> Any:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
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
