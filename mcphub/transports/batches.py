"""The response to an array of messages on `/mcp`: an array, or a stream with an event for each answer."""

from __future__ import annotations

import asyncio

from mcphub.server.resuming import CallStream
from mcphub.transports.base import HubConsumer
from mcphub.transports.responses import SessionResponse, StatelessResponse
from sessions_app.protocol import sse
from sessions_app.protocol.errors import HubError
from sessions_app.store import SessionView


class BatchResponse(SessionResponse):
    """Gathers the answers of a batch; once one of its requests sends a message first, all go on one stream."""

    __slots__ = ("_bodies", "_left")

    def __init__(self, consumer: HubConsumer, session: SessionView, answers: int) -> None:
        super().__init__(consumer, session)
        self._left = answers
        self._bodies: list[bytes] = []

    async def settle(self, body: bytes) -> None:
        """Take the answer of one part; the last one ends the answer of all."""
        self._left -= 1
        is_last = not self._left
        async with self._held():
            if not self._consumer.has_begun:
                self._bodies.append(body)
                if is_last:
                    await self._consumer.respond(200, b"[%b]" % b",".join(self._bodies))
                return
        await self._event(body, last=is_last)

    async def _begin(self) -> CallStream:
        stream: CallStream = await super()._begin()
        bodies, self._bodies = self._bodies, []
        for body in bodies:
            await self._consumer.write(sse.frame(body, id=stream.keep(body)))
        return stream


class BatchPartResponse(StatelessResponse):
    """The channel and the response of one request of a batch."""

    __slots__ = ("_batch",)

    def __init__(self, consumer: HubConsumer, batch: BatchResponse) -> None:
        super().__init__(consumer)
        self._batch = batch

    async def send(self, message: bytes) -> None:
        await self._batch.send(message)

    async def finish(self, body: bytes) -> None:
        await self._batch.settle(body)

    async def fail(self, error: HubError, status: int | None = None) -> None:
        await self._batch.settle(self._consumer.render(error))

    async def watch(self) -> None:
        """The batch watches for all of its parts; a client that goes cancels nothing."""
        await asyncio.Event().wait()
