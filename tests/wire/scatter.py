"""A way to a hub that ends each connection after one request, so that any worker may get the next."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Iterator
from urllib.parse import urlsplit

from tests.waiting import PATIENCE_SECONDS


@contextlib.contextmanager
def scattered(url: str) -> Iterator[str]:
    """Return the address that stands for `url`."""
    parts = urlsplit(url)

    async def pass_on(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(OSError):
                while chunk := await source.read(65536):
                    sink.write(chunk)
                    await sink.drain()
        finally:
            sink.close()

    async def serve(client: asyncio.StreamReader, answer: asyncio.StreamWriter) -> None:
        with contextlib.closing(answer), contextlib.suppress(asyncio.CancelledError):  # by `end`, at the end
            try:
                head = await client.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, OSError):
                return
            head = re.sub(rb"(?im)^connection:.*\r\n", b"", head)
            hub, request = await asyncio.open_connection(parts.hostname, parts.port)
            request.write(head[:-2] + b"Connection: close\r\n\r\n")
            await asyncio.gather(pass_on(client, request), pass_on(hub, answer))

    async def end() -> None:
        server.close()
        open_yet = asyncio.all_tasks() - {asyncio.current_task()}
        for task in open_yet:
            task.cancel()
        await asyncio.gather(*open_yet, return_exceptions=True)
        await asyncio.sleep(0)  # sockets that were closed are let go a step later

    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(serve, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_SECONDS)
        loop.run_until_complete(end())
        loop.close()
