"""The first steps of every endpoint: bound the body, check Host and Origin, find the caller.

A Channels consumer with a dispatch of its own: the stock one handles one message at a time, so that it sees a
client go only after the handler has returned, and pays a thread hop and a mailbox for each message.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Iterable
from typing import Any, ClassVar

from channels.consumer import AsyncConsumer
from django.conf import settings

from invocations.configuration import Configuration
from mcphub.process import runtime
from mcphub.server import failures
from mcphub.server.exchange import HttpRequest
from mcphub.transports import checked_headers, refused
from mcphub.transports.checked_headers import HeaderVerdict
from sessions_app import endpoints
from sessions_app.caller import ANONYMOUS, Caller, Keys
from sessions_app.kit import decoding, tracing
from sessions_app.kit.places import NoPlace, RequestTurn, current_turn
from sessions_app.protocol import envelope, errors, json, jsonrpc, revisions
from sessions_app.protocol.errors import (
    BodyTimeout,
    Forbidden,
    HubError,
    MethodNotAllowed,
    PayloadTooLarge,
    ServerBusy,
    ToolFailure,
    UnsupportedMediaType,
)
from sessions_app.protocol.json import Json
from tools_catalog.catalog.selection import Selection

logger = logging.getLogger(__name__)

_TRACE_HEADERS = (b"traceparent", b"tracestate")
JSON = (b"content-type", b"application/json")
SSE = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))
Headers = Iterable[tuple[bytes, bytes]]


class Disconnected(Exception):
    """The client went away before its request was whole. Nobody is left to answer."""


class HubConsumer(AsyncConsumer):
    """One HTTP request. A subclass implements its endpoint in `handle`."""

    allowed_methods: ClassVar[tuple[str, ...]] = ("POST",)
    needs_caller: ClassVar[bool] = True

    scope: Any
    hub: runtime.Hub
    configuration: Configuration
    """As it was when the request came."""
    headers: envelope.RoutingHeaders
    verdict: HeaderVerdict | None = None
    """None until the headers have let the request in."""
    caller: Caller
    message: Json = None
    """The body as it came."""
    has_begun = False
    """The answer has: its status can no longer change."""
    _request_turn: RequestTurn | None = None

    @classmethod
    def as_asgi(cls, **initkwargs: Any) -> Any:
        def application(scope: Any, receive: Any, send: Any) -> Awaitable[None]:
            return cls(**initkwargs)(scope, receive, send)

        return application

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scope = scope
        self._receive = receive
        self._send = send
        try:
            self.headers = envelope.collect(scope["headers"])
            self.hub = runtime.current() or await runtime.ensure()
            self.configuration = self.hub.configuration
            self.verdict = verdict = checked_headers.check(self.headers)
            if scope["method"] == "OPTIONS" and verdict.origin is not None:
                await self.respond(204, b"", self._preflight())
                return
            if self.needs_caller:
                caller = await self._authenticate(verdict)
                self.caller = self._at_address(caller) if "mcphub.workspace" in scope else caller
            if scope["method"] not in self.allowed_methods:
                raise MethodNotAllowed(f"Use {' or '.join(self.allowed_methods)} here.")
            if self.hub.is_draining:
                raise ServerBusy("The hub is stopping. Try again in a moment.")
            await self.handle()
        except Disconnected:
            pass
        except Exception as error:
            refusal = failures.as_hub_error(error, "A request to %s failed", scope["path"])
            self._note(refusal)
            refused.note(scope, self.status_of(refusal), refusal.code, str(refusal))
            await self.refuse(refusal)
        finally:
            if self._request_turn is not None:
                self.hub.turns.end(self._request_turn)

    def handle(self) -> Awaitable[None]:
        raise NotImplementedError

    def _note(self, error: HubError) -> None:
        hub = runtime.current()  # there may be none yet where its start failed
        if hub is not None:
            hub.transports.failed_at(self.scope["path"], error)

    # In ------------------------------------------------------------------------------------------

    async def _authenticate(self, verdict: HeaderVerdict) -> Caller:
        digest = Keys.digest(self.headers.authorization)
        if digest is not None:
            caller = (
                self.configuration.keys.find(digest)
                or await self._made_just_now(digest)
                or await self._signed_in(digest)
            )
        elif settings.MCPHUB_ALLOW_ANONYMOUS and self.headers.authorization is None:
            caller = ANONYMOUS
        else:
            return self.configuration.keys.caller(self.headers.authorization)  # which says what is wrong
        if not verdict.is_kept:
            checked_headers.keep(self.headers, verdict)
        return caller

    def _at_address(self, caller: Caller) -> Caller:
        """Return the caller as it is at this address; raise WorkspaceNotFound for that of a workspace not its own."""
        return caller.within(self.configuration.catalog.workspace(self.scope["mcphub.workspace"], caller))

    async def _made_just_now(self, digest: bytes) -> Caller | None:
        if not await self.hub.unheard_keys.has(digest, self._token):
            return None
        self.configuration = self.hub.configuration
        return self.configuration.keys.find(digest)

    async def _signed_in(self, digest: bytes) -> Caller:
        grant = self.hub.tokens.known(digest) or await self.hub.tokens.find(digest, self._token)
        return grant.caller_at(endpoints.of_path(self.scope["path"]))

    @property
    def _token(self) -> str:
        return (self.headers.authorization or "").partition(" ")[2].strip()

    def challenge(self, error: HubError) -> bytes | None:
        """Return `WWW-Authenticate` for an error that signing in would mend (RFC 6750, RFC 9728); None for others."""
        is_scope = isinstance(error, Forbidden) and "scope" in error.details and self._is_signed_in
        if not (is_scope or isinstance(error, errors.Unauthenticated)):
            return None
        endpoint = endpoints.of_path(self.scope["path"])
        if not endpoint or not settings.MCPHUB_SIGN_IN:
            return b'Bearer realm="mcphub"'
        words = {"resource_metadata": endpoints.document(endpoint, self.headers.host)}
        words["scope"] = " ".join(endpoints.scopes_of(endpoint))
        if is_scope:
            words["error"] = "insufficient_scope"
        elif self.headers.authorization is not None:
            words["error"] = "invalid_token"
        return ("Bearer " + ", ".join(f'{name}="{value}"' for name, value in words.items())).encode()

    @property
    def _is_signed_in(self) -> bool:
        caller: Caller | None = getattr(self, "caller", None)
        return caller is not None and caller.is_signed_in

    async def read_body(self) -> bytes:
        """Read the body within its bounds in bytes and time; raise PayloadTooLarge, BodyTimeout, Disconnected."""
        limit, deadlines = self.hub.max_body_bytes, self.hub.body_deadlines
        task = asyncio.current_task()
        assert task is not None
        deadlines.begin(task, self.hub.body_timeout_seconds)
        try:
            body, more = await self._chunk()
            if more:
                body = await self._rest(body, limit)
        except asyncio.CancelledError:
            if deadlines.end(task):
                raise BodyTimeout from None
            raise
        finally:
            deadlines.end(task)
        if len(body) > limit:
            raise PayloadTooLarge(f"The body is larger than {limit} bytes. Send less.", limit_bytes=limit)
        return body

    async def _chunk(self) -> tuple[bytes, bool]:
        """Return the next part of the body, and whether there are more."""
        message = await self._receive()
        if message["type"] == "http.disconnect":
            raise Disconnected
        return message.get("body", b""), message.get("more_body", False)

    async def _rest(self, first: bytes, limit: int) -> bytes:
        """Return a body that comes in parts, of one that is too large no more than shows it."""
        chunks, size, more = [first], len(first), True
        while more and size <= limit:
            chunk, more = await self._chunk()
            chunks.append(chunk)
            size += len(chunk)
        return b"".join(chunks)

    async def read_json(self) -> Json:
        """Read a JSON body; raise UnsupportedMediaType, ParseError, ServerBusy, or as `read_body`."""
        if self.verdict is None or not self.verdict.is_json:
            raise UnsupportedMediaType
        raw = await self.read_body()
        principal = self.caller.principal
        self._request_turn = turn = self.hub.turns.begin_at_once(principal) or await self._await_request_turn(principal)
        current_turn.set(turn)
        if len(raw) <= decoding.SMALL_BYTES:
            return json.loads(raw)
        return await decoding.body(raw, principal)

    async def _await_request_turn(self, principal: str) -> RequestTurn:
        """Wait until this caller may have one more request at work; raise ServerBusy where too many wait."""
        try:
            return await self.hub.turns.begin(principal)
        except NoPlace:
            busy = ServerBusy("Too many requests wait, and most of them are this caller's. Try again in a moment.")
            busy.retry_after_seconds = 1
            raise busy from None

    async def read_message(self) -> Json:
        """Read a message, or several; raise as `read_json`."""
        self.message = value = await self.read_json()
        return value

    async def gone(self) -> None:
        """Return when the client has gone."""
        while (await self._receive())["type"] != "http.disconnect":
            pass

    @property
    def toolset(self) -> str:
        """The name of the toolset at this address; empty: the whole catalogue."""
        name: str = self.scope.get("mcphub.toolset", "")
        return name

    def selection(self) -> Selection:
        """Return the tools of this address; raise ToolsetNotFound where it leads nowhere for this caller."""
        catalog = self.configuration.catalog
        return catalog.toolset(self.toolset, self.caller) if self.toolset else catalog

    def http(self) -> HttpRequest | None:
        """Return a span's facts about this request; None if spans are not recorded."""
        if tracing.recorder is None:
            return None
        context = {
            name.decode(): value.decode("latin-1") for name, value in self.scope["headers"] if name in _TRACE_HEADERS
        }
        client = self.scope.get("client")
        return HttpRequest(self.scope["http_version"], client[1] if client else 0, tracing.sent_context(context))

    @property
    def client_address(self) -> str:
        client = self.scope.get("client")
        return client[0] if client else ""

    # Out -----------------------------------------------------------------------------------------

    async def respond(self, status: int, body: bytes, headers: Headers = (JSON,)) -> None:
        self.has_begun = True
        out = [*headers, (b"content-length", b"%d" % len(body)), *self._cors()]
        await self._send({"type": "http.response.start", "status": status, "headers": out})
        await self._send({"type": "http.response.body", "body": body})

    async def begin_stream(self, headers: Headers = ()) -> None:
        self.has_begun = True
        out = [*SSE, *headers, *self._cors()]
        await self._send({"type": "http.response.start", "status": 200, "headers": out})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        await self._send({"type": "http.response.body", "body": chunk, "more_body": not last})

    async def refuse(self, error: HubError) -> None:
        """Answer an error that ends the request, with the HTTP status and a JSON-RPC body."""
        if self.has_begun:
            return
        if jsonrpc.is_notification(self.message):
            failures.log("A notification was refused", error.code, error.correlation_id)
            await self.respond(self.status_of(error), b"", self._hints(error))
            return
        await self.respond(self.status_of(error), self.render(error), (JSON, *self._hints(error)))

    def render(self, error: HubError) -> bytes:
        rendered = failures.error_object(self.configuration.errors, error)
        version = self.headers.protocol_version
        null_id = not revisions.is_stateless(version) and (not version or revisions.revision(version).null_error_ids)
        return jsonrpc.encode_error(error.request_id, rendered, null_id=null_id)

    def status_of(self, error: HubError) -> int:
        if error.http_status is not None:
            return error.http_status
        if isinstance(error, ToolFailure):
            return 200  # the request was served; what it asked for failed
        return errors.HTTP_STATUS[getattr(error, "jsonrpc_code", errors.INTERNAL_ERROR)]

    def _hints(self, error: HubError) -> list[tuple[bytes, bytes]]:
        hints = []
        if (challenge := self.challenge(error)) is not None:
            hints.append((b"www-authenticate", challenge))
        if isinstance(error, MethodNotAllowed):
            hints.append((b"allow", ", ".join(self.allowed_methods).encode()))
        if error.retry_after_seconds is not None:
            hints.append((b"retry-after", b"%d" % max(1, round(error.retry_after_seconds))))
        if isinstance(error, PayloadTooLarge | BodyTimeout):
            hints.append((b"connection", b"close"))
        return hints

    def _cors(self) -> Headers:
        origin = self.verdict.origin if self.verdict is not None else None
        if origin is None:
            return ()
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", b"mcp-session-id, www-authenticate, retry-after"),
            (b"vary", b"Origin"),
        )

    def _preflight(self) -> list[tuple[bytes, bytes]]:
        asked = next((value for name, value in self.scope["headers"] if name == b"access-control-request-headers"), b"")
        return [
            (b"access-control-allow-methods", ", ".join(self.allowed_methods).encode()),
            (b"access-control-allow-headers", asked),
            (b"access-control-max-age", b"600"),
        ]
