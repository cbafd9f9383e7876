"""The connections of this process, and bounds on their data before a request begins.

uvicorn's parser takes heads of any size at any pace, and uvicorn any number of connections. Here a head has bounds in
bytes, lines and time, and connections have bounds together and by address. At a bound the connection that has waited
longest without a request goes; a request under way is never ended for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import Any, Final

from django.conf import settings

from mcphub.process import descriptors, runtime
from mcphub.process.coalescing import CoalescingProtocol
from mcphub.server import failures
from sessions_app.protocol import jsonrpc
from sessions_app.protocol.errors import BodyTimeout, HubError, PayloadTooLarge, ServerBusy

logger = logging.getLogger(__name__)

KEEP_ALIVE_SECONDS: Final = 30
"""How long an idle connection stays open; longer than the pauses of a chatting model. nginx takes 75."""
MOST_HEADERS: Final = 128
_TICK_SECONDS: Final = 0.5
Network = IPv4Network | IPv6Network


class HeadTooLarge(PayloadTooLarge):
    http_status = 431


class HeadTimeout(BodyTimeout):
    sentence = "The headers did not arrive in time. Send them at once."


class Connections:
    """All connections of the process. `start` it on the event loop."""

    def __init__(self, most: int, most_of_address: int, trusted: Sequence[Network] = ()) -> None:
        """Connections from `trusted` networks bring the requests of many clients, and have no bound by address."""
        self.most = most
        self.most_of_address = most_of_address
        self.head_bytes: int = settings.MCPHUB_MAX_HEADER_BYTES
        self.head_seconds: float = settings.MCPHUB_HEADER_TIMEOUT_SECONDS
        self._trusted = trusted
        self._open = 0
        self._by_address: Counter[str] = Counter()
        self._waiting: dict[HubProtocol, None] = {}
        """Those without a request under way, the longest first."""
        self._ended: Counter[str] = Counter()
        """Connections per address that ended or were rejected since the last log entry."""
        self._watcher: asyncio.Task[None] | None = None

    @classmethod
    def from_settings(cls) -> Connections:
        most = descriptors.most_connections()
        behind_proxy = settings.SECURE_PROXY_SSL_HEADER is not None
        of_address = settings.MCPHUB_MAX_CONNECTIONS_PER_ADDRESS or max(1, most // 2)
        trusted = [ip_network(network) for network in settings.MCPHUB_PROXIES] if behind_proxy else []
        return cls(most, of_address, trusted)

    def protocol(self, *given: object, **named: object) -> HubProtocol:
        """Make the protocol of one connection, as uvicorn asks for it."""
        return HubProtocol(self, *given, **named)

    def start(self) -> None:
        self._watcher = asyncio.create_task(self._watch(), name="mcphub-connections")

    async def stop(self) -> None:
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher

    def take(self, connection: HubProtocol) -> bool:
        """Count a new connection; False where there is no place for it."""
        address = connection.address
        is_full = self._open >= self.most and not self._end_oldest()
        if not is_full and self._by_address[address] >= self.most_of_address and not self._is_trusted(address):
            is_full = not self._end_oldest(address)
        if is_full:
            self._ended[address] += 1
            return False
        self._open += 1
        self._by_address[address] += 1
        self._waiting[connection] = None
        return True

    def give_back(self, connection: HubProtocol) -> None:
        self._waiting.pop(connection, None)
        self._open -= 1
        address = connection.address
        self._by_address[address] -= 1
        if not self._by_address[address]:
            del self._by_address[address]

    def began(self, connection: HubProtocol) -> None:
        """A request is under way on it."""
        self._waiting.pop(connection, None)

    def waits(self, connection: HubProtocol) -> None:
        """No request is under way on it any more."""
        self._waiting[connection] = None

    def _is_trusted(self, address: str) -> bool:
        try:
            known = ip_address(address)
        except ValueError:
            return False
        return any(known in network for network in self._trusted)

    def _end_oldest(self, address: str | None = None) -> bool:
        """End the connection that has waited longest, of `address` where one is named; False where none waits."""
        for connection in self._waiting:
            if address is None or connection.address == address:
                self._ended[connection.address] += 1
                connection.end()
                return True
        return False

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            now = time.monotonic()
            for connection in [one for one in self._waiting if one.head_until <= now]:
                connection.end_late()
            if self._ended:
                self._tell()

    def _tell(self) -> None:
        ended, self._ended = self._ended, Counter()
        worst = ", ".join(f"{count} of {address or 'an unknown address'}" for address, count in ended.most_common(3))
        logger.warning(
            "%s connections were closed or not taken, as too many are open (%s of at most %s; %s for one address): %s",
            ended.total(),
            self._open,
            self.most,
            self.most_of_address,
            worst,
        )


class HubProtocol(CoalescingProtocol):
    """One connection: uvicorn's HTTP/1.1 with the hub's bounds."""

    def __init__(self, connections: Connections, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        self.address = ""
        self.head_until = time.monotonic() + KEEP_ALIVE_SECONDS
        """When the head of the next request must be there (monotonic seconds)."""
        self._connections = connections
        self._is_taken = False
        self._is_in_head = False
        self._is_refused = False
        self._chunk_bytes = 0
        self._silent_bytes = 0
        """Received since the head began, or since the last part of a body: the data the parser may hold."""

    def connection_made(self, transport: object) -> None:
        super().connection_made(transport)
        self.address = self.client[0] if self.client else ""
        if self.server is not None and self.server[1] == (settings.MCPHUB_METRICS_PORT or None):
            return  # clients that take every place must not keep the probes out
        self._is_taken = self._connections.take(self)
        if not self._is_taken:
            self._refuse(ServerBusy("The hub has too many connections open. Try again in a moment."), 503)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._is_taken:
            self._is_taken = False
            self._connections.give_back(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        self._chunk_bytes = len(data)
        self._silent_bytes += len(data)
        super().data_received(data)
        # What came with the beginning of a head may be the end of something else: it counts from the next piece on.
        if self._silent_bytes > self._connections.head_bytes + self._chunk_bytes and not self._is_refused:
            self._refuse_head()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._is_in_head = True
        self._silent_bytes = 0
        self.head_until = time.monotonic() + self._connections.head_seconds

    def on_headers_complete(self) -> None:
        if self._is_refused:
            return
        self._is_in_head = False
        most = self._connections.head_bytes
        is_large = self._chunk_bytes > most or self._silent_bytes > most
        if len(self.headers) > MOST_HEADERS or (is_large and self._head_size() > most):
            self._refuse_head()
            return
        self._silent_bytes = 0
        self._connections.began(self)
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._silent_bytes = 0
        if not self._is_refused:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._silent_bytes = 0
        if not self._is_refused:
            super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.cycle.response_complete and self._is_taken:
            self.head_until = time.monotonic() + KEEP_ALIVE_SECONDS
            self._connections.waits(self)

    def end(self) -> None:
        """Close a connection that waits, to make room."""
        self._connections.began(self)
        self._is_refused = True
        self.transport.close()

    def end_late(self) -> None:
        """Close a connection whose next request is late; respond if it had begun."""
        self._connections.began(self)
        if self._is_in_head:
            self._refuse(HeadTimeout(), 408)
        else:
            self.end()

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) for name, value in self.headers)

    def _refuse_head(self) -> None:
        most = self._connections.head_bytes
        sentence = f"The headers are larger than {most} bytes, or more than {MOST_HEADERS}. Send less."
        self._refuse(HeadTooLarge(sentence, limit_bytes=most, limit_headers=MOST_HEADERS), 431)

    def _refuse(self, error: HubError, status: int) -> None:
        """Respond before a complete request exists, and close."""
        self._is_refused = True
        self._connections.began(self)
        hub = runtime.current()
        if self.cycle is None or self.cycle.response_complete:  # else an answer is under way
            body = (
                b""
                if hub is None
                else jsonrpc.encode_error(None, failures.error_object(hub.configuration.errors, error), null_id=True)
            )
            head = (
                b"HTTP/1.1 %d %b\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%bconnection: close\r\n\r\n"
            )
            again = b"retry-after: 1\r\n" if status == 503 else b""
            self.transport.write(head % (status, _PHRASES[status], len(body), again) + body)
        self.transport.close()


_PHRASES: Final = {408: b"Request Timeout", 431: b"Request Header Fields Too Large", 503: b"Service Unavailable"}
