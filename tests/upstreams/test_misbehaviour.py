"""Whatever an upstream does, a call ends in time with the right word and a row, and others do not notice."""

from __future__ import annotations

import contextlib
import json
import socketserver
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.servers import Hub, free_port, until
from tests.upstreams.conftest import PEERS, Operator, Peer
from tests.upstreams.misbehaviour import KINDS, LIMITS, SECONDS
from tests.wire.speech import Speaker
from tests.wire.toolbox import text_of

pytestmark = pytest.mark.rig


CASES = [(kind, mode) for kind, modes in KINDS.items() for mode in modes]


@pytest.fixture(scope="module", autouse=True)
def upstreams(operator: Operator) -> Iterator[None]:
    profile = {"name": "chaos", "command": sys.executable, "arguments": [str(PEERS / "chaos.py"), "stdio"]}
    with (
        Peer("chaos.py", "http") as peer,
        Peer("chaos.py", "modern") as modern,
        Peer("chaos.py", "sse", path="/sse") as sse,
        Peer("sdk_v2.py", "http") as other,
    ):
        operator.connect("bad_http", url=peer.url, **LIMITS)
        operator.connect("bad_modern", url=modern.url, **LIMITS)
        operator.connect("bad_sse", transport="sse", url=sse.url, **LIMITS)
        operator.connect("bad_stdio", transport="stdio", profile=profile, **LIMITS)
        operator.connect("good", url=other.url)
        operator.limit("bad_", SECONDS)
        yield
        for slug in (*KINDS, "good"):
            operator.change(slug, enabled=False)


def called(speaker: Speaker, tool: str, arguments: dict[str, Any]) -> tuple[str, float]:
    """Wait until the connection is there again and call; give how it ended, and after how many seconds."""

    def once(tool: str, arguments: dict[str, Any]) -> tuple[str, float] | None:
        began = time.monotonic()
        answer = speaker.modern_call(tool, arguments).json()
        took = time.monotonic() - began
        result = answer.get("result")
        if result is not None and not result.get("isError"):
            return "ok", took
        data = (answer.get("error") or {}).get("data") or result["_meta"]["mcphub/error"]
        is_pausing = data["errorCode"] == "connection_failed" and "tries again" in json.dumps(answer)
        is_paused = "left alone" in json.dumps(answer)
        return None if is_pausing or is_paused else (data["errorCode"], took)

    there = tool.replace(".be", ".echo")
    until(lambda: (found := once(there, {})) and found[0] == "ok")
    return until(lambda: once(tool, arguments))


def test_answers_are_no_flood(speaker: Speaker, operator: Operator, running: Any) -> None:
    """Over HTTP+SSE they come by the one stream, as notifications do."""
    peer = running("chaos.py", "sse", path="/sse")
    operator.connect("busy_sse", transport="sse", url=peer.url, **{**LIMITS, "max_notifications": 10})
    until(lambda: "busy_sse.echo" in speaker.modern("tools/list").text)
    for number in range(40):
        said = json.loads(text_of(speaker.modern_call("busy_sse.echo", {"number": number})))
        assert said["arguments"] == {"number": number}
    operator.change("busy_sse", enabled=False)


@pytest.mark.parametrize("kind", ["bad_http", "bad_modern"])
def test_an_answer_that_is_too_large_is_called_so(kind: str, speaker: Speaker, upstream_hub: Hub) -> None:
    until(lambda: f"{kind}.be" in speaker.modern("tools/list").text)
    until(lambda: called(speaker, f"{kind}.be", {"mode": "huge"})[0] != "timeout")  # on a busy machine it may be first
    last = upstream_hub.rows(client=speaker.name, tool=f"{kind}.be")[0]
    assert "too large" in json.dumps(last["error"])


@pytest.mark.parametrize("kind", ["bad_http", "bad_modern"])
def test_a_status_without_a_message_is_named(kind: str, speaker: Speaker) -> None:
    until(lambda: f"{kind}.be" in speaker.modern("tools/list").text)

    def once() -> dict[str, Any] | None:
        found: dict[str, Any] = speaker.modern_call(f"{kind}.be", {"mode": "status"}).json()["result"]
        return found if found["_meta"]["mcphub/error"]["errorCode"] != "timeout" else None

    called(speaker, f"{kind}.echo", {})  # what was tried before may have left the connection alone
    told = until(once)
    assert told["content"][0]["text"] == "The upstream answered with status 500 and no MCP. It says: oops"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            b'HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 13\r\n\r\n{"no": "mcp"}',
            "The upstream answered with status 404 and no MCP.",
        ),
        (
            b"HTTP/1.1 413 Too Large\r\nContent-Type: text/html\r\nContent-Length: 0\r\n\r\n",
            "The upstream answered with status 413 and no MCP.",
        ),
        (None, "Nothing takes connections there."),
    ],
)
def test_a_connection_that_never_was_one_says_why(operator: Operator, answer: bytes | None, words: str) -> None:
    slug = f"never-{len(answer or b'')}"
    with answering(answer) as port:
        operator.connect(slug, url=f"http://127.0.0.1:{port}/mcp")
        assert words in operator.row(slug)["error"]
    operator.change(slug, enabled=False)


@contextlib.contextmanager
def answering(answer: bytes | None) -> Iterator[int]:
    """Return the port of a server that answers each request alike; of none where there is nothing to say."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            length = 0
            while (line := self.rfile.readline()).strip():
                if line.lower().startswith(b"content-length:"):
                    length = int(line.split(b":")[1])
            self.rfile.read(length)
            self.wfile.write(answer or b"")

    if answer is None:
        yield free_port()
        return
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True  # a connection that brings no request is not waited for
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(("kind", "mode"), CASES)
def test_every_call_ends_in_time_and_says_how(kind: str, mode: str, speaker: Speaker, upstream_hub: Hub) -> None:
    until(lambda: f"{kind}.be" in speaker.modern("tools/list").text)
    expected = KINDS[kind][mode]

    def once() -> tuple[str, float] | None:
        # On a busy machine the time of any call may be over; what is always late never ends the wait.
        found = called(speaker, f"{kind}.be", {"mode": mode})
        return None if found[0] == "timeout" and "timeout" not in expected else found

    ended, took = until(once)
    assert ended in expected
    assert took < 60, "the bound of all calls ended it, not that of the tool"
    assert text_of(speaker.modern_call("good.echo", {"text": "untouched"})) == "untouched"
    last = upstream_hub.rows(client=speaker.name, tool=f"{kind}.be")[0]
    assert (last["error_code"] or "ok") == ended
