"""The egress guard: no form of address, no second DNS answer and no redirect leads into a private network."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

import httpcore2
import httpx2
import pytest
from backend_peers import Peer, Received, always, reply, serving
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.errors import UpstreamError
from tests.tools_catalog.addresses import CLOSED, ODD_URLS, OPEN
from tests.waiting import PATIENCE_SECONDS
from tools_catalog.egress import guard as egress
from tools_catalog.egress.guard import EgressRefused, GuardedBackend
from tools_catalog.egress.rules import MAX_REDIRECTS, EgressPolicy, is_public
from tools_catalog.upstream.wire import ConnectionPool

PUBLIC = EgressPolicy()


@pytest.mark.parametrize("text", CLOSED)
def test_address_that_is_no_public_host_is_closed(text: str) -> None:
    assert not is_public(ipaddress.ip_address(text))


@pytest.mark.parametrize("text", OPEN)
def test_public_address_is_open(text: str) -> None:
    assert is_public(ipaddress.ip_address(text))


@given(st.ip_addresses(v=4))
def test_wrapping_an_address_never_opens_it(address: ipaddress.IPv4Address) -> None:
    number = int(address)
    mapped = ipaddress.IPv6Address((0xFFFF << 32) | number)
    assert is_public(mapped) == is_public(address)
    for prefix in (0, 0x0064FF9B << 96, (0x2002 << 112) | (number << 80)):
        assert not is_public(ipaddress.IPv6Address(prefix | number))


@pytest.mark.parametrize("url", ODD_URLS)
def test_url_that_hides_where_it_leads_is_refused(url: str) -> None:
    with pytest.raises(EgressRefused) as caught:
        PUBLIC.check_url(url)
    assert caught.value.code == "egress_refused"


@pytest.mark.parametrize(
    "url",
    [
        "http://example.com",
        "https://example.com:8443/a?b=c",
        "http://8.8.8.8/",
        "https://bücher.example/",
        "https://[2606:4700:4700::1111]/",
        "http://a_b.example/",
    ],
)
def test_ordinary_url_is_accepted(url: str) -> None:
    PUBLIC.check_url(url)


def test_allow_list_opens_exactly_what_it_names() -> None:
    policy = EgressPolicy(allow=("127.0.0.1:8080", "10.0.0.0/8", "[::1]:9", "localhost:3000"))
    for url in ("http://127.0.0.1:8080/", "http://10.1.2.3/", "http://[::1]:9/", "http://localhost:3000/"):
        policy.check_url(url)
    for url in ("http://127.0.0.1/", "http://11.0.0.0.1/", "http://[::1]/", "http://localhost/"):
        with pytest.raises(EgressRefused):
            policy.check_url(url)


def test_refusal_names_the_setting_that_would_allow_it() -> None:
    with pytest.raises(EgressRefused, match="MCPHUB_EGRESS_ALLOW"):
        PUBLIC.check_url("http://10.0.0.1/")


@pytest.mark.parametrize("entry", ["", "10.0.0.0/33", "a b", "host:99999", "127.1", "http://x"])
def test_malformed_allow_entry_is_refused_when_it_is_read(entry: str) -> None:
    with pytest.raises(ValueError, match="MCPHUB_EGRESS_ALLOW"):
        EgressPolicy(allow=(entry,))


class Recording(httpcore2.AsyncMockBackend):
    """A network without wires: remembers where it was asked to connect."""

    def __init__(self, unreachable: tuple[str, ...] = ()) -> None:
        super().__init__([])
        self.asked: list[tuple[str, int]] = []
        self._unreachable = unreachable

    async def connect_tcp(self, host, port, *rest, **more):  # type: ignore[no-untyped-def]
        self.asked.append((host, port))
        if host in self._unreachable:
            raise httpcore2.ConnectError("unreachable")
        return await super().connect_tcp(host, port, *rest, **more)


def answers(*rounds: list[str]) -> Callable[[str, int], Awaitable[list[str]]]:
    """Return a resolver that answers one round after the other, the last one for ever."""
    left = list(rounds)

    async def resolve(host: str, port: int) -> list[str]:
        return left.pop(0) if len(left) > 1 else left[0]

    return resolve


def connect(policy: EgressPolicy, resolve: Callable[[str, int], Awaitable[list[str]]], network: Recording) -> None:
    asyncio.run(GuardedBackend(policy, resolve=resolve, inner=network).connect_tcp("rebind.test", 80, 5.0))


def test_connection_goes_to_the_address_that_was_checked() -> None:
    """CVE class: the DNS answer changes between check and connect."""
    network = Recording()
    connect(PUBLIC, answers(["93.184.216.34"], ["127.0.0.1"]), network)
    assert network.asked == [("93.184.216.34", 80)]


def test_changed_answer_is_checked_again_at_the_next_connection() -> None:
    network, resolve = Recording(), answers(["93.184.216.34"], ["127.0.0.1"])
    connect(PUBLIC, resolve, network)
    with pytest.raises(EgressRefused):
        connect(PUBLIC, resolve, network)
    assert network.asked == [("93.184.216.34", 80)]


@pytest.mark.parametrize("closed", CLOSED)
def test_one_closed_address_among_the_answers_refuses_all(closed: str) -> None:
    network = Recording()
    with pytest.raises(EgressRefused):
        connect(PUBLIC, answers(["93.184.216.34", closed]), network)
    assert network.asked == []


def test_scoped_answer_is_refused() -> None:
    with pytest.raises(EgressRefused):
        connect(PUBLIC, answers(["2606:4700::1%eth0"]), Recording())


def test_next_address_is_tried_when_the_first_is_unreachable() -> None:
    network = Recording(unreachable=("93.184.216.34",))
    connect(PUBLIC, answers(["93.184.216.34", "8.8.8.8"]), network)
    assert network.asked == [("93.184.216.34", 80), ("8.8.8.8", 80)]


def test_name_without_address_fails_to_connect() -> None:
    with pytest.raises(httpcore2.ConnectError):
        connect(PUBLIC, answers([]), Recording())


def test_slow_resolver_counts_against_the_connect_timeout() -> None:
    async def resolve(host: str, port: int) -> list[str]:
        await asyncio.Event().wait()
        return []

    async def go() -> None:
        guard = GuardedBackend(PUBLIC, resolve=resolve, inner=Recording())
        await guard.connect_tcp("slow.test", 80, 0.01)

    with pytest.raises(httpcore2.ConnectTimeout):
        asyncio.run(go())


def test_allowed_name_does_not_open_the_metadata_address() -> None:
    policy = EgressPolicy(allow=("rebind.test",))
    network = Recording()
    connect(policy, answers(["10.0.0.1"]), network)
    with pytest.raises(EgressRefused):
        connect(policy, answers(["169.254.169.254"]), network)
    assert network.asked == [("10.0.0.1", 80)]


def fetch(
    script: Callable[..., object],
    path: str = "/",
    *,
    allow: tuple[str, ...] = ("127.0.0.1",),
    host: str | None = None,
    **options: object,
) -> tuple[httpx2.Response, Peer]:
    """Send one request with `egress.stream` to a scripted peer, under names that all lead to it."""

    async def go() -> tuple[httpx2.Response, Peer]:
        async with serving(script) as peer:  # type: ignore[arg-type]
            url = f"http://{host or '127.0.0.1'}:{peer.port}{path}"
            policy = EgressPolicy(allow=allow)
            method = str(options.pop("method", "GET"))
            async with (
                egress.client(policy, timeout_seconds=PATIENCE_SECONDS, resolve=answers(["127.0.0.1"])) as using,
                egress.stream(using, method, url, **options) as response,  # type: ignore[arg-type]
            ):
                await response.aread()
                return response, peer

    return asyncio.run(go())


def test_loopback_server_is_refused_without_an_allow_entry() -> None:
    with pytest.raises(EgressRefused):
        fetch(always(reply()), allow=())
    with pytest.raises(EgressRefused):
        fetch(always(reply()), allow=(), host="named.test")


def test_allowed_server_answers() -> None:
    response, peer = fetch(always(reply(200, b"hello")))
    assert response.content == b"hello"
    assert peer.received[0].headers["user-agent"] == "mcphub"


def test_bare_client_refuses_a_forbidden_url_too() -> None:
    async def go() -> None:
        async with egress.client(PUBLIC) as using:
            await using.get("http://[::1]/")

    with pytest.raises(EgressRefused):
        asyncio.run(go())


@pytest.mark.parametrize(
    "location",
    [
        "http://169.254.169.254/latest",
        "http://10.0.0.1/",
        "http://[::1]/",
        "http://127.0.0.1:1/",
        "file:///etc/passwd",
        "http://user@93.184.216.34/",
        "http://2130706433/",
        "http://exa\\mple/",
        "http://[",
    ],
)
def test_redirect_to_a_forbidden_place_is_refused(location: str) -> None:
    def script(request: Received, writer: asyncio.StreamWriter) -> None:
        writer.write(reply(302, Location=location))

    async def go() -> None:
        async with serving(script) as peer:
            policy = EgressPolicy(allow=(f"127.0.0.1:{peer.port}",))
            async with egress.client(policy) as using, egress.stream(using, "GET", peer.url):
                raise AssertionError("the redirect was followed")

    with pytest.raises(EgressRefused):
        asyncio.run(go())


def hop(request: Received, writer: asyncio.StreamWriter) -> None:
    """Send /hop?<location> to that location, everything else gets its own headers' names."""
    path, _, location = request.target.partition("?")
    if path.startswith("/hop"):
        port = request.headers["host"].rpartition(":")[2]
        writer.write(reply(int(path[4:] or 302), Location=location.replace("PORT", port)))
    else:
        writer.write(reply(200, b"arrived"))


