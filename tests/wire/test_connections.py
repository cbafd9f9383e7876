"""What a connection may send before its request begins, and how many connections there may be."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator

import httpx2
import pytest

from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import raw_answer, wire

MOST_BYTES, MOST_CONNECTIONS, OF_ONE_ADDRESS = 8192, 24, 16
pytestmark = pytest.mark.program


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hub]:
    """A hub of few connections, with a short patience for heads."""
    environment = {
        "MCPHUB_LIMITS": f"max_header_bytes={MOST_BYTES}, header_timeout_seconds=1, "
        f"max_connections={MOST_CONNECTIONS}, max_connections_per_address={OF_ONE_ADDRESS}"
    }
    with Hub(tmp_path_factory.mktemp("narrow"), environment=environment) as running:
        yield running


def head_of(*lines: bytes) -> bytes:
    return b"\r\n".join([b"GET /live HTTP/1.1", b"Host: 127.0.0.1", *lines, b"", b""])


def is_served(hub: Hub) -> bool:
    """Return whether the hub has a place for one more; a connection without one ends while its request is sent."""
    with contextlib.suppress(httpx2.TransportError):
        return httpx2.get(f"{hub.url}/live", timeout=PATIENCE_SECONDS).status_code == 200
    return False


def is_closed(connection: socket.socket) -> bool:
    """Return whether the hub has ended the connection; waits for what it says."""
    with contextlib.suppress(ConnectionResetError):
        while connection.recv(65536):
            pass
    return True


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param([b"X-One: " + b"x" * MOST_BYTES], id="one long"),
        pytest.param([b"X-%d: %s" % (number, b"x" * 100) for number in range(100)], id="many bytes in all"),
        pytest.param([b"X-%d: y" % number for number in range(200)], id="many short"),
    ],
)
def test_a_head_beyond_its_bounds_is_refused_and_the_connection_ends(narrow: Hub, lines: list[bytes]) -> None:
    with wire(narrow.url) as connection:
        connection.sendall(head_of(*lines))
        status, body = raw_answer(connection)
        assert status == 431
        assert b'"payload_too_large"' in body
        assert b"Send less" in body
        assert b'"correlationId"' in body
        assert is_closed(connection)


def test_a_long_address_is_part_of_the_head(narrow: Hub) -> None:
    assert httpx2.get(f"{narrow.url}/live?{'x' * MOST_BYTES}", timeout=PATIENCE_SECONDS).status_code == 431


def test_a_head_without_end_is_refused_before_it_is_kept(narrow: Hub) -> None:
    sent = 0
    with wire(narrow.url) as connection:
        connection.sendall(b"GET /live HTTP/1.1\r\nX-Endless: ")
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 64 * 1024 * 1024:
                sent += connection.send(b"x" * 65536)
    assert sent < 16 * 1024 * 1024  # what lies in the buffers of the system is not the hub's


def test_trailers_of_a_body_have_the_bounds_of_a_head(narrow: Hub) -> None:
    sent = 0
    with wire(narrow.url) as connection:
        lines = [b"POST /mcp HTTP/1.1", b"Host: 127.0.0.1", b"Authorization: Bearer " + narrow.key.encode()]
        kinds = [b"Content-Type: application/json", b"Accept: application/json, text/event-stream"]
        connection.sendall(b"\r\n".join([*lines, *kinds, b"Transfer-Encoding: chunked", b"", b"2\r\n{}\r\n0\r\n"]))
        with contextlib.suppress(ConnectionResetError, BrokenPipeError):
            while sent < 64 * 1024 * 1024:
                sent += connection.send(b"X-More: y\r\n" * 6000)
    assert sent < 16 * 1024 * 1024


def test_a_large_body_is_no_large_head(narrow: Hub) -> None:
    headers = {"Authorization": f"Bearer {narrow.key}", "Accept": "application/json, text/event-stream"}
    with httpx2.Client(base_url=narrow.url, headers=headers, timeout=PATIENCE_SECONDS) as client:
        for _ in range(2):
            answer = client.post(
                "/mcp", content=b'"' + b"x" * 500_000 + b'"', headers={"Content-Type": "application/json"}
            )
            assert answer.status_code == 400
            assert b"invalid_request" in answer.content


@pytest.mark.parametrize("begun", [b"GET /live HTTP/1.1\r\nX-Slow: ", b"GET"])
def test_a_head_that_dribbles_is_cut_off(narrow: Hub, begun: bytes) -> None:
    with wire(narrow.url) as connection:
        connection.sendall(begun)
        status, body = raw_answer(connection)
        assert status == 408
        assert b'"body_timeout"' in body
        assert is_closed(connection)


def test_the_oldest_idle_connection_of_an_address_makes_room_for_a_new_one(narrow: Hub) -> None:
    with contextlib.ExitStack() as opened:
        first = opened.enter_context(wire(narrow.url))
        first.sendall(head_of())
        assert raw_answer(first)[0] == 200
        others = [opened.enter_context(wire(narrow.url)) for _ in range(OF_ONE_ADDRESS + 4)]
        assert is_closed(first)
        others[-1].sendall(head_of())
        assert raw_answer(others[-1])[0] == 200
        until(lambda: "connections were closed or not taken" in narrow.log())


def test_streams_of_one_address_leave_room_for_others(narrow: Hub) -> None:
    """Requests under way are never ended: who holds all places of an address is told so, and others come in."""
    stream = head_of(b"Authorization: Bearer " + narrow.key.encode(), b"Accept: text/event-stream")
    stream = stream.replace(b"/live", b"/sse")
    with contextlib.ExitStack() as opened:
        held = [opened.enter_context(wire(narrow.url)) for _ in range(OF_ONE_ADDRESS)]
        for connection in held:
            connection.sendall(stream)
            assert b"200 OK" in connection.recv(65536)
        with wire(narrow.url) as late:
            status, body = raw_answer(late)
        assert status == 503
        assert b'"server_busy"' in body
        there, from_another = ("127.0.0.1", narrow.port), ("127.0.0.2", 0)
        with socket.create_connection(there, timeout=PATIENCE_SECONDS, source_address=from_another) as elsewhere:
            elsewhere.sendall(head_of())
            assert raw_answer(elsewhere)[0] == 200
    until(lambda: is_served(narrow))
