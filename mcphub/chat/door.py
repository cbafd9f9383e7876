"""What every chat door does: the hub's own entrance, then errors as OpenAI's clients read them.

The HTTP of it (bodies within bounds, Host and Origin, who calls) is `HubConsumer`, as at every other door.
"""

from __future__ import annotations

import logging
import time
import uuid
from typing import Any

from django.conf import settings

from invocations import limits
from invocations.origin import Origin
from mcphub.chat import service
from mcphub.chat.errors import ChatError
from mcphub.transports.base import JSON, Headers, HubConsumer
from sessions_app.models import Transport
from sessions_app.protocol import json, sse
from sessions_app.protocol.errors import HubError, ParseError

logger = logging.getLogger(__name__)

TRANSPORT = Transport.CHAT.value


class ChatDoor(HubConsumer):
    """One request to a chat door. A subclass says in `answer` what it does; it may raise ChatError."""

    error_event: str | None = None
    """The name of the event that ends a stream with an error."""
    chat: service.Chat
    _drawn: limits.Drawn | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.began = time.monotonic()
        self.exchange_id = uuid.uuid4().hex
        """`x-request-id` of the answer."""
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
        if not settings.MCPHUB_CHAT_BURST:
            return
        quota = limits.Quota("chat", settings.MCPHUB_CHAT_BURST, 1 / settings.MCPHUB_CHAT_REFILL_SECONDS)
        client = limits.client_of(self.caller, self.client_address)
        self._drawn = drawn = await limits.draw(self.hub.ledger, client, quota)
        if drawn.wait_seconds > 0:
            raise ChatError(
                "RATE_LIMITED",
                f"{quota.capacity} questions may be asked at once, and one more every "
                f"{settings.MCPHUB_CHAT_REFILL_SECONDS:g} s. Try again in {drawn.retry_after_seconds} s.",
                retry_after=drawn.retry_after_seconds,
            )

    # Out -----------------------------------------------------------------------------------------

    def own_headers(self) -> list[tuple[bytes, bytes]]:
        took = int((time.monotonic() - self.began) * 1000)
        own = [(b"x-request-id", self.exchange_id.encode()), (b"openai-processing-ms", b"%d" % took)]
        if self._drawn is not None:
            told = self._drawn.headers()
            own += [(name.lower().encode(), value.encode()) for name, value in told.items() if name != "Retry-After"]
        return own

    async def give(self, value: Any, *, status: int = 200, headers: Headers = ()) -> None:
        """Answer a JSON value."""
        await self.respond(status, json.dumps(value), (JSON, *self.own_headers(), *headers))

    def error_body(self, error: ChatError) -> dict[str, Any]:
        return error.body()

    async def fail(self, error: ChatError) -> None:
        """Answer an error: with its status, or as the last event where a stream has begun."""
        if self.has_begun:
            await self.write(sse.frame(json.dumps(self.error_body(error)), event=self.error_event), last=True)
            return
        headers = [(b"x-should-retry", b"true" if error.should_retry else b"false")]
        if error.retry_after is not None:
            headers.append((b"retry-after", b"%d" % max(1, round(error.retry_after + 0.499))))
        if error.http_status == 401:
            headers.append((b"www-authenticate", b'Bearer realm="mcphub"'))
        await self.give(self.error_body(error), status=error.http_status, headers=headers)

    async def refuse(self, error: HubError) -> None:
        await self.fail(ChatError.of(error))
