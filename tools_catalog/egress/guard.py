"""The guard of every request that the hub sends out: which addresses it may reach, and how.

A URL is looked at twice. `EgressPolicy.check_url` refuses forms that hide where they lead; `GuardedBackend` resolves
the name at connect time, refuses when any answer is not on the public internet, and connects to the very address it
looked at, so that a second DNS answer cannot differ. Both sit in the transport of `client()`: nothing that uses that
client can go round them, redirects included.
"""

from __future__ import annotations

import asyncio
import functools
import ipaddress
import socket
import ssl
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping
from contextlib import asynccontextmanager
from http.cookiejar import CookieJar, DefaultCookiePolicy
from typing import Any
from weakref import WeakKeyDictionary

import httpcore2
import httpx2

from sessions_app.protocol.errors import EgressRefused, UpstreamError
from tools_catalog.egress import kept, listed
from tools_catalog.egress import proxy as proxies
from tools_catalog.egress.hosts_and_networks import Address
from tools_catalog.egress.proxy import ProxyAddress
from tools_catalog.egress.rules import ALLOW, MAX_REDIRECTS, EgressPolicy, literal_address, parse

CONNECT_SECONDS = 10.0
POOL_CONNECTIONS = 200
KEEPALIVE_CONNECTIONS = 50
USER_AGENT = "mcphub"

RECEIVE_BUFFER = (socket.SOL_SOCKET, socket.SO_RCVBUF, 256 * 1024)
"""A socket option: the system's buffer for unread data (Linux doubles it).

Left alone it may take tens of megabytes a connection (`net.ipv4.tcp_rmem`), and an answer that is too large costs the
event loop several times the system time. At 50 ms to the other side some 5 MB a second still come through.
"""

PROXY = proxies.NAME

Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Gives the addresses of a host name, as text."""

_KEPT_ACROSS_ORIGINS = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})
"""Everything else that a tool's author wrote may be a credential."""


async def resolve_with_system(host: str, port: int) -> list[str]:
    """Ask the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(
    policy: EgressPolicy, host: str, port: int, resolve: Resolve = resolve_with_system
) -> list[Address]:
    """Return the addresses of a host, all of them allowed. Raises `EgressRefused`, `httpcore2.ConnectError`."""
    literal = literal_address(host.lower())
    if literal is not None:
        addresses = [literal]
    else:
        try:
            found = await resolve(host, port)
        except (OSError, UnicodeError) as exc:
            raise httpcore2.ConnectError("The name cannot be resolved.") from exc
        addresses = [ipaddress.ip_address(text) for text in found]
    for address in addresses:
        policy.check_address(address, host=host.lower(), port=port)
    return addresses


async def checked_targets(
    policy: EgressPolicy, host: str, port: int, resolve: Resolve, proxy: ProxyAddress | None
) -> list[str]:
    """Return the targets to connect to for a host, directly or through a proxy: its addresses, all of them checked.

    Through a proxy it is the name of a host that cannot be resolved here, where the operator lists it by its name.
    Raises `EgressRefused`, `httpcore2.ConnectError`.
    """
    try:
        return [str(address) for address in await checked_addresses(policy, host, port, resolve)]
    except httpcore2.ConnectError as exc:
        if proxy is None:
            raise
        policy.check_parsed(httpx2.URL(scheme="https", host=host, port=port))
        if policy.names_host(host.lower(), port):
            return [host]
        raise EgressRefused(
            f"'{host}' cannot be resolved here, so nobody knows where the hub's proxy would lead the request. "
            f"{ALLOW.words()}",
            host=host,
            port=port,
        ) from exc


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Return the TLS rules for outgoing connections: certificates are verified, nothing comes from the environment.

    One for the process: to read the list of authorities takes 20 to 50 ms, in which the event loop stands still, and
    most of a mebibyte, at each new connection of an upstream.
    """
    return httpx2.create_ssl_context(trust_env=False)


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Return an error and its causes."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections to checked addresses only. The name stays the one that TLS verifies."""

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        resolve: Resolve = resolve_with_system,
        inner: httpcore2.AsyncNetworkBackend | None = None,
        proxy: ProxyAddress | None = None,
    ) -> None:
        """With a `proxy`, which is the operator's own and not guarded, each connection is a tunnel through it."""
        self._policy = policy
        self._resolve = resolve
        self._inner = inner or httpcore2.AnyIOBackend()
        self._proxy = proxy

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            async with asyncio.timeout(timeout):
                targets = await checked_targets(self._policy, host, port, self._resolve, self._proxy)
                failure: Exception | None = None
                for target in targets:
                    try:
                        if self._proxy is not None:
                            return _Connected(await self._through(self._proxy, target, port, timeout, socket_options))
                        return _Connected(
                            await self._inner.connect_tcp(target, port, timeout, local_address, socket_options)
                        )
                    except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                        failure = exc
        except TimeoutError as exc:
            raise httpcore2.ConnectTimeout from exc
        raise failure or httpcore2.ConnectError("The name has no address.")

    async def _through(
        self,
        proxy: ProxyAddress,
        target: str,
        port: int,
        timeout: float | None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None,
    ) -> httpcore2.AsyncNetworkStream:
        try:
            made = await self._inner.connect_tcp(proxy.host, proxy.port, timeout, None, socket_options)
        except httpcore2.ConnectError as exc:
            raise httpcore2.ConnectError(proxies.SILENT) from exc
        stream: httpcore2.AsyncNetworkStream = _Connected(made)
        try:
            if proxy.is_tls:
                stream = await stream.start_tls(tls_context(), proxy.host, timeout)
            await proxies.open_tunnel(stream, proxy, target, port, timeout)
        except httpcore2.ConnectError as exc:
            await stream.aclose()
            raise exc if str(exc).startswith(PROXY) else httpcore2.ConnectError(proxies.SILENT) from exc
        except (httpcore2.ReadError, httpcore2.WriteError) as exc:
            await stream.aclose()
            raise httpcore2.ConnectError(proxies.refusal_of(0)) from exc
        except BaseException:
            await stream.aclose()
            raise
        return stream

    async def connect_unix_socket(self, *_: object, **__: object) -> httpcore2.AsyncNetworkStream:
        raise EgressRefused

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class _NotReceived(httpcore2.RemoteProtocolError):
    """A kept connection had been closed before the request came: it was surely not received."""


