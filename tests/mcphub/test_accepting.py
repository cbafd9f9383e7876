"""How many connections a process accepts in a turn of its event loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct

import uvloop

from mcphub.process.serve import handles_of
from tests.servers import until

CLIENTS = 60


def waiting(listener: socket.socket) -> int:
    """Return how many connections can be accepted: `tcpi_unacked` of a listener's TCP_INFO."""
    information = listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 28)
    found: int = struct.unpack_from("I", information, 24)[0]
    return found


async def turns_until_all_are_accepted(listener: socket.socket) -> int:
    """Count the turns of the loop in which connections that all wait already are accepted."""
    accepted = 0

    class Accepted(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            nonlocal accepted
            accepted += 1
            transport.close()

    with contextlib.ExitStack() as stack:
        loop = asyncio.get_running_loop()
        servers = [await loop.create_server(Accepted, sock=each) for each in handles_of(listener)]
        for _ in range(CLIENTS):
            client = stack.enter_context(socket.socket())
            client.connect(listener.getsockname())
        until(lambda: waiting(listener) == CLIENTS)  # the kernel may be late with its side of some
        turns = 0
        while accepted < CLIENTS:
            await asyncio.sleep(0)
            turns += 1
        for server in servers:
            server.close()
        return turns


def test_many_new_connections_are_accepted_in_one_turn():
    with socket.socket() as listener:
        listener.setblocking(False)
        listener.bind(("127.0.0.1", 0))
        listener.listen(CLIENTS)
        assert uvloop.run(turns_until_all_are_accepted(listener)) < CLIENTS / 2
