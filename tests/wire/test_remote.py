"""The remote profile: one stream of events, one request at a time, a closed list of errors."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

import httpx2
import pytest

from mcphub.features.remote_profile import endpoints as remote
from sessions_app.protocol.errors import INTERNAL_CODES
from tests import operations
from tests.servers import Hub, until
from tests.wire.bodies import BROKEN, NO_MESSAGE
from tests.wire.conftest import TOOLBOX
from tests.wire.edits import CHANGED, edited
from tests.wire.remote import connect
from tests.wire.speech import Speaker, request
from tests.wire.toolbox import Box

CODES = {"invalid_request", "unauthorized", "not_found", "timeout", "tool_error", "server_error", "server_busy"}


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
        kind, _, listed = line.ask(request("tools/list", {}, "l"))
        assert (kind, listed["id"]) == ("message", "l")
        assert "echo" in {tool["name"] for tool in listed["result"]["tools"]}
        kind, _, answer = line.ask(call("echo", 7, text="grüße"))
        assert (kind, answer["id"]) == ("message", 7)
        assert answer["result"]["content"][0]["text"] == "grüße"
        said = [line.ask(call("tell", 8, {"progressToken": "p"}, times=2)), line.hear(), line.hear()]
        assert [kind for kind, _, _ in said] == ["message"] * 3
        assert said[2][2]["id"] == 8
        assert [data["requestId"] for _, _, data in (*said, ("message", 2, listed), ("message", 3, answer))] == [
            *(8, 8, 8),
            "l",
            7,
        ]
    rows = until(lambda: hub.rows(session=line.id))
    assert [(row["tool_name"], row["transport"], row["caller_label"]) for row in rows] == [
        ("tell", "remote", "wire"),
        ("echo", "remote", "wire"),
    ]
    until(lambda: hub.operate(operations.values, "sessions_app.McpSession", "state", pk=line.id) == ["closed"])


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
    told = {
        "parse_error": "invalid_request",
        "invalid_arguments": "invalid_request",
        "forbidden": "unauthorized",
        "tool_not_found": "not_found",
        "session_not_found": "not_found",
        "method_not_found": "invalid_request",
        "upstream_error": "tool_error",
        "cancelled": "tool_error",
        "audit_unavailable": "server_error",
    }
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
        frames = [frame_of(foreign, 404), frame_of(unknown, 404)]
        assert frames[0]["details"].pop("correlationId") != frames[1]["details"].pop("correlationId")
        assert frames[0] == frames[1]
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
        b"",
        *BROKEN.values(),
        b"[]",
        b"null",
        b"{}",
        b'{"connectionId":7,"message":{}}',
        b'{"connectionId":"x"}',
        *(b'{"connectionId":"x","message":%b}' % message for message in NO_MESSAGE.values() if message != b""),
        json.dumps({"connectionId": "x", "message": request("initialize", {})}).encode(),
        json.dumps({"connectionId": "x", "message": request("ping")}).encode(),
        json.dumps({"connectionId": "x", "message": request("tools/list", id="i" * 400)}).encode(),
        json.dumps({"connectionId": "x", "message": {"jsonrpc": "2.0", "method": "tools/list"}}).encode(),
    ],
)
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
    # An idle connection ends after this, and the third must find both places taken, on a busy machine too.
    flags = ["--max-clients", "2", "--heartbeat-interval-ms", "200", "--request-timeout-ms", "5000"]
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
        until(lambda: hub.operate(operations.count, "sessions_app.RemoteConnection") == 0)
        with connect(speaker) as third:
            kind, _, frame = third.ask(call("hold", 1, name="never"))
            assert (kind, frame["code"], frame["requestId"]) == ("error", "timeout", 1)


def test_a_connection_hears_of_an_edit(speaker: Speaker, hub: Hub) -> None:
    with connect(speaker) as line, edited(hub, "current_time"):
        kind, _, news = line.hear()
        stamps = {"connectionId": line.id, "requestId": None, "sentAt": news["sentAt"]}
        assert (kind, news) == ("message", {"jsonrpc": "2.0", "method": CHANGED, "params": {}, **stamps})
