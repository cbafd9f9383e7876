"""The guard of every request that the hub sends out: which addresses it may reach, and how.

A URL is looked at twice. `EgressPolicy.check_url` refuses forms that hide where they lead; `GuardedBackend`
resolves the name at connect time, refuses when any answer is not on the public internet, and connects to the
very address it looked at, so that a second DNS answer cannot differ. Both sit in the transport of `client()`:
nothing that uses that client can go round them, redirects included.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import re
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookiejar import CookieJar, DefaultCookiePolicy
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network
from typing import Any
from weakref import WeakKeyDictionary

import httpcore2
import httpx2

from sessions_app.protocol.errors import EgressRefused, UpstreamError

MAX_REDIRECTS = 5
CONNECT_SECONDS = 10.0
POOL_CONNECTIONS = 200
KEEPALIVE_CONNECTIONS = 50
KEEPALIVE_SECONDS = 60.0
USER_AGENT = "mcphub"

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Gives the addresses of a host name, as text."""

# Beyond what `ipaddress` calls global or not. IPv4: translation and relay ranges, and two clouds' metadata
# and host services that live on addresses of public or shared ranges.
# fmt: off
_CLOSED_V4 = tuple(map(IPv4Network, (
    "0.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "168.63.129.16/32", "169.254.0.0/16", "192.0.0.0/24",
    "192.88.99.0/24", "198.18.0.0/15", "224.0.0.0/4", "240.0.0.0/4",
)))
# IPv6: ranges inside or outside 2000::/3 that carry an IPv4 address or lead to no public host.
_CLOSED_V6 = tuple(map(IPv6Network, (
    "::/96", "64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16",
    "3fff::/20", "5f00::/16", "fc00::/7", "fe80::/10", "fec0::/10", "ff00::/8",
)))
# fmt: on
_GLOBAL_UNICAST = IPv6Network("2000::/3")
_METADATA = frozenset(
    ipaddress.ip_address(text)
    for text in ("169.254.169.254", "169.254.170.2", "100.100.100.200", "168.63.129.16", "fd00:ec2::254")
)
"""Closed to an allowed host *name*; only an allowed address or network opens them."""

_UNSAFE = re.compile(r"[\x00-\x20\x7f-\x9f\\]")
_NUMERIC_LABEL = re.compile(r"^(0[xX][0-9a-fA-F]*|[0-9]+)\Z")
_HOST = re.compile(r"^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?\Z")
_KEPT_ACROSS_ORIGINS = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})
"""Everything else that a tool's author wrote may be a credential."""


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Where requests may go. Public addresses always; others only when `allow` names them.

    An entry of `allow` is a host, an address, a network (`10.0.0.0/8`), or host or address with a port
    (`[::1]:8080`). A malformed entry raises ValueError.
    """

    allow: tuple[str, ...] = ()
    schemes: tuple[str, ...] = ("http", "https")
    max_redirects: int = MAX_REDIRECTS
    _networks: tuple[tuple[IPv4Network | IPv6Network, int | None], ...] = field(init=False, repr=False)
    _hosts: frozenset[tuple[str, int | None]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        networks: list[tuple[IPv4Network | IPv6Network, int | None]] = []
        hosts: set[tuple[str, int | None]] = set()
        for entry in self.allow:
            host, port = _split_entry(entry)
            try:
                networks.append((ipaddress.ip_network(host), port))
            except ValueError as exc:
                if not _HOST.match(host) or _NUMERIC_LABEL.match(host.rpartition(".")[2]):
                    raise ValueError(f"MCPHUB_EGRESS_ALLOW: '{entry}' is not a host, an address or a network.") from exc
                hosts.add((host.lower(), port))
        object.__setattr__(self, "_networks", tuple(networks))
        object.__setattr__(self, "_hosts", frozenset(hosts))

    @classmethod
    def from_settings(cls) -> EgressPolicy:
        from django.conf import settings

        return cls(allow=tuple(settings.MCPHUB_EGRESS_ALLOW))

    def check_url(self, url: str) -> None:
        """Raise `EgressRefused` for a URL that leads, or hides that it leads, where it must not.

        Names are not resolved here: that happens when the connection is made.
        """
        self._check_parsed(_parse(url))

    def _check_parsed(self, url: httpx2.URL) -> None:
        if url.scheme not in self.schemes:
            raise EgressRefused(f"Only {' and '.join(self.schemes)} URLs can be requested.")
        if url.userinfo:
            raise EgressRefused("The URL contains a user name or password. Remove it.")
        port = url.port if url.port is not None else {"http": 80, "https": 443}.get(url.scheme, 0)
        if not 0 < port < 65536:
            raise EgressRefused("The port of the URL is not valid.")
        host = url.raw_host.decode("ascii").lower()
        address = _literal(host)
        if address is not None:
            self.check_address(address, host=host, port=port)
        elif (host == "localhost" or host.endswith(".localhost")) and not self._allows_host(host, port):
            raise _refusal(host, port)

    def check_address(self, address: Address, *, host: str, port: int) -> None:
        """Raise `EgressRefused` unless `address` is public, or is allowed by itself or through `host`."""
        if is_public(address):
            return
        for network, allowed_port in self._networks:
            if allowed_port in (None, port) and address in network:
                return
        if self._allows_host(host, port) and address not in _METADATA:
            return
        raise _refusal(host, port)

    def _allows_host(self, host: str, port: int) -> bool:
        return (host, None) in self._hosts or (host, port) in self._hosts


def is_public(address: Address) -> bool:
    """Whether an address is one host of the public internet, with every disguise taken off."""
    if isinstance(address, IPv6Address):
        if address.scope_id is not None:
            return False
        if address.ipv4_mapped is not None:
            return is_public(address.ipv4_mapped)
        return (
            address in _GLOBAL_UNICAST and address.is_global and not any(address in network for network in _CLOSED_V6)
        )
    return address.is_global and not address.is_multicast and not any(address in network for network in _CLOSED_V4)


async def resolve_with_system(host: str, port: int) -> list[str]:
    """Ask the system's resolver."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


