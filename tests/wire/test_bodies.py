"""Bodies that are broken, hostile or not JSON-RPC: one error each, and never a 500."""

from __future__ import annotations

import json

import pytest

from tests.servers import Hub
from tests.wire.speech import MODERN, Speaker, error_of, request

PING = b'"jsonrpc":"2.0","id":1,"method":"ping"'

BROKEN = {
    "empty": b"",
    "blank": b"   ",
    "cut off": b'{"jsonrpc":"2.0","id":1,"meth',
    "two documents": b"{%b}{%b}" % (PING, PING),
    "trailing comma": b"{%b,}" % PING,
    "single quotes": b"{'jsonrpc':'2.0'}",
    "comment": b"{%b} // ping" % PING,
    "deep arrays": b"[" * 100_000,
    "deep objects": b'{"a":' * 100_000 + b"1" + b"}" * 100_000,
    "deep params": b'{%b,"params":{"a":%b1%b}}' % (PING, b"[" * 70, b"]" * 70),
    "huge integer": b'{%b,"params":{"n":%b}}' % (PING, b"9" * 5000),
    "integer beyond 64 bits": b'{%b,"params":{"n":18446744073709551616}}' % PING,
    "NaN": b'{%b,"params":{"n":NaN}}' % PING,
    "Infinity": b'{%b,"params":{"n":-Infinity}}' % PING,
    "overflowing float": b'{%b,"params":{"n":1e400}}' % PING,
    "duplicate method": b'{%b,"method":"tools/call"}' % PING,
    "duplicate deep name": b'{%b,"params":{"a":{"b":1,"b":2}}}' % PING,
    "duplicate escaped name": b'{%b,"params":{"a":1,"\\u0061":2}}' % PING,
    "lone surrogate": b'{%b,"params":{"s":"\\ud800"}}' % PING,
    "not UTF-8": b'{%b,"params":{"s":"\xff"}}' % PING,
    "UTF-16": json.dumps(request("ping")).encode("utf-16"),
    "byte order mark": b"\xef\xbb\xbf{%b}" % PING,
    "raw NUL": b"{%b}\x00" % PING,
    "control character in a string": b'{%b,"params":{"s":"\x01"}}' % PING,
}

NO_MESSAGE = {
    "array": b"[]",
    "batch": b"[{%b}]" % PING,
    "string": b'"ping"',
    "number": b"1",
    "null": b"null",
    "no version": b'{"id":1,"method":"ping"}',
    "version as a number": b'{"jsonrpc":2.0,"id":1,"method":"ping"}',
    "version 1.0": b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
    "id null": b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
    "id fraction": b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}',
    "id boolean": b'{"jsonrpc":"2.0","id":true,"method":"ping"}',
    "id object": b'{"jsonrpc":"2.0","id":{},"method":"ping"}',
    "method number": b'{"jsonrpc":"2.0","id":1,"method":1}',
    "method empty": b'{"jsonrpc":"2.0","id":1,"method":""}',
    "params array": b'{%b,"params":[1]}' % PING,
    "params string": b'{%b,"params":"x"}' % PING,
    "method and result": b'{%b,"result":{}}' % PING,
    "nothing": b'{"jsonrpc":"2.0","id":1}',
    "empty object": b"{}",
}


@pytest.mark.parametrize("version", [None, MODERN])
@pytest.mark.parametrize("body", BROKEN.values(), ids=BROKEN)
def test_what_is_no_json_is_a_parse_error(speaker: Speaker, body: bytes, version: str | None) -> None:
    answer = speaker.post(body, mcp_protocol_version=version)
    assert answer.status_code == 400, answer.text
    assert error_of(answer)["code"] == -32700
    assert answer.json().get("id") is None


@pytest.mark.parametrize("version", [None, MODERN])
@pytest.mark.parametrize("body", NO_MESSAGE.values(), ids=NO_MESSAGE)
def test_what_is_no_message_is_an_invalid_request(speaker: Speaker, body: bytes, version: str | None) -> None:
    answer = speaker.post(body, mcp_protocol_version=version)
    assert answer.status_code == 400, answer.text
    assert error_of(answer)["code"] == -32600
    value = json.loads(body)
    id = value.get("id") if isinstance(value, dict) else None
    assert answer.json().get("id") == (id if type(id) is int else None)


def test_an_unreadable_id_is_null_for_old_clients_and_absent_for_new(speaker: Speaker) -> None:
    for version in (None, "2024-11-05", "2025-03-26", "2025-06-18"):
        body = speaker.post(b"{", mcp_protocol_version=version).json()
        assert "id" in body
        assert body["id"] is None
    for version in ("2025-11-25", MODERN):
        assert "id" not in speaker.post(b"{", mcp_protocol_version=version).json()


@pytest.mark.parametrize("text", ["\u0000 NUL", "\u202e turned", "\U0001f600", "\ufffe", "a" * 90_000], ids=ascii)
def test_any_text_comes_back_and_stands_in_the_audit(speaker: Speaker, hub: Hub, text: str) -> None:
    answer = speaker.modern_call("echo", {"text": text}).json()["result"]
    assert answer["content"][0]["text"] == text
    row = hub.row(client=speaker.name)
    assert row["arguments"] == {"text": text}
    assert row["result"]["content"][0]["text"] == text
