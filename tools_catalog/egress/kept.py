"""When a kept connection may carry another request, and whether a request without an answer was ever received.

A server closes an idle connection when it likes, and never sees a request that crosses its closing. So a connection is
kept for less time than servers keep theirs; and where TCP shows that a request was not received, it is sent again.
"""

from __future__ import annotations

import re
import socket
import struct
from typing import Any, Final

IDLE_SECONDS: Final = 4.0
"""For a server that names no time of its own: several close after five seconds (uvicorn, Node.js, Apache)."""
LONGEST_IDLE_SECONDS: Final = 60.0
_EARLIER_SECONDS: Final = 1.0
"""Before the end that a server names: it counts from when it sent, and the request travels."""
_TIMEOUT = re.compile(r"(?:^|[,;\s])timeout\s*=\s*\"?(\d{1,9})", re.IGNORECASE)
_BYTES_ACKNOWLEDGED: Final = 120
"""Where `struct tcp_info` of Linux has `tcpi_bytes_acked`, of 64 bits."""


def idle_seconds(keep_alive: str | None) -> float:
    """Return how long a connection may be idle and be used again, from a response's `Keep-Alive` header."""
    found = _TIMEOUT.search(keep_alive or "")
    if found is None:
        return IDLE_SECONDS
    return min(LONGEST_IDLE_SECONDS, max(0.0, int(found[1]) - _EARLIER_SECONDS))


def acknowledged(connection: Any) -> int | None:
    """Return how many bytes the other side has acknowledged since the connection began; None where nobody knows.

    Zero counts as unknown: the bytes of an earlier request were received, so the system does not count.
    """
    if connection is None or not hasattr(socket, "TCP_INFO"):
        return None
    try:
        told = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_ACKNOWLEDGED + 8)
    except OSError:
        return None
    if len(told) < _BYTES_ACKNOWLEDGED + 8:
        return None
    return struct.unpack_from("=Q", told, _BYTES_ACKNOWLEDGED)[0] or None


def is_untaken(connection: Any, before: int | None) -> bool:
    """Return whether a request was surely not received. Ask where the other side has *ended* its stream without an
    answer.

    The end carries a count of what had been received when the server closed. If that is what it was `before` the
    request, nobody was left to read it. A reset carries no such count: there the request may have been taken.
    """
    return before is not None and acknowledged(connection) == before
