"""What may be appended to the ledger, and what comes back."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any

Row = tuple[Any, ...]
Key = tuple[str, str, str]
"""Scope, key, fingerprint of the request: see McpIdempotencyKey."""


class Verdict:
    """What the commit decided about one record."""

    __slots__ = ("first_fingerprint", "first_invocation_id", "session_alive", "superseded", "wait_seconds")

    def __init__(self, *, session_alive: bool = True, wait_seconds: float = 0.0) -> None:
        self.session_alive = session_alive
        self.first_invocation_id = ""
        """The call that was first under the same key; empty when this one is."""
        self.first_fingerprint = ""
        self.superseded = False
        """Another process took this one for dead and recorded the call as interrupted."""
        self.wait_seconds = wait_seconds
        """Until the bucket gives again; 0: it gave."""


class Record:
    """A queued request to the ledger."""

    __slots__ = ("abandoned", "future", "on_abandoned", "queued_at", "session_id")

    future: asyncio.Future[Verdict]
    queued_at: float

    def __init__(self, session_id: str | None = None) -> None:
        self.session_id = session_id
        """A handshake session that must be live at the moment of the commit."""
        self.abandoned = False
        self.on_abandoned: Callable[[Verdict], None] | None = None
        """Told, on the event loop, when the record was committed after its caller had gone."""

    def gone(self) -> bool:
        return self.abandoned or self.future.cancelled()


class Touch(Record):
    """A request of a handshake session that is no call: is the session live? Counts as activity."""

    __slots__ = ()


class Intent(Record):
    """A call about to be made; its row goes to McpRequestEnvelope."""

    __slots__ = ("invocation_id", "key", "row")

    def __init__(self, row: Row, invocation_id: str, key: Key | None, session_id: str | None) -> None:
        super().__init__(session_id)
        self.row, self.invocation_id, self.key = row, invocation_id, key


class Outcome(Record):
    """A call whose outcome is known; its row goes to McpToolInvocation."""

    __slots__ = ("invocation_id", "key", "row")

    def __init__(
        self, row: Row, invocation_id: str, key: Key | None = None, session_id: str | None = None
    ) -> None:
        super().__init__(session_id)
        self.row, self.invocation_id, self.key = row, invocation_id, key


class Take(Record):
    """Draw one token from a bucket that refills at `per_minute` and holds as many."""

    __slots__ = ("bucket", "per_minute")

    def __init__(self, bucket: str, per_minute: int) -> None:
        super().__init__()
        self.bucket, self.per_minute = bucket, per_minute


def new_invocation_id() -> str:
    """Give a UUID of version 7 (RFC 9562): ids of one time stand side by side in the index."""
    raw = (time.time_ns() // 1_000_000 << 80) | int.from_bytes(os.urandom(10))
    raw = raw & ~(0xF << 76) | (7 << 76)
    raw = raw & ~(0x3 << 62) | (2 << 62)
    text = f"{raw:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
