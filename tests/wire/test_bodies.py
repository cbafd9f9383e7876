"""Bodies that are broken, hostile or not JSON-RPC: one error each, and never a 500."""

from __future__ import annotations

import json

import pytest

from tests.servers import Hub
from tests.wire.bodies import BROKEN, NO_MESSAGE
from tests.wire.speech import MODERN, Speaker, error_of


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
