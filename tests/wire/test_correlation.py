"""Every error says an id by which the operator finds it: in the audit, or in the log."""

from __future__ import annotations

import httpx2
import pytest

from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.piped import beside
from tests.wire.remote import connect
from tests.wire.speech import LEGACY, MODERN, Speaker, error_of, request

UNCALLED = {
    "no key": lambda one: one.post(request("ping"), authorization="Bearer wrong"),
    "no JSON": lambda one: one.post(b"{"),
    "no message": lambda one: one.post(b"{}", mcp_protocol_version=MODERN),
    "no session": lambda one: one.post(request("ping"), mcp_protocol_version=LEGACY),
    "an unknown session": lambda one: one.in_session("nobody", "ping"),
    "an unknown method": lambda one: one.modern("none"),
    "an unknown method in a session": lambda one: one.in_session(one.open_session(), "none"),
    "another HTTP method": lambda one: one.http.put("/mcp", headers=one.headers()),
    "a body too large": lambda one: one.post(b"x" * 5_000_000),
    "a foreign host": lambda one: one.post(request("ping"), host="evil.example"),
    "messages of no session": lambda one: one.post(request("ping"), "/messages?sessionId=nobody"),
}


def is_logged(hub: Hub, id: str) -> bool:
    return any(f"correlation_id={id!r}" in line for line in hub.log().splitlines())


@pytest.mark.parametrize("case", UNCALLED)
def test_an_error_before_a_call_says_an_id_that_the_log_says_too(hub: Hub, speaker: Speaker, case: str) -> None:
    ids = [error_of(UNCALLED[case](speaker))["data"]["correlationId"] for _ in range(2)]
    assert len(set(ids)) == 2
    until(lambda: all(is_logged(hub, id) for id in ids))


def test_an_error_of_a_call_says_the_id_of_its_row(hub: Hub, speaker: Speaker) -> None:
    data = error_of(speaker.modern_call("nowhere"))["data"]
    assert data["correlationId"] == data["invocationId"]
    assert is_logged(hub, data["correlationId"])


def test_an_error_on_an_event_stream_says_one(hub: Hub, speaker: Speaker) -> None:
    with speaker.streaming("GET", path="/sse", content_type=None) as (_, heard):
        speaker.post(request("tools/list"), next(heard)["endpoint"])
        assert is_logged(hub, next(heard)["error"]["data"]["correlationId"])


def test_an_error_on_standard_output_says_one(hub: Hub) -> None:
    with beside(hub) as pipe:
        for line in (b"{\n", request("none"), [request("ping")]):
            id = pipe.ask(line)["error"]["data"]["correlationId"]
            assert f"correlation_id={id!r}" in pipe.log()


def test_a_frame_of_the_remote_profile_says_one(hub: Hub, speaker: Speaker) -> None:
    refused = speaker.post({"connectionId": "x", "message": request("ping")}, "/mcp/messages")
    assert is_logged(hub, refused.json()["details"]["correlationId"])
    with connect(speaker) as line:
        _, _, frame = line.ask(request("tools/call", {"name": "nowhere", "arguments": {}}))
        assert frame["details"]["correlationId"] == frame["details"]["invocationId"]


def test_an_error_of_the_chat_says_one_in_a_header(hub: Hub, speaker: Speaker) -> None:
    answer = speaker.post({"model": "none", "messages": []}, "/v1/chat/completions")
    assert answer.status_code >= 400
    assert is_logged(hub, answer.headers["x-request-id"])


@pytest.mark.parametrize(
    ("path", "status"), [("/api/invocations/none/", 404), ("/api/invocations/?limit=x", 400), ("/api/none", 404)]
)
def test_an_error_of_rest_says_one_in_a_header(hub: Hub, path: str, status: int) -> None:
    answer = httpx2.get(hub.url + path, headers={"authorization": f"Bearer {hub.key}"}, timeout=PATIENCE_SECONDS)
    assert answer.status_code == status
    until(lambda: is_logged(hub, answer.headers["x-request-id"]))
    assert "x-request-id" not in httpx2.get(f"{hub.url}/api/schema/", timeout=PATIENCE_SECONDS).headers
