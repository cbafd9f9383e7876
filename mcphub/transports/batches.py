"""The answer to an array of messages on `/mcp`: an array, or a stream with an event for each answer."""

from __future__ import annotations

import asyncio

from mcphub.server.resuming import CallStream
from mcphub.transports.answers import Answer, SessionAnswer
from mcphub.transports.base import HubConsumer
from sessions_app.protocol import sse
from sessions_app.protocol.errors import HubError
from sessions_app.store import SessionView


class BatchAnswer(SessionAnswer):
    """Gathers the answers of a batch; once one of its requests says something before, all go on one stream."""

    __slots__ = ("_bodies", "_left")

    def __init__(self, door: HubConsumer, session: SessionView, answers: int) -> None:
        super().__init__(door, session)
        self._left = answers
        self._bodies: list[bytes] = []

    async def settle(self, body: bytes) -> None:
        """Take the answer of one part; the last one ends the answer of all."""
        self._left -= 1
        is_last = not self._left
        async with self._held():
            if not self._door.has_begun:
                self._bodies.append(body)
                if is_last:
                    await self._door.respond(200, b"[%b]" % b",".join(self._bodies))
                return
        await self._event(body, last=is_last)

    async def _begin(self) -> CallStream:
        stream: CallStream = await super()._begin()
        bodies, self._bodies = self._bodies, []
        for body in bodies:
            await self._door.write(sse.frame(body, id=stream.keep(body)))
        return stream


class Part(Answer):
    """The voice and the answer of one request of a batch."""

    __slots__ = ("_batch",)

    def __init__(self, door: HubConsumer, batch: BatchAnswer) -> None:
        super().__init__(door)
        self._batch = batch

    async def send(self, message: bytes) -> None:
        await self._batch.send(message)

    async def finish(self, body: bytes) -> None:
        await self._batch.settle(body)

    async def fail(self, error: HubError, status: int | None = None) -> None:
        await self._batch.settle(self._door.render(error))

    async def watch(self) -> None:
        """The batch watches for all of its parts; a client that goes cancels nothing."""
        await asyncio.Event().wait()
