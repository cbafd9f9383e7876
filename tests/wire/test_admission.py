"""What the hub refuses before it knows what is asked: Host, Origin, key, method, Accept, Content-Type, body."""

from __future__ import annotations

from pathlib import Path

import httpx2
import pytest

from tests import operations
from tests.servers import Hub, until
from tests.waiting import PATIENCE_SECONDS
from tests.wire.speech import BOTH, MODERN, Speaker, error_of, hello, raw_answer, request, wire

LARGEST = 4 * 1024 * 1024


def refusal(answer: httpx2.Response) -> tuple[int, str]:
    """Status and internal code of an answer that refuses."""
    return answer.status_code, error_of(answer)["data"]["errorCode"]


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("127.0.0.1:1", 200),
        ("LOCALHOST:8000", 200),
        ("[::1]:8000", 200),
        ("evil.example", 421),
        ("127.0.0.1.evil.example", 421),
        ("localhost@evil.example", 400),
        ("local host", 400),
        ("", 400),
    ],
)
def test_a_host_that_is_not_the_hubs_own_is_refused(speaker: Speaker, host: str, status: int) -> None:
    answer = speaker.modern("server/discover", host=host)
    assert answer.status_code == status
    if status == 421:
        assert refusal(answer) == (421, "host_refused")


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:6274", 200),
        ("http://127.0.0.1", 200),
        ("https://app.example", 200),
        ("https://app.example.evil.example", 403),
        ("http://app.example", 403),
        ("https://evil.example", 403),
        ("null", 403),
        ("file://", 403),
        ("http://localhost.evil.example", 403),
    ],
)
def test_pages_of_other_origins_are_refused_in_both_eras(speaker: Speaker, origin: str, status: int) -> None:
    answers = [speaker.modern("server/discover", origin=origin), speaker.post(hello(), origin=origin)]
    assert [answer.status_code for answer in answers] == [status, status]
    for answer in answers:
        if status == 403:
            assert refusal(answer) == (403, "forbidden")
            assert "access-control-allow-origin" not in answer.headers
        else:
            assert answer.headers["access-control-allow-origin"] == origin
            assert "mcp-session-id" in answer.headers["access-control-expose-headers"]
            assert answer.headers["vary"] == "Origin"


def test_a_preflight_of_an_allowed_page_needs_no_key(speaker: Speaker) -> None:
    asked = {
        "origin": "https://app.example",
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization,mcp-session-id,mcp-protocol-version",
    }
    answer = speaker.http.options("/mcp", headers=asked)
    assert (answer.status_code, answer.content) == (204, b"")
    assert answer.headers["access-control-allow-origin"] == "https://app.example"
    assert set(answer.headers["access-control-allow-methods"].split(", ")) == {"POST", "GET", "DELETE"}
    assert answer.headers["access-control-allow-headers"] == asked["access-control-request-headers"]
    foreign = speaker.http.options("/mcp", headers={**asked, "origin": "https://evil.example"})
    assert refusal(foreign) == (403, "forbidden")


@pytest.mark.parametrize("path", ["/mcp", "/mcp/", "/messages"])
@pytest.mark.parametrize(
    "authorization", [None, "", "Bearer", "Bearer mcph_00000000_wrong", "Basic dTpw", b"Bearer \xe9\xe8"]
)
def test_without_a_valid_key_nobody_comes_in(hub: Hub, path: str, authorization: str | bytes | None) -> None:
    headers = {"accept": BOTH, "content-type": "application/json"}
    if authorization is not None:
        headers["authorization"] = authorization  # type: ignore[assignment]
    answer = httpx2.post(f"{hub.url}{path}", json=hello(), headers=headers, timeout=PATIENCE_SECONDS)
    assert refusal(answer) == (401, "unauthorized")
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_a_revoked_key_is_refused_soon_after(hub: Hub) -> None:
    key = hub.operate(operations.issue_key, "brief", ["tools:list"])
    with Speaker(hub.url, key) as brief:
        until(lambda: brief.modern("tools/list").status_code == 200)
        hub.operate(operations.revoke_key, "brief")
        until(lambda: brief.modern("tools/list").status_code == 401)


def test_methods_that_are_not_served_are_named(speaker: Speaker) -> None:
    for method, path, allowed in [
        ("PUT", "/mcp", "POST, GET, DELETE"),
        ("PATCH", "/mcp", "POST, GET, DELETE"),
        ("POST", "/sse", "GET"),
        ("GET", "/messages", "POST"),
        ("POST", "/live", "GET, HEAD"),
    ]:
        answer = speaker.http.request(method, path, headers=speaker.headers())
        assert refusal(answer) == (405, "method_not_allowed"), (method, path)
        assert answer.headers["allow"] == allowed