SENT = {"Authorization": "Bearer x", "X-Api-Key": "y", "Cookie": "c=1", "Accept": "text/plain"}


def test_credentials_stay_behind_at_another_origin() -> None:
    response, peer = fetch(hop, "/hop?http://b.test:PORT/x", host="a.test", headers=SENT)
    first, second = peer.received
    assert response.content == b"arrived"
    assert first.headers["x-api-key"] == "y"
    assert not {"authorization", "x-api-key", "cookie"} & second.headers.keys()
    assert second.headers["accept"] == "text/plain"
    assert second.headers["host"].startswith("b.test")


def test_credentials_are_kept_within_the_origin() -> None:
    _, peer = fetch(hop, "/hop?/elsewhere", headers=SENT)
    assert peer.received[1].headers["authorization"] == "Bearer x"


def test_another_port_is_another_origin() -> None:
    async def go() -> list[Received]:
        async with serving(always(reply())) as other:
            target = f"{other.url}/x"
            async with (
                serving(always(reply(302, Location=target))) as peer,
                egress.client(EgressPolicy(allow=("127.0.0.1",))) as using,
                egress.stream(using, "GET", peer.url, headers=SENT),
            ):
                return other.received

    assert "authorization" not in asyncio.run(go())[0].headers


def test_see_other_turns_a_post_into_a_get_without_body() -> None:
    _, peer = fetch(hop, "/hop303?/y", method="POST", content=b"{}", headers={"Content-Type": "text/plain"})
    assert [(seen.method, seen.body) for seen in peer.received] == [("POST", b"{}"), ("GET", b"")]
    assert "content-type" not in peer.received[1].headers


