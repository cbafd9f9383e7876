"""The one place where a request of MCP meets its session or its envelope, its channel, its end and its error boundary.

A transport creates a `SessionExchange` or a `StatelessExchange` with a channel to the client, has it `answered`, and
sends the result. Where the eras differ, these two differ, and no method asks which one it serves.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeVar

from invocations.call.context import InputRequester
from invocations.call.running import Watch
from invocations.call_source import CallSource
from invocations.exchange import CallExchange
from mcphub.server import failures, methods, task_forms
from mcphub.server.input_rounds import InputRounds
from mcphub.server.session_input import SessionInput
from sessions_app import bus, transports
from sessions_app.caller import Caller
from sessions_app.kit import tracing
from sessions_app.protocol import envelope, json, jsonrpc, revisions
from sessions_app.protocol.errors import (
    AskFailed,
    HubError,
    InvalidRequest,
    MethodNotFound,
    MissingClientCapability,
    ServerBusy,
)
from sessions_app.store import SessionView
from tools_catalog.call.base import Json
from tools_catalog.call.input_requests import InputRequest
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.catalog.selection import Selection

if TYPE_CHECKING:
    from mcphub.process.runtime import Hub

Result: TypeAlias = dict[str, Json] | bytes
"""A result, or its JSON where it was encoded before."""
Handler: TypeAlias = Callable[[Any, dict[str, Json]], Awaitable[Result]]
"""A method of MCP: takes the exchange and the params."""
Value = TypeVar("Value")
_LONGEST_IN_SPAN = 256
"""Characters of client input."""


@dataclass(frozen=True, slots=True)
class Failure:
    """The error that a request is answered with."""

    error: HubError
    is_ours: bool = False
    """The hub failed or stops; not: the method refused the request."""


async def guarded(hub: Hub, transport: str, request: jsonrpc.Request, work: Awaitable[Value]) -> Value | Failure:
    """Return the result of `work` for the request, or the failure to answer with. Raises only its own cancellation."""
    try:
        return await work
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or not hub.is_draining:
            raise
        task.uncancel()
        error: HubError = ServerBusy(
            "The hub stopped before the answer was there. Look in the audit before trying again."
        )
        error.retry_after_seconds = 1
        failure = Failure(error, is_ours=True)
    except Exception as raised:
        error = failures.as_hub_error(raised, "The method %s failed", request.method[:100])
        failure = Failure(error, is_ours=error is not raised)
        if failure.is_ours:
            hub.transports.failed(transport, error)
    error.request_id = request.id
    return failure


def encoded(hub: Hub, request: jsonrpc.Request, outcome: bytes | Failure) -> bytes:
    """Return the message that answers the request, where errors have no other place than a message."""
    if isinstance(outcome, Failure):
        rendered = failures.error_object(hub.configuration.errors, outcome.error)
        return jsonrpc.encode_error(request.id, rendered)
    return outcome


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A span's facts about the HTTP request that carries one of MCP."""

    version: str
    port: int
    """Of the client."""
    trace: tracing.TraceContext | None
    """The parent of its span, according to its headers. An MCP request is only linked with it: several may share one
    HTTP request, and its own `_meta` names its parent (OpenTelemetry, MCP).
    """


