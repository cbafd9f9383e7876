"""A reverse tunnel as vendors have them: the agent beside the hub opens all connections, the relay listens in public.

    python -m tests.tunnel HUB_PORT

It prints the port of the relay. Bytes pass as they come in both directions; nothing is known of HTTP.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys

_IDLE = 8
"""Connections that the agent keeps open to the relay, for the next visitors."""
_BYTES = 64 * 1024


class Relay:
    """Pairs each visitor with a connection that the agent opened before."""

    def __init__(self) -> None:
        self._idle: asyncio.Queue[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = asyncio.Queue()

    async def agent_came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._idle.put((reader, writer))

    async def visitor_came(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await join((reader, writer), await self._idle.get())


class Agent:
    def __init__(self, relay_port: int, hub_port: int) -> None:
        self._relay_port, self._hub_port = relay_port, hub_port
        self._tasks: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Keep connections to the relay; each gets one to the hub with its visitor's first byte."""
        idle = asyncio.Semaphore(_IDLE)
        while True:
            await idle.acquire()
            task = asyncio.create_task(self._serve(idle))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _serve(self, idle: asyncio.Semaphore) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._relay_port)
        first = await reader.read(_BYTES)
        idle.release()
        if not first:
            writer.close()
            return
        hub = await asyncio.open_connection("127.0.0.1", self._hub_port)
        hub[1].write(first)
        await join((reader, writer), hub)


End = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def join(one: End, other: End) -> None:
    """Pass on bytes until both directions have ended."""
    await asyncio.gather(_pass_on(one[0], other[1]), _pass_on(other[0], one[1]))
    for _, writer in (one, other):
        writer.close()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while chunk := await reader.read(_BYTES):
            writer.write(chunk)
            await writer.drain()
        writer.write_eof()


async def main(hub_port: int) -> None:
    relay = Relay()
    inner = await asyncio.start_server(relay.agent_came, "127.0.0.1", 0)
    outer = await asyncio.start_server(relay.visitor_came, "127.0.0.1", 0)
    print(outer.sockets[0].getsockname()[1], flush=True)
    await Agent(inner.sockets[0].getsockname()[1], hub_port).run()


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