class _Connected(httpcore2.AsyncNetworkStream):
    """A connection that is used again only for as long as its server keeps it (`kept`).

    The head of a request leaves together with what follows: a second piece would meet the reset that answers the first
    one on a closed connection, and a reset hides whether the server had closed before.

    It also ends when its TLS handshake is cancelled; httpcore2 (2.16) ends it after errors only. Else whoever takes
    connections and stays silent would keep one open for each attempt.
    """

    def __init__(self, inner: httpcore2.AsyncNetworkStream) -> None:
        self._inner: httpcore2.AsyncNetworkStream = inner._inner if isinstance(inner, _Connected) else inner
        self.idle_seconds = kept.IDLE_SECONDS
        self._last_read = 0.0
        self._held = b""
        self._is_answered = True
        """Whether data came since something was written. What is written next begins a request."""
        self._acknowledged: int | None = None
        """Bytes that the other side had acknowledged before the request, if it is not the first of the connection."""
        self.aclose = self._inner.aclose  # type: ignore[method-assign]

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        if self._held:
            await self.write(b"", timeout)
        data = await self._inner.read(max_bytes, timeout)
        if data:
            self._last_read, self._is_answered, self._acknowledged = time.monotonic(), True, None
        elif not self._is_answered and kept.is_untaken(self._inner.get_extra_info("socket"), self._acknowledged):
            raise _NotReceived("The service had closed the connection before the request came.")
        return data

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:
        if self._is_answered:
            self._is_answered, self._held = False, buffer
            if self._last_read:
                self._acknowledged = kept.acknowledged(self._inner.get_extra_info("socket"))
            return
        held, self._held = self._held, b""
        if held or buffer:
            await self._inner.write(held + buffer, timeout)

    def get_extra_info(self, info: str) -> Any:
        # The pool asks an idle connection: one that has data is closed, and never used again.
        if info == "is_readable" and self._last_read and time.monotonic() >= self._last_read + self.idle_seconds:
            return True
        return self._inner.get_extra_info(info)

    async def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.AsyncNetworkStream:
        try:
            return _Connected(await self._inner.start_tls(ssl_context, server_hostname, timeout))
        except asyncio.CancelledError:
            await self._inner.aclose()
            raise


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's transport over a pool with guarded connections."""

    def __init__(self, policy: EgressPolicy, backend: GuardedBackend, connections: int = POOL_CONNECTIONS) -> None:
        context = tls_context()
        super().__init__(verify=context, trust_env=False)
        self._policy = policy
        self._backend, self._connections, self._tls = backend, connections, context
        self._generation = listed.generation
        self._retired: list[httpcore2.AsyncConnectionPool] = []
        # httpx2 has no argument for the network backend (2.16); its pool is replaced before first use.
        self._pool = self._pooled()

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        if self._generation != listed.generation:
            await self._begin_anew()
        self._policy.check_parsed(request.url)
        while True:  # at most once for each kept connection
            try:
                response = await super().handle_async_request(request)
                break
            except httpx2.RemoteProtocolError as error:
                if not (isinstance(error.__cause__, _NotReceived) and isinstance(request.stream, httpx2.ByteStream)):
                    raise
        connection = response.extensions.get("network_stream")
        if isinstance(connection, _Connected):
            connection.idle_seconds = kept.idle_seconds(response.headers.get("keep-alive"))
        return response

    async def aclose(self) -> None:
        for pool in self._retired:
            await pool.aclose()
        await super().aclose()

    async def _begin_anew(self) -> None:
        """Make no further request on connections that were opened under another list of hosts."""
        self._generation = listed.generation
        self._retired.append(self._pool)
        self._pool = self._pooled()
        # One with a request under way is closed at a later change, or with the client.
        idle = [pool for pool in self._retired if all(each.is_idle() for each in pool.connections)]
        self._retired = [pool for pool in self._retired if pool not in idle]
        for pool in idle:
            await pool.aclose()

    def _pooled(self) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(
            network_backend=self._backend,
            ssl_context=self._tls,
            max_connections=self._connections,
            max_keepalive_connections=KEEPALIVE_CONNECTIONS,
            keepalive_expiry=kept.LONGEST_IDLE_SECONDS,
            socket_options=[RECEIVE_BUFFER],
        )