@dataclass(slots=True, kw_only=True)
class McpExchange(CallExchange):
    """One request and its client, as methods see them."""

    hub: Hub
    revision: revisions.Revision
    request: jsonrpc.Request
    gone: Watch | None = None
    """`watch` for a method that keeps the connection alive itself, where that costs less."""
    idempotency_key: str | None = None
    """The key in the transport's own form, such as HTTP's header."""
    headers: envelope.RoutingHeaders | None = None
    """Of a self-describing request, whose headers must agree with its body."""
    http: HttpRequest | None = None
    """The carrying HTTP request, if spans are recorded."""
    toolset: str = ""
    """The name of the toolset at the request's address; empty: the whole catalogue."""

    @property
    def request_id(self) -> jsonrpc.RequestId:
        return self.request.id

    def catalog(self) -> Selection:
        """Return the tools that there are at this address; raise ToolsetNotFound."""
        catalog = self.configuration.catalog
        return catalog.toolset(self.toolset, self.source.caller) if self.toolset else catalog

    def prompts(self) -> Prompts:
        """Return the prompts that there are at this address; raise ToolsetNotFound."""
        configuration = self.configuration
        if not self.toolset:
            return configuration.prompts
        return configuration.catalog.toolset(self.toolset, self.source.caller).prompts_of(configuration.prompts)

    def resources(self) -> Resources:
        """Return the resources that there are at this address; raise ToolsetNotFound."""
        configuration = self.configuration
        if not self.toolset:
            return configuration.resources
        return configuration.catalog.toolset(self.toolset, self.source.caller).resources_of(configuration.resources)

    def going_on(self, first: str) -> McpExchange:
        """Return the exchange of a call that continues the invocation `first`."""
        return dataclasses.replace(self, source=dataclasses.replace(self.source, continues=first))

    async def answered(self) -> bytes | Failure:
        """Return the encoded result of the request, or its failure."""
        return await guarded(self.hub, self.source.transport, self.request, self._encoded_result())

    async def _encoded_result(self) -> bytes:
        return jsonrpc.encode_result(self.request.id, await self.result())

    def result(self) -> Awaitable[Result]:
        """Return the result of the method. Raises whatever it raises; MethodNotFound for one that the era has not."""
        parent = tracing.sent_context(self.request.params.get("_meta"))
        if tracing.recorder is not None:
            return self._spanned(parent)
        if parent is not None:
            self._belongs_to(parent.trace_id, None)
        return self._result()

    async def _spanned(self, parent: tracing.TraceContext | None) -> Result:
        with self._span(parent) as span:
            if span.is_recording:
                self._tell(span)
            if parent is not None or span.is_recording:
                self._belongs_to(span.trace_id or (parent.trace_id if parent else ""), span.span_id or None)
            return await self._result()

    def _result(self) -> Awaitable[Result]:
        raise NotImplementedError

    def _belongs_to(self, trace_id: str, span_id: str | None) -> None:
        """Set trace and span on the rows of this request."""
        self.source = dataclasses.replace(self.source, trace_id=trace_id, span_id=span_id)

    def _span(self, parent: tracing.TraceContext | None) -> tracing.Operation | tracing.NoSpan:
        """Return the span of the request, by OpenTelemetry's conventions for MCP."""
        method, source = self.request.method, self.source
        name = method if method in methods.STATELESS or method in methods.HANDSHAKE else tracing.OTHER
        is_pipe = source.transport == transports.STDIO.name
        labels: dict[str, tracing.Attribute] = {**(tracing.TRANSPORT_PIPE if is_pipe else tracing.TRANSPORT_HTTP)}
        if source.protocol_version:
            labels["mcp.protocol.version"] = source.protocol_version
        if method == "tools/call":
            labels["gen_ai.operation.name"] = "execute_tool"
        return tracing.served(name, labels, parent=parent, link=self.http.trace if self.http is not None else None)

    def _tell(self, span: tracing.Operation | tracing.NoSpan) -> None:
        """Add attributes to a span that durations are not grouped by."""
        params, source = self.request.params, self.source
        span.set("jsonrpc.request.id", str(self.request.id)[:_LONGEST_IN_SPAN])
        if source.in_session:
            span.set("mcp.session.id", source.session_id)
        if source.client_address:
            span.set("client.address", source.client_address)
        if self.http is not None:
            span.set("client.port", self.http.port)
            span.set("network.protocol.version", self.http.version)
        if isinstance(uri := params.get("uri"), str):
            span.set("mcp.resource.uri", uri[:_LONGEST_IN_SPAN])
        if self.request.method == "prompts/get" and isinstance(prompt := params.get("name"), str):
            span.set("gen_ai.prompt.name", prompt[:_LONGEST_IN_SPAN])

    # Where eras differ for a method -----------------------------------------------------------------

    @property
    def tasks(self) -> task_forms.TaskForm:
        raise NotImplementedError

    def resumed(self, method: str, params: dict[str, Json]) -> InputRounds | None:
        """Return the round of input that the request brings; None where it brings none."""
        raise NotImplementedError

    def requester(self, method: str, params: dict[str, Json]) -> InputRequester:
        """Return how a tool asks the client for input."""
        raise NotImplementedError

    def cannot_ask(self, missing: list[InputRequest]) -> HubError:
        """Return the error for input requests that the client did not declare."""
        raise NotImplementedError


@dataclass(slots=True, kw_only=True)
class StatelessExchange(McpExchange):
    """Of a request that describes itself (MCP 2026-07-28)."""

    def _result(self) -> Awaitable[Result]:
        return methods.STATELESS[self.request.method](self, self.request.params)

    @property
    def tasks(self) -> task_forms.TaskForm:
        return task_forms.EXTENSION_TASKS

    def resumed(self, method: str, params: dict[str, Json]) -> InputRounds | None:
        if "requestState" in params or "inputResponses" in params:
            return InputRounds.of(self.source, self.revision, method, params)
        return None

    def requester(self, method: str, params: dict[str, Json]) -> InputRequester:
        return InputRounds.of(self.source, self.revision, method, params)

    def cannot_ask(self, missing: list[InputRequest]) -> HubError:
        return MissingClientCapability({name: value for each in missing for name, value in each.required.items()})


