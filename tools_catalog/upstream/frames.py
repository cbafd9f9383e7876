"""Messages about calls between the processes of a hub: frames of JSON, and errors that arrive unchanged.

Both ends are the same program, and nobody else reaches the socket; so frames are bounded but not validated.
"""

from __future__ import annotations

import asyncio
import json as stdlib
from collections.abc import Mapping
from typing import Any, Final

from sessions_app.kit import decoding
from sessions_app.protocol import errors, json

Json = Any
Frame = dict[str, Json]

LARGEST_BYTES: Final = 512 * 1024 * 1024
"""Twice the maximum answer of an upstream; frames escape characters that JSON cannot hold."""
_LENGTH_BYTES: Final = 4


class FrameStream:
    """Frames both ways over one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def send(self, kind: str, **members: Json) -> None:
        """Send one frame; raises OSError without a reader, ValueError for invalid JSON."""
        self.put(kind, **members)
        await self._writer.drain()

    def put(self, kind: str, **members: Json) -> None:
        """Send one small frame without waiting for room."""
        encoded = json.dumps({"kind": kind, **members})
        if len(encoded) > LARGEST_BYTES:
            raise ValueError("It is too large for another process of the hub.")
        self._writer.write(len(encoded).to_bytes(_LENGTH_BYTES, "big") + encoded)

    async def receive(self) -> Frame:
        """Return the next frame; raises EOFError at the end, OSError where the connection broke."""
        size = int.from_bytes(await self._reader.readexactly(_LENGTH_BYTES), "big")
        if size > LARGEST_BYTES:
            raise OSError("A frame is too large.")
        # As deep and odd as upstreams answer.
        frame: Frame = await decoding.answers.decoded(await self._reader.readexactly(size), stdlib.loads)
        return frame

    def close(self) -> None:
        self._writer.close()


def packed(error: errors.HubError) -> Frame:
    """Return an error as members of a frame."""
    kind = next(each for each in type(error).__mro__ if getattr(errors, each.__name__, None) is each)
    return {
        "type": kind.__name__,
        "message": error.message,
        "details": error.details,
        "retry_after_seconds": error.retry_after_seconds,
        "was_not_made": error.was_not_made,
        "wire_code": error.wire_code,
        "fails_task": isinstance(error, errors.ToolFailure) and error.fails_task,
    }


def unpacked(frame: Mapping[str, Json]) -> errors.HubError:
    """Return the error that `packed` was given."""
    found = getattr(errors, str(frame["type"]), errors.ServerError)
    if not isinstance(found, type) or not issubclass(found, errors.HubError):
        found = errors.ServerError
    error = found.__new__(found)
    # Past the constructors of those that build their details from arguments: here they are whole already.
    errors.HubError.__init__(error, frame["message"], **frame["details"])
    error.retry_after_seconds = frame["retry_after_seconds"]
    error.was_not_made = frame["was_not_made"]
    error.wire_code = frame["wire_code"]
    if isinstance(error, errors.ToolFailure):
        error.fails_task = frame["fails_task"]
    return error
