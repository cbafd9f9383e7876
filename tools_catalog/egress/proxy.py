"""The operator's proxy, by which requests leave: how its address is read, and how it is asked for a way through.

It is asked for a tunnel to the address that was checked, never to a name that it would resolve again.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Self

import httpcore2
import httpx2

NAME = "The hub's proxy (MCPHUB_EGRESS_PROXY)"
"""How an error of it begins, where nothing was sent beyond."""
SILENT = f"{NAME} takes no connections."
_LARGEST_HEAD = 64 * 1024


@dataclass(frozen=True, slots=True)
class ProxyAddress:
    """`authorization` is a line of the head that names the hub to the proxy; empty where it needs no name."""

    host: str
    port: int
    is_tls: bool
    authorization: bytes = b""

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Read the setting; None where it names none."""
        if not text:
            return None
        url = httpx2.URL(text)
        line = b""
        if url.username:
            words = base64.b64encode(f"{url.username}:{url.password}".encode())
            line = b"Proxy-Authorization: Basic %b\r\n" % words
        is_tls = url.scheme == "https"
        return cls(url.raw_host.decode("ascii"), url.port or (443 if is_tls else 80), is_tls, line)

    def tunnel_request(self, host: str, port: int) -> bytes:
        """Return the request for a connection to this host."""
        there = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (there.encode(), there.encode(), self.authorization)


def refusal_of(status: int) -> str:
    """Return the refusal indicated by the status of a tunnel's response; empty for none."""
    if status == 407:
        return f"{NAME} refuses the hub's name and password."
    return "" if 200 <= status < 300 else f"{NAME} does not let the request through."


async def open_tunnel(
    stream: httpcore2.AsyncNetworkStream, proxy: ProxyAddress, host: str, port: int, timeout: float | None
) -> None:
    """Ask for a tunnel on a connection to the proxy. Raises httpcore2.ConnectError where it is refused."""
    await stream.write(proxy.tunnel_request(host, port), timeout)
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        # Byte by byte: what follows the head is the other side's, and there is no way to put it back.
        more = await stream.read(1, timeout)
        head += more
        if not more or len(head) > _LARGEST_HEAD:
            raise httpcore2.ConnectError(refusal_of(0))
    words = head.split(b" ", 2)
    status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
    if refused := refusal_of(status):
        raise httpcore2.ConnectError(refused)
