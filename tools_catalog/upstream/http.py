"""Requests to the address of an upstream: guarded, with the connection's headers, redirected within its origin only.

The one HTTP stack of everything that goes out to upstreams. It knows nothing of MCP but the limits of a response.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

import httpx2

from sessions_app.advice import Advice
from sessions_app.protocol import errors
from tools_catalog.backends.http.template import Secrets
from tools_catalog.egress import guard as egress
from tools_catalog.egress.proxy import ProxyAddress
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.upstream.account import Account, AccountRefused
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.transports.refusals import TransportRefusal
from tools_catalog.upstream.wire import ConnectionPool, RequestNotSent, WireResponse

MAX_REDIRECTS: Final = 2
"""Each sends the request once more; redirects within an origin add a slash at the end, or a version."""
_CHOOSE_ACCOUNT: Final = Advice(
    page="Choose the account on the connection's page.",
    command=(
        "Give the connection an `account` in a bundle (`mcphub catalog dump` prints one), and load it with `mcphub "
        "catalog load FILE --overwrite`."
    ),
    neutral="Its operator has to choose the account of the connection.",
)
_SIGNED_ATTEMPTS: Final = 2
"""Additional attempts at a request with a refused token."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
TOO_MANY_REQUESTS: Final = 429
_REFUSAL_BYTES: Final = 64 * 1024
"""Of a refusal's body, which is read for its words."""
_FOR_GET_ONLY: Final = 303
"""It asks for a GET of something else. The others move the address; whoever moves one means POST by POST."""
_ENDS: Final = (".", "!", "?", "…")
"""Of a sentence, in words of others that one of ours follows."""
Sign = Callable[[httpx2.URL], bytes]
"""Gives the lines that sign a request to this address."""
_PORTS: Final = {"http": 80, "https": 443}


class StatusError(errors.UpstreamError):
    """The upstream, or what stands before it, answered with a status and no message, `words` in any other shape."""

    def __init__(self, status: int, refusal: TransportRefusal | None = None) -> None:
        words = refusal.words if refusal is not None else ""
        said = f" It says: {words}" if words else ""
        end = "." if words and not words.endswith(_ENDS) else ""
        if status == TOO_MANY_REQUESTS:
            wait = refusal.retry_after_seconds if refusal is not None else None
            when = f" Try again in {wait:g} s." if wait is not None else " Try again later."
            sentence = f"The upstream takes no more requests now (status 429).{said}{end}{when}"
        elif status in _REDIRECTS and refusal is not None and refusal.location:
            sentence = (
                f"The upstream sends the request on to {refusal.location[:200]}, which the hub does not follow (status "
                f"{status}). Use that address in the connection if it is the same server."
            )
        else:
            sentence = f"The upstream answered with status {status} and no MCP.{said}"
            if refusal is not None and refusal.retry_after_seconds is not None:
                sentence += f"{end} It asks to be left alone for {refusal.retry_after_seconds:g} s."
        super().__init__(sentence, status=status)
        self.status = status
        self.retry_after_seconds = refusal.retry_after_seconds if refusal is not None else None
        self.was_not_made = status == TOO_MANY_REQUESTS


class CredentialsRefused(errors.ConnectionFailed):
    """The upstream lets the hub's credentials in nowhere, or not to this. Nothing ran."""

    def __init__(self, response: WireResponse, refusal: TransportRefusal) -> None:
        super().__init__(_refusal(response, refusal.words))
        self.refusal = refusal