def test_kept_method_repeats_the_body_within_the_origin() -> None:
    _, peer = fetch(hop, "/hop307?/y", method="POST", content=b"{}")
    assert [(seen.method, seen.body) for seen in peer.received] == [("POST", b"{}"), ("POST", b"{}")]


def test_body_is_not_sent_to_another_origin() -> None:
    with pytest.raises(EgressRefused):
        fetch(hop, "/hop308?http://b.test:PORT/", host="a.test", method="POST", content=b"{}")


def test_endless_redirects_end() -> None:
    with pytest.raises(UpstreamError):
        fetch(hop, "/hop?/hop?/hop")

    async def go() -> int:
        async with serving(always(reply(302, Location="/"))) as peer:
            async with egress.client(EgressPolicy(allow=("127.0.0.1",))) as using:
                with pytest.raises(UpstreamError):
                    async with egress.stream(using, "GET", peer.url):
                        pass
            return len(peer.received)

    assert asyncio.run(go()) == MAX_REDIRECTS + 1


def test_the_system_holds_little_of_an_answer() -> None:
    def held(sock: Any) -> int:
        return int(sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF))

    async def go() -> tuple[int, int]:
        policy = EgressPolicy(allow=("127.0.0.1",))
        async with serving(always(reply(200, b"ok"))) as peer:
            async with egress.client(policy) as using, egress.stream(using, "GET", peer.url) as response:
                general = held(response.extensions["network_stream"].get_extra_info("socket"))
            pool = ConnectionPool(policy, host="127.0.0.1", port=peer.port, is_tls=False, seconds=PATIENCE_SECONDS)
            answer = await pool.send(b"GET / HTTP/1.1\r\nHost: peer\r\n\r\n")
            lean = held(answer._connection.transport.get_extra_info("socket"))
            pool.close()
        return general, lean

    with socket.socket() as plain, socket.socket() as bounded:
        bounded.setsockopt(*egress.RECEIVE_BUFFER)
        assert held(bounded) != held(plain), "the test could not fail"
        assert asyncio.run(go()) == (held(bounded), held(bounded))