async def checked_addresses(
    policy: EgressPolicy, host: str, port: int, resolve: Resolve = resolve_with_system
) -> list[Address]:
    """Give the addresses of a host, all of them allowed. Raises `EgressRefused`, `httpcore2.ConnectError`."""
    literal = _literal(host.lower())
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


@functools.cache
def tls_context() -> ssl.SSLContext:
    """Give the rules of TLS for what is sent out: certificates are verified, nothing comes from the environment.

    One for the process: to read the list of authorities takes 20 to 50 ms, in which the event loop stands still, and
    most of a mebibyte, at each new connection of an upstream.
    """
    return httpx2.create_ssl_context(trust_env=False)


class GuardedBackend(httpcore2.AsyncNetworkBackend):
    """Opens connections to checked addresses only. The name stays the one that TLS verifies."""

    def __init__(
        self,
        policy: EgressPolicy,
        *,
        resolve: Resolve = resolve_with_system,
        inner: httpcore2.AsyncNetworkBackend | None = None,
    ) -> None:
        self._policy = policy
        self._resolve = resolve
        self._inner = inner or httpcore2.AnyIOBackend()

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
                addresses = await checked_addresses(self._policy, host, port, self._resolve)
                failure: Exception | None = None
                for address in addresses:
                    try:
                        return await self._inner.connect_tcp(str(address), port, timeout, local_address, socket_options)
                    except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as exc:
                        failure = exc
        except TimeoutError as exc:
            raise httpcore2.ConnectTimeout from exc
        raise failure or httpcore2.ConnectError("The name has no address.")

    async def check_name(self, url: httpx2.URL) -> None:
        """Raise EgressRefused for a name that leads inside, as far as is known here."""
        port = url.port or {"http": 80, "https": 443}[url.scheme]
        with contextlib.suppress(httpcore2.ConnectError):
            await checked_addresses(self._policy, url.raw_host.decode("ascii"), port, self._resolve)

    async def connect_unix_socket(self, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        raise EgressRefused

    async def sleep(self, seconds: float) -> None:
        await self._inner.sleep(seconds)


class GuardedTransport(httpx2.AsyncHTTPTransport):
    """httpx2's transport over a pool whose connections are guarded.

    Through a `proxy`, which is the operator's own and not guarded, a name is looked at where it can be resolved here.
    """

    def __init__(
        self, policy: EgressPolicy, backend: GuardedBackend, connections: int = POOL_CONNECTIONS, proxy: str = ""
    ) -> None:
        context = tls_context()
        super().__init__(verify=context, trust_env=False)
        self._policy = policy
        self._backend = backend
        self._proxied = bool(proxy)
        limits: dict[str, Any] = {
            "ssl_context": context,
            "max_connections": connections,
            "max_keepalive_connections": KEEPALIVE_CONNECTIONS,
            "keepalive_expiry": KEEPALIVE_SECONDS,
        }
        # httpx2 has no argument for the network backend (2.16); its pool is replaced before first use.
        self._pool = (
            _through(proxy, limits) if proxy else httpcore2.AsyncConnectionPool(network_backend=backend, **limits)
        )

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self._policy._check_parsed(request.url)
        if self._proxied:
            await self._backend.check_name(request.url)
        return await super().handle_async_request(request)


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
    """Give a guarded, pooled client without cookies, or anything from the environment of other programs.

    Without a policy those of the settings hold, their proxy too.

    It does not follow redirects by itself; `stream` does. Whoever asks for one closes it. `wrap` may put a
    transport of its own around the guarded one.
    """
    if proxy is None:
        proxy = "" if policy is not None else proxy_of_settings()
    policy = policy or EgressPolicy.from_settings()
    transport: httpx2.AsyncBaseTransport = GuardedTransport(
        policy, GuardedBackend(policy, resolve=resolve, inner=inner), connections, proxy
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
    """Give the address of the proxy that requests leave through, or nothing."""
    from django.conf import settings

    return str(settings.MCPHUB_EGRESS_PROXY)


def _through(proxy: str, limits: dict[str, Any]) -> httpcore2.AsyncHTTPProxy:
    address = httpx2.URL(proxy)
    auth = (address.username, address.password) if address.username else None
    bare = address.copy_with(username=None, password=None)
    return httpcore2.AsyncHTTPProxy(proxy_url=str(bare), proxy_auth=auth, **limits)


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, httpx2.AsyncClient] = WeakKeyDictionary()


def shared_client() -> httpx2.AsyncClient:
    """Give the one warm client of the running loop, under the policy of the settings."""
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
    here = _parse(url) if isinstance(url, str) else url
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


def _parse(url: str) -> httpx2.URL:
    # httpx2 would encode or drop these; another reader of the same text might not.
    if _UNSAFE.search(url):
        raise EgressRefused("The URL contains spaces, control characters or backslashes.")
    try:
        return httpx2.URL(url)
    except httpx2.InvalidURL as exc:
        raise EgressRefused("The URL is not valid.") from exc


def _target(here: httpx2.URL, location: str) -> httpx2.URL:
    return here.join(_parse(location)).copy_with(fragment=None)


def _origin(url: httpx2.URL) -> tuple[str, bytes, int | None]:
    return url.scheme, url.raw_host, url.port


def _literal(host: str) -> Address | None:
    """Give the address that a URL's host spells, None for a name. Refuses what only looks like a name."""
    if not host:
        raise EgressRefused("The URL has no host.")
    if ":" in host:
        if "%" in host:
            raise EgressRefused("The URL's host carries an IPv6 zone.")
        try:
            return IPv6Address(host)
        except ValueError as exc:
            raise EgressRefused("The URL's host is not valid.") from exc
    if host.endswith(".") or not _HOST.match(host) or ".." in host:
        raise EgressRefused("The URL's host is not a plain name or address.")
    # A last label that is a number makes other resolvers read the whole as an IPv4 address: 127.1, 0x7f.1.
    if _NUMERIC_LABEL.match(host.rpartition(".")[2]):
        try:
            return IPv4Address(host)
        except ValueError as exc:
            raise EgressRefused("Write the IPv4 address as four decimal numbers.") from exc
    return None


def _split_entry(entry: str) -> tuple[str, int | None]:
    bracketed = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?", entry)
    if bracketed:
        host, port = bracketed[1], bracketed[2]
    elif entry.count(":") == 1:
        host, _, port = entry.partition(":")
    else:
        host, port = entry, None
    if port is None:
        return host, None
    if not port.isdecimal() or not 0 < int(port) < 65536:
        raise ValueError(f"MCPHUB_EGRESS_ALLOW: the port of '{entry}' is not valid.")
    return host, int(port)


def _refusal(host: str, port: int) -> EgressRefused:
    return EgressRefused(
        f"'{host}' is not on the public internet, so the hub does not send requests there. "
        "The operator can allow it in MCPHUB_EGRESS_ALLOW.",
        host=host,
        port=port,
    )
