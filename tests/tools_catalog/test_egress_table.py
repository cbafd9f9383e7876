"""Two hundred ways to write an address inside, each tried where an address comes in and where a request goes out.

Saved: connections, services, tools, imports. Connected, redirected to, and resolved anew between check and connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import json
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any

import httpcore2
import httpx2
import pytest
from django.core.exceptions import ValidationError

from mcphub.features.importers import operations
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.protocol.errors import EgressRefused, UpstreamError
from tests.tools_catalog.addresses import CLOSED, ODD_URLS
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress import guard as egress
from tools_catalog.egress.proxy import ProxyAddress
from tools_catalog.egress.rules import EgressPolicy, parse
from tools_catalog.models import HttpService, McpConnection, McpToolDefinition
from tools_catalog.upstream import unreached
from tools_catalog.upstream.http import HttpEndpoint
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.wire import ConnectionPool

INSIDE = ["127.0.0.1", "10.1.2.3", "192.168.0.1", "169.254.169.254", "172.16.5.4", "100.100.100.200"]


def spellings(text: str) -> Iterable[str]:
    """Return ways in which resolvers, browsers and libraries read one IPv4 address."""
    address = ipaddress.IPv4Address(text)
    number, parts = int(address), [int(part) for part in text.split(".")]
    yield str(number)
    yield hex(number)
    yield f"0{number:o}"
    yield ".".join(hex(part) for part in parts)
    yield ".".join(f"0{part:o}" for part in parts)
    yield f"{parts[0]}.{number & 0xFFFFFF}"
    yield f"{parts[0]}.{parts[1]}.{number & 0xFFFF}"
    yield f"{text}."
    yield text.replace(".", "\u3002")
    yield "".join(chr(0xFF10 + int(sign)) if sign.isdigit() else sign for sign in text)
    yield f"[::ffff:{text}]"
    yield f"[::{text}]"
    yield f"[64:ff9b::{text}]"
    yield f"[2002:{number >> 16:x}:{number & 0xFFFF:x}::1]"
    yield f"[::ffff:{number >> 16:x}:{number & 0xFFFF:x}]"
    yield f"user@{text}"
    yield f"example.com@{text}"
    yield f"{text}:0"
    yield f"{text}:99999"
    yield f"{text}\\@example.com"
    yield f"{text}%00.example.com"
    yield f"%31{text[1:]}" if text.startswith("1") else f"%30{text}"


def _hosts() -> Iterable[str]:
    for text in CLOSED:
        yield f"[{text}]" if ":" in text else text
    for text in INSIDE:
        yield from spellings(text)


FORMS = list(dict.fromkeys([*ODD_URLS, *(f"http://{host}/" for host in _hosts())]))


def test_there_are_two_hundred() -> None:
    assert len(FORMS) >= 200


def saved_as_connection(url: str) -> None:
    McpConnection(slug="x", transport="streamable-http", url=url).full_clean()


def saved_as_service(url: str) -> None:
    HttpService(slug="x", url=url).full_clean()


def saved_as_tool(url: str) -> None:
    McpToolDefinition(
        name="x", description="x", input_schema={"type": "object"}, backend="http", configuration={"url": url}
    ).full_clean()


def imported(url: str) -> None:
    document = {"openapi": "3.1.0", "servers": [{"url": url}], "paths": {"/a": {"get": {}}}}
    found = operations.look(json.dumps(document).encode(), operations.OPENAPI, slug="x", prefix="x.")
    operations.bring(found, "x", dry_run=True)


@pytest.mark.django_db
@pytest.mark.parametrize("save", [saved_as_connection, saved_as_service, saved_as_tool, imported])
def test_none_can_be_saved(save: Callable[[str], None]) -> None:
    passed = []
    for form in FORMS:
        try:
            save(form)
        except (ValidationError, DocumentRefused):
            continue
        passed.append(form)
    assert passed == []


class Scripted(httpcore2.AsyncNetworkBackend):
    """Opens nothing to the network: says where it was asked to go, and answers like a web server."""

    def __init__(self) -> None:
        self.went: list[str] = []
        self.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"

    async def connect_tcp(self, host: str, port: int, *_: Any, **__: Any) -> httpcore2.AsyncNetworkStream:
        self.went.append(host)
        return httpcore2.AsyncMockStream([self.answer])

    async def sleep(self, seconds: float) -> None:
        raise AssertionError


class Names:
    """A resolver whose one answer can be changed."""

    def __init__(self, answer: str) -> None:
        self.answer = answer

    async def resolve(self, host: str, port: int) -> list[str]:
        return [self.answer]


PUBLIC = "93.184.216.34"
STOPPED = (EgressRefused, UpstreamError, httpx2.HTTPError)


async def get(client: httpx2.AsyncClient, url: str) -> None:
    async with egress.stream(client, "GET", url) as response:
        await response.aread()


def test_none_is_connected_to() -> None:
    async def go() -> tuple[list[str], list[str]]:
        inner, passed = Scripted(), []
        async with egress.client(EgressPolicy(), resolve=Names(PUBLIC).resolve, inner=inner) as client:
            for form in FORMS:
                try:
                    await get(client, form)
                except STOPPED:
                    continue
                passed.append(form)
        return inner.went, passed

    assert asyncio.run(go()) == ([], [])


def test_none_is_followed_from_a_public_place() -> None:
    async def go() -> set[str]:
        inner = Scripted()
        async with egress.client(EgressPolicy(), resolve=Names(PUBLIC).resolve, inner=inner) as client:
            for form in FORMS:
                place = form.encode("ascii", "ignore").replace(b"\r", b"").replace(b"\n", b"")
                head = b"HTTP/1.1 302 Found\r\nLocation: %b\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
                inner.answer = head % place
                with pytest.raises(STOPPED):
                    await get(client, "http://public.example/")
        return set(inner.went)

    assert asyncio.run(go()) == {PUBLIC}


def test_none_is_reached_by_a_name_that_changes_its_mind() -> None:
    async def go() -> set[str]:
        inner, names = Scripted(), Names(PUBLIC)
        async with egress.client(EgressPolicy(), resolve=names.resolve, inner=inner) as client:
            for closed in CLOSED:
                names.answer = PUBLIC
                await get(client, "http://public.example/")
                names.answer = closed
                with pytest.raises(EgressRefused):
                    await get(client, "http://public.example/")
        return set(inner.went)

    assert asyncio.run(go()) == {PUBLIC}


def test_requests_to_upstreams_go_to_none() -> None:
    for form in FORMS:
        spec = ConnectionSpec(id=1, slug="x", transport="streamable-http", url=form)
        with pytest.raises((EgressRefused, httpx2.InvalidURL)):
            HttpEndpoint(spec, lambda name, host: "", EgressPolicy())

    async def go() -> None:
        for closed in CLOSED:
            pool = ConnectionPool(
                EgressPolicy(),
                host="public.example",
                port=80,
                is_tls=False,
                seconds=PATIENCE_SECONDS,
                resolve=Names(closed).resolve,
            )
            with pytest.raises(EgressRefused):
                await pool.send(b"")

    asyncio.run(go())


class TunnelProxy:
    """A proxy that is asked for tunnels, and answers what is asked through them by itself."""

    def __init__(self, status: int = 200) -> None:
        self.asked: list[bytes] = []
        self.heard: list[bytes] = []
        self._status = status

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.asked.append(await reader.readuntil(b"\r\n\r\n"))
        if self._status != 200:
            writer.write(b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % self._status)
        else:
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with contextlib.suppress(asyncio.IncompleteReadError):
                self.heard.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
        await writer.drain()
        writer.close()

    @contextlib.asynccontextmanager
    async def serving(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self, "127.0.0.1", 0)
        async with server:
            yield f"http://me:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}"


async def unknown(host: str, port: int) -> list[str]:
    raise OSError


@pytest.mark.parametrize(
    ("status", "words"), [(403, "does not let the request through"), (407, "refuses the hub's name and password")]
)
def test_a_proxy_that_refuses_the_tunnel_is_named(status: int, words: str) -> None:
    async def go() -> None:
        proxy = TunnelProxy(status)
        async with proxy.serving() as address, egress.client(EgressPolicy(), proxy=address) as client:
            with pytest.raises(httpx2.ConnectError) as refused:
                await get(client, "https://93.184.215.14/")
        assert proxy.asked[0].startswith(b"CONNECT 93.184.215.14:443 ")
        assert unreached.reason(refused.value) == f"{egress.PROXY} {words}."

    asyncio.run(go())


def test_a_proxy_that_takes_no_connections_is_named() -> None:
    async def go() -> None:
        async with TunnelProxy().serving() as address:
            pass
        async with egress.client(EgressPolicy(), proxy=address) as client:
            with pytest.raises(httpx2.ConnectError) as refused:
                await get(client, "http://93.184.215.14/")
        assert unreached.reason(refused.value) == f"{egress.PROXY} takes no connections."

    asyncio.run(go())


def test_a_proxy_is_asked_for_the_address_that_was_checked_and_the_server_for_its_name() -> None:
    async def go() -> None:
        proxy, names = TunnelProxy(), Names("93.184.215.14")
        async with (
            proxy.serving() as address,
            egress.client(EgressPolicy(), proxy=address, resolve=names.resolve) as client,
        ):
            await get(client, "http://public.example/path")
            for form in FORMS:
                with pytest.raises(STOPPED):
                    await get(client, form)
        assert len(proxy.asked) == 1
        assert proxy.asked[0].startswith(b"CONNECT 93.184.215.14:80 HTTP/1.1\r\n")
        assert b"proxy-authorization: basic bwu6c2vjcmv0" in proxy.asked[0].lower()
        assert proxy.heard[0].startswith(b"GET /path HTTP/1.1\r\n")
        assert b"host: public.example\r\n" in proxy.heard[0].lower()

    asyncio.run(go())


def test_calls_of_upstreams_ask_the_proxy_for_the_checked_address_too() -> None:
    async def go() -> None:
        proxy = TunnelProxy()
        async with proxy.serving() as address:
            pool = ConnectionPool(
                EgressPolicy(),
                host="public.example",
                port=80,
                is_tls=False,
                seconds=PATIENCE_SECONDS,
                resolve=Names("93.184.215.14").resolve,
                proxy=ProxyAddress.parse(address),
            )
            answer = await pool.send(b"GET / HTTP/1.1\r\nHost: public.example\r\n\r\n")
            assert await answer.read(10) == b"hi"
            pool.close()
        assert proxy.asked[0].startswith(b"CONNECT 93.184.215.14:80 HTTP/1.1\r\n")

    asyncio.run(go())


def test_through_a_proxy_names_that_lead_inside_or_nowhere_are_refused_unless_listed() -> None:
    async def go() -> None:
        proxy = TunnelProxy()
        async with proxy.serving() as address:
            for resolve in (Names("10.0.0.1").resolve, unknown):
                async with egress.client(EgressPolicy(), proxy=address, resolve=resolve) as client:
                    with pytest.raises(EgressRefused):
                        await get(client, "http://public.example/path")
            assert proxy.asked == []
            for policy in (EgressPolicy(("public.example",)), EgressPolicy(only=("*.example",))):
                async with egress.client(policy, proxy=address, resolve=unknown) as client:
                    await get(client, "http://public.example/path")
            denied = EgressPolicy(("public.example",), deny=("*.example",))
            async with egress.client(denied, proxy=address, resolve=unknown) as client:
                with pytest.raises(EgressRefused, match="MCPHUB_EGRESS_DENY"):
                    await get(client, "http://public.example/path")
        assert [head.split(b" ")[1] for head in proxy.asked] == [b"public.example:80"] * 2

    asyncio.run(go())


# Lists of what is denied, and of what alone is reached --------------------------------------------------------


def reaches(policy: EgressPolicy, url: str, address: str) -> bool:
    """Return whether a request would go out, as both looks at it decide."""
    parsed = parse(url)
    try:
        policy.check_parsed(parsed)
        policy.check_address(ipaddress.ip_address(address), host=parsed.host.lower(), port=parsed.port or 80)
    except EgressRefused:
        return False
    return True


@pytest.mark.parametrize(
    ("entry", "url", "address", "denied"),
    [
        ("bad.example", "http://bad.example/", "93.184.215.14", True),
        ("bad.example", "http://BAD.example/", "93.184.215.14", True),
        ("bad.example", "http://not-bad.example/", "93.184.215.14", False),
        ("bad.example", "http://x.bad.example/", "93.184.215.14", False),
        ("*.bad.example", "http://x.y.bad.example/", "93.184.215.14", True),
        ("*.bad.example", "http://bad.example/", "93.184.215.14", False),
        ("bad.example:8080", "http://bad.example:8080/", "93.184.215.14", True),
        ("bad.example:8080", "http://bad.example/", "93.184.215.14", False),
        ("93.184.215.0/24", "http://any.example/", "93.184.215.14", True),
        ("93.184.215.0/24", "http://any.example/", "::ffff:93.184.215.14", True),
        ("93.184.215.0/24", "http://93.184.215.14/", "93.184.215.14", True),
        ("93.184.215.0/24", "http://any.example/", "93.184.216.14", False),
        ("[2606:4700::1]:443", "http://[2606:4700::1]:443/", "2606:4700::1", True),
    ],
)
def test_nothing_is_sent_to_what_is_denied_whatever_else_allows_it(
    entry: str, url: str, address: str, denied: bool
) -> None:
    host = parse(url).host
    for policy in (
        EgressPolicy(deny=(entry,)),
        EgressPolicy((address, "93.184.215.14"), deny=(entry,)),
        EgressPolicy(deny=(entry,), only=(f"[{host}]" if ":" in host else host,)),
    ):
        assert reaches(policy, url, address) is not denied


@pytest.mark.parametrize(
    ("url", "address", "reached"),
    [
        ("http://one.example/", "93.184.215.14", True),
        ("http://x.two.example/", "93.184.215.14", True),
        ("http://two.example/", "93.184.215.14", False),
        ("http://other.example/", "93.184.215.14", False),
        ("http://other.example/", "198.41.0.4", True),
        ("http://198.41.0.4/", "198.41.0.4", True),
        ("http://93.184.215.14/", "93.184.215.14", False),
        ("http://inner.example/", "10.0.0.7", True),
        ("http://one.example/", "10.0.0.7", False),
        ("http://one.example/", "10.1.0.7", False),
    ],
)
def test_where_only_some_hosts_are_listed_no_other_public_one_is_reached(url: str, address: str, reached: bool) -> None:
    policy = EgressPolicy(("inner.example",), only=("one.example", "*.two.example", "198.41.0.0/24"))
    assert reaches(policy, url, address) is reached


def test_a_host_that_is_not_listed_is_refused_when_it_is_saved() -> None:
    with pytest.raises(EgressRefused, match="MCPHUB_EGRESS_ONLY"):
        EgressPolicy(only=("one.example",)).check_url("https://other.example/")


@pytest.mark.parametrize("entry", ["a b", "1.2.3.4.5", "http://x.example", "*.*.example", "x.example:0", "*"])
@pytest.mark.parametrize("name", ["allow", "deny", "only"])
def test_an_entry_of_a_list_that_is_no_host_is_refused_with_its_setting(entry: str, name: str) -> None:
    with pytest.raises(ValueError, match=f"MCPHUB_EGRESS_{name.upper()}"):
        EgressPolicy(**{name: (entry,)})
