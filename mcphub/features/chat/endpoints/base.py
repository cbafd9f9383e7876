"""Common to chat endpoints: admission as in `HubConsumer`, and errors in the form of OpenAI's clients."""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Mapping

from django.conf import settings

from invocations.call.running import UnrecordedWork
from invocations.calling import IDEMPOTENCY_KEY
from invocations.ledger.limits import Drawn
from mcphub.features.chat import rate_limit, service
from mcphub.features.chat.engine.events import TurnFinished
from mcphub.features.chat.engine.turn import Turn, TurnSource
from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.models.conversations import Query
from mcphub.server import failures
from mcphub.transports.base import JSON, Disconnected, Headers, HubConsumer
from sessions_app.protocol import json, sse
from sessions_app.protocol.errors import HubError, MethodNotAllowed, ParseError, ServerBusy
from sessions_app.protocol.json import Json

_ALIVE_SECONDS = 15
"""A stream that is silent for so long is sent a comment; the hub's own heartbeat may be quicker."""
_GRACE_SECONDS = 5
"""The engine keeps the turn's time itself; only code stuck elsewhere is ended after it."""
_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class ChatEndpoint(HubConsumer):
    """One request to a chat endpoint. A subclass implements `answer`; it may raise ChatError."""

    scope_needed: str = "chat"
    """The scope that the key needs; unused if no caller is needed."""
    error_event: str | None = None
    """The name of the event that ends a stream with an error."""
    error_kind = b"application/json"
    chat: service.Chat

    def __init__(self) -> None:
        self.began = self._wrote = time.monotonic()
        self.exchange_id = uuid.uuid4().hex
        """`x-request-id` of the response."""
        self.more_headers: list[tuple[bytes, bytes]] = []
        """Added to every response, once known."""
        self.has_ended = False
        """The stream has its last event."""
        self._drawn: Drawn | None = None

    async def handle(self) -> None:
        self.chat = await service.of(self.hub)
        try:
            if self.needs_caller:
                self.caller.need(self.scope_needed)
            await self.answer()
        except ChatError as error:
            await self.fail(error)

    async def answer(self) -> None:
        raise NotImplementedError

    # In ------------------------------------------------------------------------------------------

    async def read_object(self) -> dict[str, Json]:
        """Return the body, a JSON object; raise ChatError."""
        try:
            value = await self.read_json()
        except ParseError as error:
            raise ChatError("INVALID_QUERY", error.message) from error
        if not isinstance(value, dict):
            raise ChatError("INVALID_QUERY", "The body must be a JSON object.")
        return value

    def header(self, name: bytes) -> str:
        """Return a header that is not among those of MCP; empty where it is absent."""
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == name), "")

    async def draw(self) -> None:
        """Let one question in; raise ChatError where the caller has asked too many. Headers report the remaining
        number.
        """
        self._drawn = await rate_limit.draw(self.hub.ledger, self.caller, self.client_address)
        rate_limit.check(self._drawn)

    async def turn_source(
        self, entry_point: Query.EntryPoint, metadata: Mapping[str, Json] | None = None
    ) -> TurnSource:
        """Return the caller, and the stored facts about the request; raise ChatError for an invalid idempotency key."""
        client_name = self.header(b"user-agent")[:200]
        retry = self.header(b"x-stainless-retry-count")[:10]
        is_retry = retry.isdecimal() and retry != "0" and len(retry) < 4
        own = {
            "client_ip": self.client_address,
            "user_agent": client_name,
            "retry": retry,
            "request_id": self.exchange_id,
        }
        key = self.headers.idempotency_key
        if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
            raise invalid("Idempotency-Key", "Idempotency-Key has 1 to 255 visible ASCII characters, such as a UUID.")
        return TurnSource(
            call=await service.call_source(
                self.hub, self.caller, client_name=client_name, client_address=self.client_address
            ),
            entry_point=entry_point.value,
            metadata={**(metadata or {}), **{name: value for name, value in own.items() if value}},
            idempotency_key=key,
            # The audit marks what the client's library sent again.
            request_id=f"{self.exchange_id} retry {retry}" if is_retry else self.exchange_id,
        )

    # Beside the client ---------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def attended(self, turn: Turn) -> AsyncIterator[None]:
        """Run a turn and watch its client: a client that goes cancels the turn, one that waits is sent signs of life.

        The turn counts as a call under way, so the hub's stop waits for it, and ends it when its time is over. Raises
        ChatError where the hub ends it, Disconnected where the client did.
        """
        running = self.hub.calls.running
        try:
            running.admit(turn.source.call.caller.principal)
        except ServerBusy as busy:
            raise ChatError("SERVER_BUSY", str(busy), retry_after=1) from busy
        task = asyncio.current_task()
        assert task is not None
        seconds = turn.limits.seconds + _GRACE_SECONDS
        work = UnrecordedWork(turn.source.call, json.canonical(str(turn.id)), self.gone, seconds)
        work.task = task
        running.add(work)
        alive = asyncio.create_task(self._stay_alive(), name="mcphub-chat-alive") if turn.stream else None
        try:
            yield
        except asyncio.CancelledError:
            if not work.interrupted:
                raise
            if work.why == "timeout":
                raise ChatError("TIMEOUT", f"The turn did not end within {seconds:g} s.") from None
            if self.hub.is_draining:
                raise ChatError(
                    "SERVER_BUSY",
                    "The hub stopped before the answer was there. Look in the audit, then try again.",
                    retry_after=1,
                    should_retry=False,
                ) from None
            raise Disconnected from None
        finally:
            work.task = None
            if work.interrupted:
                task.uncancel()
            running.remove(work)
            if alive is not None:
                alive.cancel()

    async def _stay_alive(self) -> None:
        """Send a comment whenever a stream has been silent for a while."""
        pause = min(_ALIVE_SECONDS, settings.MCPHUB_HEARTBEAT_SECONDS)
        while True:
            await asyncio.sleep(max(0.05, self._wrote + pause - time.monotonic()))
            if time.monotonic() - self._wrote >= pause and not self.has_ended:
                await self.begin_stream()
                await self.write(sse.comment("working"))

    # Out -----------------------------------------------------------------------------------------

    def extension(self, turn: Turn, event: TurnFinished, ignored: list[str]) -> dict[str, Json]:
        """Return `x_mcp` of OpenAI's wire: the hub's part in the answer. `ignored`: parameters that the hub does not
        know."""
        found: dict[str, Json] = {
            "turn_id": str(turn.id),
            "provider_used": event.provider,
            "model": event.model,
            "duration_ms": int((time.monotonic() - self.began) * 1000),
            "rounds": event.rounds,
            "invocations": event.invocation_ids,
        }
        more = {
            "session_id": turn.session_id,
            "stop_reason": event.stop_reason,
            "functions": event.functions,
            "tools_left_out": [{"tool": tool, "reason": reason} for tool, reason in event.left_out.items()],
            "notices": event.notices,
            "ignored": ignored,
            "quotas": event.quotas,
        }
        return found | {name: value for name, value in more.items() if value}

    def own_headers(self) -> list[tuple[bytes, bytes]]:
        own = [
            (b"x-request-id", self.exchange_id.encode()),
            (b"openai-processing-ms", b"%d" % ((time.monotonic() - self.began) * 1000)),
            *self.more_headers,
        ]
        if self._drawn is not None:
            limits = self._drawn.headers()
            own += [(name.lower().encode(), value.encode()) for name, value in limits.items() if name != "Retry-After"]
        return own

    async def begin_stream(self, headers: Headers | None = None) -> None:
        """Begin an event stream, if that has not happened. Without `headers` it has the endpoint's own."""
        if self.has_begun:
            return
        self.has_begun = True
        out = [*_STREAM, *(self.own_headers() if headers is None else headers), *self._cors()]
        await self._send({"type": "http.response.start", "status": 200, "headers": out})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        self._wrote = time.monotonic()
        self.has_ended = self.has_ended or last
        await super().write(chunk, last=last)

    async def respond_json(self, value: Json, *, status: int = 200, headers: Headers = ()) -> None:
        """Answer a JSON value."""
        await self.respond(status, json.dumps(value), (JSON, *self.own_headers(), *headers))

    def error_body(self, error: ChatError) -> dict[str, Json]:
        return error.body()

    async def fail(self, error: ChatError) -> None:
        """Answer an error: with its status, or as the last event where a stream has begun."""
        error.apply_mapping(self.hub.configuration.errors)
        failures.log("An error was answered", error.code, self.exchange_id)
        if self.has_begun:
            if not self.has_ended:
                await self.write(sse.frame(json.dumps(self.error_body(error)), event=self.error_event), last=True)
            return
        headers = [(b"x-should-retry", b"true" if error.should_retry else b"false")]
        if error.retry_after is None and error.should_retry and error.http_status in (429, 503):
            error.retry_after = 1
        if error.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(error.retry_after + 0.499))))
        headers += [(b"content-type", self.error_kind), *self.own_headers()]
        await self.respond(error.http_status, json.dumps(self.error_body(error)), headers)

    async def refuse(self, error: HubError) -> None:
        if isinstance(error, MethodNotAllowed):
            self.more_headers.append((b"allow", ", ".join(self.allowed_methods).encode()))
        if (challenge := self.challenge(error)) is not None:
            self.more_headers.append((b"www-authenticate", challenge))
        await self.fail(ChatError.of(error))
