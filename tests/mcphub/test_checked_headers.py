"""What the headers decide, and what of it a process remembers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mcphub.transports import checked_headers
from sessions_app.protocol import envelope
from sessions_app.protocol.errors import Forbidden, InvalidRequest, MisdirectedRequest

_REPEATED = (
    (b"host", b"127.0.0.1:8000"),
    (b"accept", b"application/json, text/event-stream"),
    (b"content-type", b"application/json"),
)


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    checked_headers._kept.clear()
    yield
    checked_headers._kept.clear()


def _checked(*more: tuple[bytes, bytes]) -> checked_headers.HeaderVerdict:
    headers = envelope.collect((*_REPEATED, *more))
    verdict = checked_headers.check(headers)
    if not verdict.is_kept:
        checked_headers.keep(headers, verdict)
    return verdict


def test_sessions_tools_and_tokens_add_nothing_to_what_is_kept() -> None:
    for number in range(300):
        text = b"%d" % number
        more = (
            (b"authorization", b"Bearer " + text),
            (b"mcp-session-id", text),
            (b"mcp-method", b"tools/call"),
            (b"mcp-name", text),
            (b"mcp-param-city", text),
            (b"last-event-id", text),
            (b"idempotency-key", text),
            (b"traceparent", text),
            (b"x-request-id", text),
        )
        _checked(*more)
        headers = envelope.collect(more)
        assert headers.session_id == headers.name == headers.params["city"] == text.decode()
        assert headers.last_event_id == headers.idempotency_key == text.decode()
    assert len(checked_headers._kept) == 1


def test_requests_of_one_client_share_a_verdict_whatever_their_keys_are() -> None:
    first, second = _checked((b"authorization", b"Bearer a")), _checked((b"authorization", b"Bearer b"))
    assert second is first
    assert second.is_kept


def test_a_kept_verdict_lets_no_other_host_or_origin_in() -> None:
    assert _checked((b"origin", b"http://127.0.0.1:8000")).origin == b"http://127.0.0.1:8000"
    with pytest.raises(Forbidden):
        _checked((b"origin", b"https://elsewhere.example"))
    with pytest.raises(InvalidRequest):
        _checked((b"host", b"127.0.0.1:8000"))
    with pytest.raises(MisdirectedRequest):
        checked_headers.check(envelope.collect(((b"host", b"elsewhere.example"), *_REPEATED[1:])))


def test_what_is_kept_is_bounded_in_number_and_in_length() -> None:
    for number in range(2 * checked_headers._MOST_KEPT):
        _checked((b"accept", b"text/x-%d" % number))
        assert len(checked_headers._kept) <= checked_headers._MOST_KEPT
    checked_headers._kept.clear()
    assert not _checked((b"accept", b"a" * checked_headers._LARGEST_KEPT)).is_kept
    assert not checked_headers._kept
