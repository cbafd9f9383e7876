"""The remote profile: one stream of events, one request at a time, a closed list of errors."""

from __future__ import annotations

import contextlib
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcphub.transports import remote
from sessions_app.protocol.errors import INTERNAL_CODES
from tests.servers import Hub, until
from tests.wire.conftest import TOOLBOX
from tests.wire.speech import Speaker, request
from tests.wire.test_bodies import BROKEN, NO_MESSAGE
from tests.wire.test_calls import Box
from tests.wire.test_streams import CHANGED, edited

CODES = {"invalid_request", "unauthorized", "not_found", "timeout", "tool_error", "server_error", "server_busy"}


class Connection:
    """An open `/mcp/events`. Each event is its name, its id and its data."""

    def __init__(self, speaker: Speaker, answer: httpx2.Response) -> None:
        self._speaker = speaker
        self._lines = answer.iter_lines()
        self.answer = answer
        kind, number, ready = self.hear()
        assert (kind, number) == ("ready", 1)
        self.ready = ready
        self.id = ready["connectionId"]

    def hear(self, *, beats: bool = False) -> tuple[str, int, Any]:
        """The next event; heartbeats are skipped unless asked for."""
        found: dict[str, str] = {}
        for line in self._lines:
            if line == "" and "data" in found:
                if found["event"] != "heartbeat" or beats:
                    return found["event"], int(found["id"]), json.loads(found["data"])
                found = {}
            elif line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                found[name] = value
        raise AssertionError("The stream ended.")

    def ended(self) -> bool:
        return all(not line or line.startswith((":", "event: heartbeat", "id:", "data:")) for line in self._lines)

    def post(self, message: Any, speaker: Speaker | None = None) -> httpx2.Response:
        return (speaker or self._speaker).post({"connectionId": self.id, "message": message}, "/mcp/messages")

    def ask(self, message: Any) -> tuple[str, int, Any]:
        accepted = self.post(message)
        assert accepted.status_code == 202, accepted.text
        assert accepted.json() == {"status": "accepted", "connectionId": self.id, "requestId": message["id"]}
        return self.hear()


