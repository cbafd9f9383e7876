"""What the request headers say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.envelope import accepts, accepts_sse, collect, decode_header, encode_header

from .strategies import TEXT


def test_known_headers_are_collected_and_others_ignored():
    headers = collect(
        [
            (b"host", b"hub:8000"),
            (b"mcp-protocol-version", b" 2026-07-28\t"),
            (b"mcp-method", b"tools/call"),
            (b"mcp-name", b"t"),
            (b"mcp-param-region", b"eu"),
            (b"mcp-session-id", b"s"),
            (b"last-event-id", b"9"),
            (b"accept", b"*/*"),
            (b"content-type", b"application/json"),
            (b"authorization", b"Bearer k"),
            (b"origin", b"null"),
            (b"idempotency-key", b"\xe9"),
            (b"cookie", b"x=1"),
        ]
    )
    assert (headers.protocol_version, headers.method, headers.name) == ("2026-07-28", "tools/call", "t")
    assert headers.params == {"region": "eu"}
    assert (headers.session_id, headers.last_event_id, headers.accept) == ("s", "9", "*/*")
    assert (headers.content_type, headers.authorization, headers.origin) == ("application/json", "Bearer k", "null")
    assert (headers.host, headers.idempotency_key, headers.duplicates) == ("hub:8000", "é", ())


def test_absent_headers_are_none():
    headers = collect([])
    assert (headers.protocol_version, headers.accept, headers.params) == (None, None, {})


def test_repeated_headers_are_noted_and_the_first_is_kept():
    headers = collect([(b"mcp-name", b"a"), (b"mcp-name", b"a"), (b"mcp-param-x", b"1"), (b"mcp-param-x", b"2")])
    assert headers.name == "a"
    assert headers.params == {"x": "1"}
    assert headers.duplicates == ("mcp-name", "mcp-param-x")


def test_repeated_accept_lines_are_one_list():
    headers = collect([(b"accept", b"application/json"), (b"accept", b"text/event-stream")])
    assert accepts(headers.accept)
    assert headers.duplicates == ()


@pytest.mark.parametrize(
    ("accept", "both", "sse"),
    [
        (None, False, False),
        ("", False, False),
        ("application/json, text/event-stream", True, True),
        ("text/event-stream;charset=utf-8 , APPLICATION/JSON; q=0.5", True, True),
        ("*/*", True, True),
        ("application/*, text/*", True, True),
        ("application/json", False, False),
        ("text/event-stream", False, True),
        ("application/json;q=0, */*", False, True),
        ("*/*;q=0", False, False),
        ("*/*, text/event-stream; q=0.000", False, False),
        ("*/*, text/event-stream; q=0.001", True, True),
        ("text/event-stream;q=1, */*;q=0, application/json", True, True),
        ("application/jsonx, text/event-streams", False, False),
        (",,;", False, False),
    ],
)
def test_accept_needs_both_types(accept, both, sse):
    assert accepts(accept) is both
    assert accepts_sse(accept) is sse


@given(TEXT)
def test_an_encoded_header_decodes_to_its_text(text):
    encoded = encode_header(text)
    assert decode_header(encoded) == text
    assert encoded.isascii()
    assert encoded == encoded.strip()
    assert "\n" not in encoded


@given(st.text(st.characters(max_codepoint=255)))
def test_any_header_value_decodes_or_is_a_value_error(value):
    for candidate in (value, f"=?base64?{value}?="):
        try:
            decode_header(candidate)
        except ValueError:
            continue


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("plain", "plain"),
        ("", ""),
        ("=?base64?w6k=?=", "é"),
        ("=?base64??=", ""),
        ("=?base64?w6k=", "=?base64?w6k="),
        ("w6k=?=", "w6k=?="),
        ("=?BASE64?w6k=?=", "=?BASE64?w6k=?="),
        ("=?base64?=", "=?base64?="),
    ],
)
def test_a_value_without_both_markers_is_literal(value, text):
    assert decode_header(value) == text


@pytest.mark.parametrize("inner", ["w6k", "w6l=", "w6k=\n", "w6-_", "é", "/w==", " w6k="])
def test_a_broken_encoding_is_refused(inner):
    with pytest.raises(ValueError):
        decode_header(f"=?base64?{inner}?=")


@pytest.mark.parametrize("text", [" x", "x ", "é", "a\nb", "=?base64?x?="])
def test_what_a_header_cannot_carry_is_encoded(text):
    assert encode_header(text).startswith("=?base64?")


def test_plain_text_stays_plain():
    assert encode_header("get weather/2") == "get weather/2"