def test_cookies_of_one_answer_do_not_reach_the_next_request() -> None:
    async def go() -> Peer:
        async with serving(always(reply(200, b"ok", Set_Cookie="session=theirs; Path=/"))) as peer:
            async with egress.client(EgressPolicy(allow=("127.0.0.1",))) as using:
                for _ in range(2):
                    async with egress.stream(using, "GET", peer.url) as response:
                        await response.aread()
            return peer

    peer = asyncio.run(go())
    assert all("cookie" not in seen.headers for seen in peer.received)
    assert peer.connections == 1, "the connection stays warm"


def test_shared_client_is_one_per_loop_and_made_anew_after_closing() -> None:
    async def go() -> tuple[bool, bool]:
        first = egress.shared_client()
        same = egress.shared_client() is first
        await egress.close_shared_client()
        second = egress.shared_client()
        await egress.close_shared_client()
        return same, second is not first

    assert asyncio.run(go()) == (True, True)


def test_second_client_reads_no_list_of_authorities() -> None:
    """An upstream that is connected again and again would stop the event loop for as long each time."""

    async def scenario() -> None:
        async with egress.client(), egress.client():
            pass

    context = egress.tls_context()
    assert (context.verify_mode, context.check_hostname) == (ssl.CERT_REQUIRED, True)
    before = egress.tls_context.cache_info()
    asyncio.run(scenario())
    after = egress.tls_context.cache_info()
    assert (after.hits - before.hits, after.misses - before.misses) == (2, 0)


def test_a_connection_ends_when_its_tls_handshake_is_cancelled() -> None:
    """Whoever takes connections and stays silent must not keep one for each attempt."""

    async def run() -> None:
        begun, gone = asyncio.Event(), asyncio.Event()

        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while await reader.read(1000):
                begun.set()
            writer.close()
            gone.set()

        policy = EgressPolicy(allow=("127.0.0.1",))
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as server, egress.client(policy) as using:
            port = server.sockets[0].getsockname()[1]
            asking = asyncio.create_task(using.get(f"https://127.0.0.1:{port}/"))
            await asyncio.wait_for(begun.wait(), PATIENCE_SECONDS)
            asking.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asking
            await asyncio.wait_for(gone.wait(), PATIENCE_SECONDS)

    asyncio.run(run())
