"""Serves an application on a socket that listens, and prints `ready PORT` once requests are answered.

Who connects before waits, and is not refused; but a client has deadlines, and a busy machine starts a server slowly.
"""

from __future__ import annotations

import socket
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if sockets and not self.should_exit:
            print(f"ready {sockets[0].getsockname()[1]}", flush=True)


def serve(app: Any, listener: socket.socket, **options: Any) -> None:
    _Server(uvicorn.Config(app, log_level="warning", **options)).run([listener])
