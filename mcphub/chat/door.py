"""What every chat door does: the hub's own entrance, then errors as OpenAI's clients read them.

The HTTP of it (bodies within bounds, Host and Origin, who calls) is `HubConsumer`, as at every other door.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator
from typing import Any

from django.conf import settings

from invocations.calling import IDEMPOTENCY_KEY
from invocations.limits import Drawn
from invocations.origin import Origin
from invocations.running import Errand
from mcphub.chat import allowance, service
from mcphub.chat.errors import ChatError
from mcphub.chat.turn import Turn
from mcphub.transports.base import JSON, Disconnected, Headers, HubConsumer
from sessions_app.models import Transport
from sessions_app.protocol import json, sse
from sessions_app.protocol.errors import HubError, MethodNotAllowed, ParseError

logger = logging.getLogger(__name__)

TRANSPORT = Transport.CHAT.value
_ALIVE_SECONDS = 15
"""A stream that says nothing for so long is sent a comment; the hub's own heartbeat may be quicker."""
_GRACE_SECONDS = 30
_STREAM = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-cache"),
    (b"x-accel-buffering", b"no"),
)


class ChatDoor(HubConsumer):
    """One request to a chat door. A subclass says in `answer` what it does; it may raise ChatError."""

    error_event: str | None = None
    """The name of the event that ends a stream with an error."""
    chat: service.Chat
    _drawn: Drawn | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began = time.monotonic()
        self.exchange_id = uuid.uuid4().hex
        """`x-request-id` of the answer."""
        self.more_headers: list[tuple[bytes, bytes]] = []
        """Of every answer, once there is something to tell."""
        self.has_ended = False
        """The stream has said its last."""
        self._wrote = self.began
        await super().__call__(scope, receive, send)

    async def handle(self) -> None:
        self.chat = await service.of(self.hub)
        try:
            self.caller.need("chat")
            await self.answer()
        except ChatError as error:
            await self.fail(error)

    async def answer(self) -> None:
        raise NotImplementedError

    # In ------------------------------------------------------------------------------------------

    async def read_object(self) -> dict[str, Any]:
        """Give the body, a JSON object; raise ChatError."""
        self.need_json()
        try:
            value = json.loads(await self.read_body())
        except ParseError as error:
            raise ChatError("INVALID_QUERY", error.message) from error
        if not isinstance(value, dict):
            raise ChatError("INVALID_QUERY", "The body must be a JSON object.")
        return value

    def header(self, name: bytes) -> str:
        """Give a header that is not among those of MCP; empty where it is absent."""
        return next((value.decode("latin-1") for key, value in self.scope["headers"] if key == name), "")

    async def origin(self) -> Origin:
        """Give where this request comes from, for the audit."""
        client_name = self.header(b"user-agent")[:200]
        session_id = await self.hub.sessions.implicit(self.caller, transport=TRANSPORT, client_name=client_name)
        return Origin(
            caller=self.caller, session_id=session_id, transport=TRANSPORT, client_name=client_name,
            client_address=self.client_address,
        )  # fmt: skip

    async def draw(self) -> None:
        """Let one question in; raise ChatError where the caller has asked too many. Every answer tells what is left."""
        self._drawn = await allowance.draw(self.hub.ledger, self.caller, self.client_address)
        allowance.check(self._drawn)

    def metadata(self) -> dict[str, Any]:
        """Give what is kept of the request with its question."""
        told = {
            "client_ip": self.client_address, "user_agent": self.header(b"user-agent")[:200],
            "retry": self.header(b"x-stainless-retry-count")[:10], "request_id": self.exchange_id,
        }  # fmt: skip
        return {name: value for name, value in told.items() if value}

    def idempotency_key(self) -> str | None:
        """Give the client's key of the turn, if it sent one; raise ChatError for one that cannot be."""
        key = self.headers.idempotency_key
        if key is not None and not IDEMPOTENCY_KEY.fullmatch(key):
            raise ChatError(
                "INVALID_QUERY", "Idempotency-Key has 1 to 255 visible ASCII characters, such as a UUID.",
                param="Idempotency-Key",
            )  # fmt: skip
        return key

    def retry_count(self) -> str:
        """Give how often the client has sent this request before, as its library counts; empty where it does not."""
        count = self.header(b"x-stainless-retry-count")
        return count if count.isdecimal() and count != "0" and len(count) < 4 else ""

    def request_id(self) -> str:
        """Give `x-request-id` as the audit keeps it with each call; a client's retry is marked as one."""
        count = self.retry_count()
        return f"{self.exchange_id} retry {count}" if count else self.exchange_id

    # Beside the client ---------------------------------------------------------------------------

    @contextlib.asynccontextmanager
    async def attended(self, turn: Turn) -> AsyncIterator[None]:
        """Run a turn beside a look-out for its client: one that goes cancels it, one that waits is sent signs of life.

        The turn counts as a call under way, so the hub's stop waits for it, and ends it when its time is over. Raises
        ChatError where the hub ends it, Disconnected where the client did.
        """
        running = self.hub.calls.running
        if len(running) >= settings.MCPHUB_MAX_CALLS:
            raise ChatError("SERVER_BUSY", "The hub is at its limit. Wait and try again.", retry_after=1)
        task = asyncio.current_task()
        assert task is not None
        models = [turn.choice.model, *turn.choice.fallbacks]
        seconds = turn.limits.seconds + sum(model.provider.total_seconds for model in models) + _GRACE_SECONDS
        errand = Errand(turn.origin, json.canonical(turn.turn_id), self.gone, seconds)
        errand.task = task
        running.add(errand)
        alive = asyncio.create_task(self._stay_alive(), name="mcphub-chat-alive") if turn.stream else None
        try:
            yield
        except asyncio.CancelledError:
            if not errand.interrupted:
                raise
            if errand.why == "timeout":
                raise ChatError("TIMEOUT", f"The turn did not end within {seconds:g} s.") from None
            if self.hub.is_draining:
                raise ChatError(
                    "SERVER_BUSY", "The hub stopped before the answer was there. Look in the audit, then try again.",
                    retry_after=1, should_retry=False,
                ) from None  # fmt: skip
            raise Disconnected from None
        finally:
            errand.task = None
            if errand.interrupted:
                task.uncancel()
            running.remove(errand)
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

    def elapsed_ms(self) -> int:
        return int((time.monotonic() - self.began) * 1000)

    def own_headers(self) -> list[tuple[bytes, bytes]]:
        own = [
            (b"x-request-id", self.exchange_id.encode()), (b"openai-processing-ms", b"%d" % self.elapsed_ms()),
            *self.more_headers,
        ]  # fmt: skip
        if self._drawn is not None:
            told = self._drawn.headers()
            own += [(name.lower().encode(), value.encode()) for name, value in told.items() if name != "Retry-After"]
        return own

    async def begin_stream(self, headers: Headers | None = None) -> None:
        """Begin an event stream, if that has not happened. Without `headers` it tells the door's own."""
        if self.has_begun:
            return
        self.has_begun = True
        out = [*_STREAM, *(self.own_headers() if headers is None else headers), *self._cors()]
        await self._send({"type": "http.response.start", "status": 200, "headers": out})

    async def write(self, chunk: bytes, *, last: bool = False) -> None:
        self._wrote = time.monotonic()
        self.has_ended = self.has_ended or last
        await super().write(chunk, last=last)

    async def give(self, value: Any, *, status: int = 200, headers: Headers = ()) -> None:
        """Answer a JSON value."""
        await self.respond(status, json.dumps(value), (JSON, *self.own_headers(), *headers))

    def error_body(self, error: ChatError) -> dict[str, Any]:
        return error.body()

    async def fail(self, error: ChatError) -> None:
        """Answer an error: with its status, or as the last event where a stream has begun."""
        error.say_as(self.hub.errors())
        if self.has_begun:
            if not self.has_ended:
                await self.write(sse.frame(json.dumps(self.error_body(error)), event=self.error_event), last=True)
            return
        headers = [(b"x-should-retry", b"true" if error.should_retry else b"false")]
        if error.retry_after is None and error.should_retry and error.http_status in (429, 503):
            error.retry_after = 1
        if error.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(error.retry_after + 0.499))))
        if error.http_status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="mcphub"'))
        await self.give(self.error_body(error), status=error.http_status, headers=headers)

    async def refuse(self, error: HubError) -> None:
        if isinstance(error, MethodNotAllowed):
            self.more_headers.append((b"allow", ", ".join(self.allowed_methods).encode()))
        await self.fail(ChatError.of(error))
