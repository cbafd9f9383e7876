"""Arrays of messages: each judged by itself, within bounds."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import batch, jsonrpc
from sessions_app.protocol.errors import InvalidRequest
from tests.protocol.strategies import VALUES


def request(id: Any, method: str = "ping") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method}


@pytest.mark.parametrize("values", [[], [request(number) for number in range(batch.LARGEST + 1)]])
def test_an_array_has_bounds(values: list[Any]) -> None:
    with pytest.raises(InvalidRequest, match="from 1 to 100"):
        batch.parse(values)


def test_a_wrong_message_spoils_itself_only() -> None:
    word = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = {"jsonrpc": "2.0", "id": "a", "result": {}}
    parts = batch.parse([request(1), request(1), request("1"), request(2, "initialize"), 5, [], word, answer, answer])
    kinds = [type(part).__name__ for part in parts]
    assert kinds == [
        "Request",
        "InvalidRequest",
        "Request",
        "InvalidRequest",
        "InvalidRequest",
        "InvalidRequest",
        "Notification",
        "Response",
        "Response",
    ]
    assert [part.request_id for part in parts if isinstance(part, InvalidRequest)] == [1, 2, None, None]
    assert "twice" in str(parts[1])
    assert "by itself" in str(parts[3])


@given(st.lists(VALUES, min_size=1, max_size=5))
def test_every_value_has_its_part(values: list[Any]) -> None:
    parts = batch.parse(values)
    assert len(parts) == len(values)
    assert all(isinstance(part, jsonrpc.Message | InvalidRequest) for part in parts)