@pytest.mark.parametrize("method", ["GET", "DELETE"])
def test_the_stateless_version_takes_post_only(speaker: Speaker, method: str) -> None:
    headers = speaker.headers(mcp_protocol_version=MODERN, mcp_session_id="any")
    answer = speaker.http.request(method, "/mcp", headers=headers)
    assert refusal(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


@pytest.mark.parametrize(
    ("accept", "status"),
    [
        (BOTH, 200),
        ("*/*", 200),
        ("application/*, text/*", 200),
        ("text/event-stream;q=0.5,application/json", 200),
        ("application/json", 406),
        ("text/event-stream", 406),
        ("text/html", 406),
        (None, 406),
    ],
)
def test_accept_must_cover_both_forms_of_an_answer(speaker: Speaker, accept: str | None, status: int) -> None:
    raw = speaker.http.build_request("POST", "/mcp", json=hello(), headers=speaker.headers(accept=accept))
    if accept is None:
        del raw.headers["accept"]
    answer = speaker.http.send(raw)
    modern = speaker.modern("server/discover", accept=accept or "text/plain")
    assert (answer.status_code, modern.status_code) == (status, status)
    if status == 406:
        assert refusal(answer) == refusal(modern) == (406, "not_acceptable")


@pytest.mark.parametrize(
    ("kind", "status"),
    [
        ("application/json", 200),
        ("Application/JSON; charset=utf-8", 200),
        ("text/plain", 415),
        ("application/x-www-form-urlencoded", 415),
        ("application/jsonp", 415),
        (None, 415),
    ],
)
def test_a_body_must_say_that_it_is_json(speaker: Speaker, kind: str | None, status: int) -> None:
    for answer in (speaker.post(hello(), content_type=kind), speaker.modern("server/discover", content_type=kind)):
        assert answer.status_code == status
        if status == 415:
            assert refusal(answer) == (415, "unsupported_media_type")


def test_a_body_over_the_limit_is_refused_with_the_limit(speaker: Speaker) -> None:
    answer = speaker.post(b" " * (LARGEST + 1))
    assert refusal(answer) == (413, "payload_too_large")
    assert error_of(answer)["data"]["details"] == {"limit_bytes": LARGEST}
    fitting = request("ping")
    assert speaker.post(b" " * (LARGEST - 200) + str(fitting).replace("'", '"').encode()).status_code == 400


def test_a_body_without_an_announced_length_is_measured_too(speaker: Speaker, hub: Hub) -> None:
    with wire(hub.url) as connection:
        lines = [f"{name}: {value}" for name, value in speaker.headers(host="127.0.0.1").items()]
        head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "transfer-encoding: chunked", "", ""])
        connection.sendall(head.encode())
        chunk = b"%x\r\n%b\r\n" % (65536, b" " * 65536)
        for _ in range(LARGEST // 65536 + 1):
            connection.sendall(chunk)
        assert raw_answer(connection)[0] == 413


def test_a_body_that_dribbles_is_cut_off(tmp_path: Path) -> None:
    environment = {"MCPHUB_LIMITS": "body_timeout_seconds=0.5"}
    with (
        Hub(tmp_path, environment=environment) as hub,
        Speaker(hub.url, hub.key) as speaker,
        wire(hub.url) as connection,
    ):
        lines = [f"{name}: {value}" for name, value in speaker.headers(host="127.0.0.1").items()]
        head = "\r\n".join(["POST /mcp HTTP/1.1", *lines, "content-length: 500", "", ""])
        connection.sendall(head.encode() + b'{"jsonrpc":')
        status, body = raw_answer(connection)
    assert status == 408
    assert b'"body_timeout"' in body


def test_probes_need_no_key_and_name_their_parts(hub: Hub) -> None:
    assert httpx2.get(f"{hub.url}/live", timeout=PATIENCE_SECONDS).json() == {"status": "ok"}
    ready = httpx2.get(f"{hub.url}/ready", timeout=PATIENCE_SECONDS)
    assert ready.status_code == 200
    assert ready.json()["parts"] == {"database": "ok", "ledger": "ok", "durability": "ok", "catalogue": "ok"}
    about = httpx2.get(f"{hub.url}/.well-known/mcp", timeout=PATIENCE_SECONDS).json()
    assert about["protocolVersions"] == ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
    for nowhere in ("oauth-protected-resource/nowhere", "oauth-authorization-server/mcp", "openid-configuration"):
        assert httpx2.get(f"{hub.url}/.well-known/{nowhere}", timeout=PATIENCE_SECONDS).status_code == 404


def test_the_well_known_address_describes_the_hub(hub: Hub) -> None:
    about = httpx2.get(f"{hub.url}/.well-known/mcp", timeout=PATIENCE_SECONDS).json()
    assert (about["name"], about["title"]) == ("mcphub", "MCP Hub")
    assert about["version"]
    assert about["transports"] == [
        {"type": "streamable-http", "url": f"{hub.url}/mcp"},
        {"type": "sse", "url": f"{hub.url}/sse"},
    ]
    assert about["capabilities"].keys() >= {"tools", "resources", "prompts"}
