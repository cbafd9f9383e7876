"""The operator's proxy, by which requests leave: how its address is read, and how it is asked for a way through."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Self

import httpx2


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
        """Give the request for a connection to this host."""
        there = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        return b"CONNECT %b HTTP/1.1\r\nHost: %b\r\n%b\r\n" % (there.encode(), there.encode(), self.authorization)