@contextlib.contextmanager
def connect(speaker: Speaker) -> Iterator[Connection]:
    headers = speaker.headers(accept="text/event-stream", content_type=None)
    with speaker.http.stream("GET", "/mcp/events", headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        yield Connection(speaker, answer)


def call(tool: str, id: Any, _meta: Any = None, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", {"name": tool, "arguments": arguments, **({"_meta": _meta} if _meta else {})}, id)


def frame_of(answer: httpx2.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["link"] == '</mcp>; rel="successor-version"'
    frame: dict[str, Any] = answer.json()
    assert frame.keys() == {"code", "message", "details", "requestId"}
    assert frame["code"] in CODES
    assert frame["message"].endswith((".", ".)"))
    return frame


@pytest.fixture
def box(hub: Hub) -> Box:
    return Box(hub)


def test_a_client_lists_and_calls_and_is_on_record(hub: Hub, speaker: Speaker) -> None:
    with connect(speaker) as line:
        assert str(uuid.UUID(line.id, version=4)) == line.id
        assert line.ready["messageEndpoint"] == "/mcp/messages"
        assert line.answer.headers["link"] == '</mcp>; rel="successor-version"'
        kind, number, listed = line.ask(request("tools/list", {}, "l"))
        assert (kind, number, listed["id"]) == ("message", 2, "l")
        assert "echo" in {tool["name"] for tool in listed["result"]["tools"]}
        kind, number, answer = line.ask(call("echo", 7, text="grüße"))
        assert (kind, number, answer["id"]) == ("message", 3, 7)
        assert answer["result"]["content"][0]["text"] == "grüße"
        said = [line.ask(call("tell", 8, {"progressToken": "p"}, times=2)), line.hear(), line.hear()]
        assert [(kind, number) for kind, number, _ in said] == [("message", 4), ("message", 5), ("message", 6)]
        assert said[2][2]["id"] == 8
    rows = until(lambda: hub.rows(session=line.id))
    assert [(row["tool_name"], row["transport"], row["caller_label"]) for row in rows] == [
        ("tell", "remote", "wire"), ("echo", "remote", "wire"),
    ]  # fmt: skip
    ended = f"from sessions_app.models import McpSession as S; print(S.objects.get(pk={line.id!r}).state)"
    until(lambda: hub.shell(ended) == "closed")


def test_failures_come_as_frames_with_a_code_of_the_list(hub: Hub, speaker: Speaker, keys: dict[str, str]) -> None:
    wanted = {
        "invalid_request": call("add", 1, a="two"),
        "not_found": call("nowhere", 2),
        "timeout": call("outlast", 3, name=uuid.uuid4().hex),
        "tool_error": call("tell", 4, times=0, fail=True),
    }
    with connect(speaker) as line:
        for code, message in wanted.items():
            kind, _, frame = line.ask(message)
            assert (kind, frame["code"], frame["requestId"]) == ("error", code, message["id"])
            assert frame["message"]
            assert frame["details"]["invocationId"]
        with Speaker(hub.url, keys["lister"]) as poor, connect(poor) as other:
            assert other.ask(request("tools/list", {}, 4))[0] == "message"
            kind, _, frame = other.ask(call("add", 5, a=1, b=2))
            assert (kind, frame["code"]) == ("error", "unauthorized")
    codes = [row["error_code"] for row in hub.rows(session=line.id)]
    assert codes == ["execution_error", "timeout", "tool_not_found", "invalid_arguments"]


def test_every_code_of_the_hub_has_one_of_the_list() -> None:
    assert set(remote.CODES) == INTERNAL_CODES
    assert set(remote.CODES.values()) == CODES
    told = {"parse_error": "invalid_request", "invalid_arguments": "invalid_request", "forbidden": "unauthorized",
            "tool_not_found": "not_found", "session_not_found": "not_found", "method_not_found": "invalid_request",
            "upstream_error": "tool_error", "cancelled": "tool_error", "audit_unavailable": "server_error"}  # fmt: skip
    assert {code: remote.CODES[code] for code in told} == told


def test_one_request_at_a_time(speaker: Speaker, box: Box) -> None:
    with connect(speaker) as line:
        assert line.post(call("hold", 1, name=box.name)).status_code == 202
        busy = line.post(call("add", 2, a=1, b=2))
        assert (frame_of(busy, 503)["code"], frame_of(busy, 503)["requestId"]) == ("server_busy", 2)
        assert int(busy.headers["retry-after"]) >= 1
        until(lambda: box.has("began"))
        box.release()
        assert line.hear()[2]["id"] == 1
        assert line.ask(call("add", 3, a=1, b=2))[0] == "message"


def test_a_client_that_goes_cancels_its_request(hub: Hub, speaker: Speaker, box: Box) -> None:
    with connect(speaker) as line:
        line.post(call("hold", 1, name=box.name))
        until(lambda: box.has("began"))
    until(lambda: box.has("cancelled"))
    assert hub.row(session=line.id)["error_code"] == "cancelled"


def test_a_connection_serves_its_own_caller_only_and_ends_with_its_stream(
    speaker: Speaker, keys: dict[str, str], hub: Hub
) -> None:
    with connect(speaker) as line, Speaker(hub.url, keys["other"]) as other, Speaker(hub.url, None) as nobody:
        ask = call("add", "mine", a=1, b=2)
        foreign, unknown = line.post(ask, other), speaker.post({"connectionId": "x", "message": ask}, "/mcp/messages")
        assert frame_of(foreign, 404) == frame_of(unknown, 404)
        assert (foreign.json()["code"], foreign.json()["requestId"]) == ("not_found", "mine")
        assert frame_of(line.post(ask, nobody), 401)["code"] == "unauthorized"
        headers = nobody.headers(content_type=None)
        assert frame_of(nobody.http.get("/mcp/events", headers=headers), 401)["code"] == "unauthorized"
        session = speaker.open_session()
        other_kind = speaker.post({"connectionId": session, "message": ask}, "/mcp/messages")
        assert frame_of(other_kind, 404)["code"] == "not_found"
    until(lambda: line.post(ask).status_code == 404)


@pytest.mark.parametrize(
    "body",
    [
        b"", *BROKEN.values(), b"[]", b"null", b"{}", b'{"connectionId":7,"message":{}}', b'{"connectionId":"x"}',
        *(b'{"connectionId":"x","message":%b}' % message for message in NO_MESSAGE.values() if message != b""),
        json.dumps({"connectionId": "x", "message": request("initialize", {})}).encode(),
        json.dumps({"connectionId": "x", "message": request("ping")}).encode(),
        json.dumps({"connectionId": "x", "message": request("tools/list", id="i" * 400)}).encode(),
        json.dumps({"connectionId": "x", "message": {"jsonrpc": "2.0", "method": "tools/list"}}).encode(),
    ],
)  # fmt: skip
def test_a_bad_body_is_refused_with_a_frame(speaker: Speaker, body: bytes) -> None:
    assert frame_of(speaker.post(body, "/mcp/messages"), 400)["code"] == "invalid_request"


def test_what_is_no_such_request_is_refused_with_a_frame(speaker: Speaker) -> None:
    headers = speaker.headers(content_type=None)
    for answer, status in (
        (speaker.http.post("/mcp/events", headers=headers), 405),
        (speaker.http.get("/mcp/messages", headers=headers), 405),
        (speaker.http.get("/mcp/events", headers={**headers, "accept": "application/json"}), 406),
        (speaker.post({}, "/mcp/messages", content_type="text/plain"), 415),
        (speaker.post(b"x" * 5_000_000, "/mcp/messages"), 413),
    ):
        assert frame_of(answer, status)["code"] == "invalid_request"
    assert frame_of(speaker.post({}, "/mcp/messages", host="evil.example"), 421)["code"] == "unauthorized"


def test_places_are_bounded_and_idle_connections_give_theirs_back(tmp_path: Path) -> None:
    flags = ["--max-clients", "2", "--heartbeat-interval-ms", "200", "--request-timeout-ms", "600"]
    environment = {"MCPHUB_APPS": "tests.toolbox"}
    with Hub(tmp_path, flags=flags, environment=environment, **TOOLBOX) as hub, Speaker(hub.url, hub.key) as speaker:
        with connect(speaker) as first, connect(speaker):
            headers = speaker.headers(content_type=None)
            full = speaker.http.get("/mcp/events", headers=headers)
            assert frame_of(full, 503)["code"] == "server_busy"
            assert "/mcp" in full.json()["message"]
            kind, number, _ = first.hear(beats=True)
            assert (kind, number) == ("heartbeat", 2)
            kind, _, frame = first.hear()
            assert (kind, frame["code"], frame["requestId"]) == ("error", "timeout", None)
            assert first.ended()
        places = "from sessions_app.models import RemoteConnection as R; print(R.objects.count())"
        until(lambda: hub.shell(places) == "0")
        with connect(speaker) as third:
            kind, _, frame = third.ask(call("hold", 1, name="never"))
            assert (kind, frame["code"], frame["requestId"]) == ("error", "timeout", 1)


def test_a_connection_hears_of_an_edit(speaker: Speaker, hub: Hub) -> None:
    with connect(speaker) as line, edited(hub, "current_time"):
        kind, _, news = line.hear()
        assert (kind, news) == ("message", {"jsonrpc": "2.0", "method": CHANGED, "params": {}})
