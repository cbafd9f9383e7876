"""A plain balancer: each connection goes to the next machine that takes it; it knows nothing of sessions."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import threading
from collections.abc import Sequence

from tests.servers import free_port
from tests.waiting import PATIENCE_SECONDS


class Balancer:
    """Enter it: what connects to `url` is passed on to one of the ports."""

    def __init__(self, ports: Sequence[int]) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._ports = ports
        self._turns = itertools.count()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> Balancer:
        self._thread.start()
        listening = asyncio.start_server(self._pass_on, "127.0.0.1", self.port)
        asyncio.run_coroutine_threadsafe(listening, self._loop).result(PATIENCE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(_end_all(), self._loop).result(PATIENCE_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        first = next(self._turns)
        for number in range(len(self._ports)):
            with contextlib.suppress(OSError):
                port = self._ports[(first + number) % len(self._ports)]
                from_hub, to_hub = await asyncio.open_connection("127.0.0.1", port)
                await asyncio.gather(_copy(reader, to_hub), _copy(from_hub, writer))
                return
        writer.close()


async def _end_all() -> None:
    """End what is still passed on: clients have left connections open."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    with contextlib.suppress(OSError, RuntimeError):
        writer.close()