class HttpEndpoint:
    """Where one connection's requests go. `close` ends all that are under way."""

    def __init__(
        self,
        spec: ConnectionSpec,
        secret: Secrets,
        policy: EgressPolicy | None = None,
        *,
        account: Account | None = None,
        token_known: Callable[[str], None] = lambda token: None,
    ) -> None:
        """Raise EgressRefused for an address that must not be requested.

        `account` signs each request; `token_known` receives each token before it is sent.
        """
        self._account = account
        self._token_known = token_known
        self._proxy = ProxyAddress.parse(egress.proxy_of_settings()) if policy is None else None
        self._policy = policy or EgressPolicy.from_settings()
        self._policy.check_url(spec.url)
        self._spec = spec
        self._secret = secret
        self._pools: dict[tuple[str, bytes, int], ConnectionPool] = {}
        url = httpx2.URL(spec.url)
        self._target = _Target(url, self._pool(url))

    async def send(
        self, method: bytes, head: bytes, body: bytes = b"", *, url: httpx2.URL | None = None
    ) -> WireResponse:
        """Send a request and return its response, whose body is to be read. `head` are further lines of its head.

        Raises ConnectionFailed where nothing was sent, or the hub's credentials are refused; TransportError,
        EgressRefused; AccountNeeded and AccountRefused where the account does not open the upstream.
        """
        target = self._target if url is None else _Target(url, self._pool(url))
        own = self._own_headers() if self._spec.headers else b""
        if self._account is None:
            response = await self._followed(target, method, own + head, body)
        else:
            response = await self._signed(self._account, target, method, own + head, body)
        if response.status in (401, 403):
            raise CredentialsRefused(response, await refusal_of(response))
        if response.headers.get(b"content-encoding", b"identity") != b"identity":
            response.close()
            raise errors.TransportError("The upstream compresses its answer, which it was asked not to.")
        return response

    async def _signed(self, account: Account, target: _Target, method: bytes, head: bytes, body: bytes) -> WireResponse:
        """Send it with the account's token, and once more where that was refused and there is another one."""
        for attempt in range(_SIGNED_ATTEMPTS + 1):
            token = await account.token()
            sign: Sign | None = None
            if token:
                self._token_known(token)
                sign = partial(_signature, account, token, method)
            response = await self._followed(target, method, head, body, sign)
            if nonce := response.headers.get(b"dpop-nonce"):
                account.heard(str(target.url), nonce.decode("latin-1"))
            if response.status not in (401, 403):
                break
            challenge = response.headers.get(b"www-authenticate", b"").decode("latin-1")
            said = await refusal_of(response)
            if b"mcp-session-id:" in head and said.names_session:
                raise CredentialsRefused(response, said)  # the account is well: some check the session first
            await account.refused(token, response.status, challenge)
            if attempt == _SIGNED_ATTEMPTS:
                raise AccountRefused("The upstream refuses each token that the account gets. Tell the hub's operator.")
        return response

    async def _followed(
        self, target: _Target, method: bytes, head: bytes, body: bytes, sign: Sign | None = None
    ) -> WireResponse:
        for followed in range(MAX_REDIRECTS + 1):
            whole = head if sign is None else head + sign(target.url)
            response = await self._sent(target, target.request(method, whole, body))
            if response.status not in _REDIRECTS or followed == MAX_REDIRECTS:
                break
            there = self._redirected(method, target.url, response)
            if there is None:
                break
            response.release()
            target = _Target(there, self._pool(there))
        response.url = target.url
        return response

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    async def _sent(self, target: _Target, request: bytes) -> WireResponse:
        try:
            return await target.pool.send(request)
        except RequestNotSent as error:
            raise errors.ConnectionFailed(
                f"{self._spec.slug} cannot be reached: {error} Nothing was sent; try again.", connection=self._spec.slug
            ) from error

    def _own_headers(self) -> bytes:
        headers = self._spec.rendered_headers(self._secret)
        return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")

    def _redirected(self, method: bytes, url: httpx2.URL, response: WireResponse) -> httpx2.URL | None:
        """Return where the response sends the request on, if the hub follows it there."""
        location = response.headers.get(b"location")
        if location is None or (method != b"GET" and response.status == _FOR_GET_ONLY):
            return None
        with suppress(httpx2.InvalidURL, UnicodeDecodeError, errors.EgressRefused):
            there = url.join(location.decode("ascii")).copy_with(fragment=None)
            if is_within(url, there):
                self._policy.check_parsed(there)
                return there
        return None

    def _pool(self, url: httpx2.URL) -> ConnectionPool:
        port = url.port or _PORTS[url.scheme]
        key = url.scheme, url.raw_host, port
        if key not in self._pools:
            self._pools[key] = ConnectionPool(
                self._policy,
                host=url.raw_host.decode("ascii"),
                port=port,
                is_tls=url.scheme == "https",
                seconds=self._spec.connect_seconds,
                proxy=self._proxy,
            )
        return self._pools[key]


class _Target:
    """One address, and how the head of a request to it begins. Names are capitalized: some proxies look for them so."""

    __slots__ = ("_lines", "_place", "host", "pool", "url")

    def __init__(self, url: httpx2.URL, pool: ConnectionPool) -> None:
        self.url = url
        self.host = url.host
        self.pool = pool
        self._place = url.raw_path
        self._lines = b"Host: %b\r\nUser-Agent: %b\r\nAccept-Encoding: identity\r\n" % (
            url.netloc,
            egress.USER_AGENT.encode(),
        )

    def request(self, method: bytes, head: bytes, body: bytes) -> bytes:
        lines = b"%b %b HTTP/1.1\r\n%b%b" % (method, self._place, self._lines, head)
        if method == b"POST":
            return b"%bContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b" % (lines, len(body), body)
        return lines + b"\r\n"


def _signature(account: Account, token: str, method: bytes, url: httpx2.URL) -> bytes:
    """Return the headers that authenticate the request; a proof among them is for its address."""
    headers = account.headers(token, method.decode("ascii"), str(url))
    return "".join(f"{name}: {value}\r\n" for name, value in headers.items()).encode("latin-1")


async def refusal_of(response: WireResponse) -> TransportRefusal:
    """Read why a request was refused. Nothing more of the response is wanted then."""
    try:
        body = await response.read(_REFUSAL_BYTES)
    except errors.HubError:
        body = b""
    return TransportRefusal(response.status, body, response.headers)


def _refusal(response: WireResponse, words: str) -> str:
    """Return the error of a refused authentication, and the next step if the upstream states its demand."""
    if response.status == 401 and b"resource_metadata" in response.headers.get(b"www-authenticate", b""):
        return f"The upstream accepts accounts only (OAuth). {_CHOOSE_ACCOUNT.words()}"
    said = f" It says: {words}" if words else ""
    return f"The upstream refuses the hub's credentials (status {response.status}).{said}"


def is_within(url: httpx2.URL, other: httpx2.URL) -> bool:
    """Return whether the other address is of the same origin, or is it over TLS, and brings no credentials of its
    own.
    """
    there = (other.scheme, other.raw_host, other.port)
    is_over_tls = url.scheme == "http" and url.port is None and there == ("https", url.raw_host, None)
    is_same = there == (url.scheme, url.raw_host, url.port)
    return (is_same or is_over_tls) and other.userinfo in (b"", url.userinfo)