def client(
    policy: EgressPolicy | None = None,
    *,
    timeout_seconds: float = 30.0,
    resolve: Resolve = resolve_with_system,
    inner: httpcore2.AsyncNetworkBackend | None = None,
    wrap: Callable[[httpx2.AsyncBaseTransport], httpx2.AsyncBaseTransport] | None = None,
    connections: int = POOL_CONNECTIONS,
    proxy: str | None = None,
) -> httpx2.AsyncClient:
    """Return a guarded, pooled client without cookies, or anything from the environment of other programs.

    Without a policy those of the settings hold, their proxy too.

    It does not follow redirects by itself; `stream` does. Whoever asks for one closes it. `wrap` may put a
    transport of its own around the guarded one.
    """
    if proxy is None:
        proxy = "" if policy is not None else proxy_of_settings()
    policy = policy or EgressPolicy.from_settings()
    transport: httpx2.AsyncBaseTransport = GuardedTransport(
        policy, GuardedBackend(policy, resolve=resolve, inner=inner, proxy=ProxyAddress.parse(proxy)), connections
    )
    return httpx2.AsyncClient(
        transport=wrap(transport) if wrap is not None else transport,
        timeout=httpx2.Timeout(timeout_seconds, connect=min(CONNECT_SECONDS, timeout_seconds)),
        # One caller's cookies must not reach the next caller's request.
        cookies=CookieJar(DefaultCookiePolicy(allowed_domains=())),
        headers={"User-Agent": USER_AGENT},
        trust_env=False,
        follow_redirects=False,
    )


def proxy_of_settings() -> str:
    """Return the address of the proxy that requests leave through, or nothing."""
    from django.conf import settings

    return str(settings.MCPHUB_EGRESS_PROXY)


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()


def shared_client() -> httpx2.AsyncClient:
    """Return the one warm client of the running loop, under the policy of the settings."""
    loop = asyncio.get_running_loop()
    found = _clients.get(loop)
    if found is None or found.is_closed:
        found = _clients[loop] = client()
    return found


async def close_shared_client() -> None:
    """Close the running loop's client; the next `shared_client()` makes a new one."""
    found = _clients.pop(asyncio.get_running_loop(), None)
    if found is not None:
        await found.aclose()


@asynccontextmanager
async def stream(
    using: httpx2.AsyncClient,
    method: str,
    url: str | httpx2.URL,
    *,
    headers: Mapping[str, str] | None = None,
    content: bytes | None = None,
    max_redirects: int = MAX_REDIRECTS,
    timeout: httpx2.Timeout | None = None,
) -> AsyncIterator[httpx2.Response]:
    """Send a request, follow its redirects, give the last response with its body unread.

    Each hop is guarded like the first. At another origin every header that could be a credential is left
    behind, a body is not sent at all, and https never becomes http: those raise `EgressRefused`.
    """
    here = parse(url) if isinstance(url, str) else url
    sent = dict(headers or {})
    for _ in range(max_redirects + 1):
        request = using.build_request(method, here, headers=sent, content=content, timeout=timeout or using.timeout)
        response = await using.send(request, stream=True)
        try:
            if not response.has_redirect_location:
                yield response
                return
            there = _target(here, response.headers["location"])
            if response.status_code == 303 or (response.status_code in (301, 302) and method == "POST"):
                method, content = ("HEAD" if method == "HEAD" else "GET"), None
                sent = {name: value for name, value in sent.items() if not name.lower().startswith("content-")}
        finally:
            await response.aclose()
        if _origin(there) != _origin(here):
            if here.scheme == "https" and there.scheme != "https":
                raise EgressRefused("The service redirects from https to http, which is not followed.")
            if content is not None:
                raise EgressRefused("The service redirects a request with a body to another origin.")
            sent = {name: value for name, value in sent.items() if name.lower() in _KEPT_ACROSS_ORIGINS}
        here = there
    raise UpstreamError(f"The service redirects more than {max_redirects} times.")


def _target(here: httpx2.URL, location: str) -> httpx2.URL:
    return here.join(parse(location)).copy_with(fragment=None)


def _origin(url: httpx2.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port
