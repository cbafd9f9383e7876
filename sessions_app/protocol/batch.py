"""Arrays of messages, which one revision knows (MCP 2025-03-26, Base protocol, Batching)."""

from __future__ import annotations

from typing import TypeAlias

from sessions_app.protocol import jsonrpc
from sessions_app.protocol.errors import InvalidRequest
from sessions_app.protocol.json import Json

LARGEST = 100

Part: TypeAlias = jsonrpc.Message | InvalidRequest | None
"""A message, the error that answers it, or None for a wrong notification, which nothing answers."""


def parse(values: list[Json]) -> list[Part]:
    """Return the kind of each value; raise InvalidRequest for an empty array.

    A wrong message spoils itself only. `initialize` has no place in an array, and an id has one.
    """
    if not 0 < len(values) <= LARGEST:
        raise InvalidRequest(f"An array holds from 1 to {LARGEST} messages.")
    parts: list[Part] = []
    seen: set[tuple[type, jsonrpc.RequestId]] = set()
    for value in values:
        try:
            message = jsonrpc.parse(value)
            if isinstance(message, jsonrpc.Request):
                _check(message, seen)
            parts.append(message)
        except InvalidRequest as error:
            parts.append(None if jsonrpc.is_notification(value) else error)
    return parts


def _check(request: jsonrpc.Request, seen: set[tuple[type, jsonrpc.RequestId]]) -> None:
    key = (type(request.id), request.id)
    if request.method == "initialize":
        error = InvalidRequest("initialize cannot be part of an array. Send it by itself.")
    elif key in seen:
        error = InvalidRequest("The id stands twice in the array. Give each request an id of its own.")
    else:
        seen.add(key)
        return
    error.request_id = request.id
    raise error