@dataclass(slots=True, kw_only=True)
class SessionExchange(McpExchange):
    """Of a request in a session. The session must be live; a call's own commit finds that out for the call."""

    handlers: ClassVar[Mapping[str, Handler]]
    session: SessionView
    is_touched: bool = False
    """The transport has found the session live already, before it accepted the request."""

    @classmethod
    def of(
        cls, hub: Hub, session: SessionView, caller: Caller, request: jsonrpc.Request, address: str = "", **more: Any
    ) -> SessionExchange:
        return cls(
            hub=hub,
            session=session,
            configuration=more.pop("configuration", hub.configuration),
            source=session_source(session, caller, address),
            revision=revisions.revision(session.protocol_version or revisions.HANDSHAKE[0]),
            request=request,
            progress_token=_progress_token(request.params),
            log_level=session.log_level or "info",
            **more,
        )

    async def _result(self) -> Result:
        if not self.is_touched and self.request.method != "tools/call":
            await self.hub.touch_session(self.session.session_id)
        return await self._handler()(self, self.request.params)

    def _handler(self) -> Handler:
        handler = methods.HANDSHAKE.get(self.request.method)
        if handler is None:
            raise MethodNotFound.named(self.request.method, methods.HANDSHAKE)
        return handler

    @property
    def tasks(self) -> task_forms.TaskForm:
        return task_forms.CORE_TASKS if self.revision.core_tasks else task_forms.NO_TASKS

    def resumed(self, method: str, params: dict[str, Json]) -> InputRounds | None:
        return None

    def requester(self, method: str, params: dict[str, Json]) -> InputRequester:
        return SessionInput(self)

    def cannot_ask(self, missing: list[InputRequest]) -> HubError:
        return AskFailed(
            f"The tool asks for {missing[0].method}, which the client does not support. Use a client that does.",
            requiredCapabilities={name: value for each in missing for name, value in each.required.items()},
        )


@dataclass(slots=True, kw_only=True)
class ConnectionExchange(SessionExchange):
    """In a session that began with its connection (HTTP+SSE, stdio), and is initialized by a request like any other."""

    def _handler(self) -> Handler:
        if self.request.method == "initialize":
            return methods.initialize_session
        handler = super(ConnectionExchange, self)._handler()
        if not self.session.initialized and self.request.method not in methods.BEFORE_INITIALIZE:
            raise InvalidRequest("The session is not initialized. Send initialize first.")
        return handler


def session_source(session: SessionView, caller: Caller, address: str) -> CallSource:
    """Return the source of a session's requests; the same object as long as nothing of it changes."""
    for known in session.sources:
        kept: CallSource = known
        if kept.caller is caller and kept.client_address == address:
            return kept
    source = CallSource(
        caller=caller,
        session_id=session.session_id,
        transport=session.transport,
        protocol_version=session.protocol_version,
        client_name=session.client_name,
        client_version=session.client_version,
        client_address=address,
        client_capabilities=session.client_capabilities,
        in_session=True,
    )
    session.sources[:] = [source]
    return source


async def stateless_source(
    hub: Hub, caller: Caller, climbed: envelope.Envelope, transport: str, address: str = ""
) -> CallSource:
    """Return the source of a request that describes itself: that of its client's last one, if nothing has changed."""
    key = (climbed.client_name, climbed.client_version, climbed.protocol_version, address)
    known: CallSource | None = caller.sources.get(key)
    if (
        known is not None
        and climbed.client_capabilities == known.client_capabilities
        and hub.sessions.recall(known.session_id)
    ):
        return known
    name, version = climbed.client_name or "", climbed.client_version or ""
    session_id = await hub.sessions.implicit(
        caller, transport=transport, client_name=name, client_version=version, protocol_version=climbed.protocol_version
    )
    source = CallSource(
        caller=caller,
        session_id=session_id,
        transport=transport,
        protocol_version=climbed.protocol_version,
        client_name=name,
        client_version=version,
        client_address=address,
        client_capabilities=climbed.client_capabilities,
    )
    caller.remember(key, source)
    return source


# What needs no response --------------------------------------------------------------------------------


async def take(hub: Hub, session_id: str, message: jsonrpc.Message) -> None:
    """Accept a message without a response: a notification, or a response of the client's."""
    if isinstance(message, jsonrpc.Notification) and message.method == "notifications/cancelled":
        await cancel_request(hub, session_id, message.params.get("requestId"))
    elif isinstance(message, jsonrpc.Response | jsonrpc.ErrorResponse):
        await hub.input_requests.take(session_id, message)


async def cancel_request(hub: Hub, session_id: str, request_id: Json) -> None:
    """Cancel a call of the session, in whichever process it runs; unknown ids are ignored (MCP, Cancellation)."""
    if isinstance(request_id, str | int) and not isinstance(request_id, bool):
        key = json.canonical(request_id)
        if not hub.calls.running.cancel_request(session_id, key):
            await bus.announce(bus.CALL_CANCELLED, f"{session_id} {key}")


def _progress_token(params: dict[str, Json]) -> str | int | None:
    """Return the client's token for progress, if it is valid."""
    meta = params.get("_meta")
    token = meta.get("progressToken") if isinstance(meta, dict) else None
    return token if isinstance(token, str | int) and not isinstance(token, bool) else None
