"""Records of the ledger, and their verdicts."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import TYPE_CHECKING, Any, ClassVar, Final

from invocations.columns import ENVELOPE, INVOCATION, AuditTable, Row
from sessions_app.protocol import json

if TYPE_CHECKING:
    from invocations.ledger.parts import LedgerPart

Key = tuple[str, str, str]
"""Scope, key, fingerprint of the request: see McpIdempotencyKey."""


def _bodies_of(table: AuditTable) -> Callable[[Row], tuple[Any, ...]]:
    """Return a function from a row to its bodies."""
    positions = [table.position(name) for name in table.bodies]
    return itemgetter(*positions) if len(positions) > 1 else itemgetter(slice(positions[0], positions[0] + 1))


NOTHING: Final[Mapping[Any, Any]] = {}


class Verdict:
    """The commit's decision about one record."""

    __slots__ = (
        "first_fingerprint",
        "first_invocation_id",
        "refused_by",
        "said",
        "session_alive",
        "superseded",
        "tokens",
        "wait_seconds",
    )

    def __init__(self, *, session_alive: bool = True, wait_seconds: float = 0.0, tokens: float = 0.0) -> None:
        self.session_alive = session_alive
        self.first_invocation_id = ""
        """The call that was first under the same key; empty when this one is."""
        self.first_fingerprint = ""
        self.superseded = False
        """Another process took this one for dead and recorded the call as interrupted."""
        self.wait_seconds = wait_seconds
        """Until the bucket gives again; 0: it gave."""
        self.tokens = tokens
        """The current content of the bucket."""
        self.refused_by: tuple[LedgerPart, Any] | None = None
        """The part that refuses the intent, which was not written, and its reason."""
        self.said: Mapping[LedgerPart, Any] = NOTHING
        """Statements of the parts that the record adds to."""


class Record:
    """A queued request to the ledger."""

    future: asyncio.Future[Verdict]
    queued_at: float
    session_id: str | None = None
    """A handshake session that must be live at the moment of the commit."""
    abandoned = False
    on_abandoned: Callable[[Verdict], None] | None = None
    """Called on the event loop if the record was, or may have been, committed after its caller left."""
    in_doubt = False
    """Its COMMIT was sent and never confirmed."""

    characters = 0
    """How much of a transaction the record takes, roughly."""
    is_past: ClassVar[bool] = False
    """It records a past event: it is written even if nobody waits for it."""
    brings: Mapping[LedgerPart, Any] | None = None
    """Its additions to parts of the commit. An intent may be refused; all else is counted in any case."""


class Touch(Record):
    """A request of a handshake session that is no call: is the session live? Counts as activity."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


ROW_BYTES: Final = 1024
"""Approximate size of a row besides its bodies, with its share of the indexes."""


class CallRecord(Record):
    """A row about a call."""

    _bodies: ClassVar[Any]
    """A function from a row to what was sent or answered."""
    _principal: ClassVar[int]
    """The position of the caller in the row."""

    def __init__(self, row: Row, invocation_id: str, key: Key | None = None, session_id: str | None = None) -> None:
        self.row, self.invocation_id, self.key, self.session_id = row, invocation_id, key, session_id
        bodies = [*filter(None, self._bodies(row))]
        self.characters = characters = sum(map(len, bodies))
        self.size_bytes = ROW_BYTES + (characters if all(map(str.isascii, bodies)) else sum(map(json.size, bodies)))
        """Its approximate size in the database."""
        self.principal: Any = row[self._principal]


class Intent(CallRecord):
    """A call about to be made; its row goes to McpRequestEnvelope."""

    _bodies = _bodies_of(ENVELOPE)
    _principal = ENVELOPE.position("principal")


class Outcome(CallRecord):
    """A call with a known outcome; its row goes to McpToolInvocation."""

    _bodies = _bodies_of(INVOCATION)
    _principal = INVOCATION.position("principal")
    is_past = True

    frees: Key | None = None
    """A key that this call claimed and did not use, as nothing ran: the next call under it is the first."""


class Use(Record):
    """A record without a row of its own that adds to parts of the commit.

    Where its COMMIT was sent and never confirmed, it is not sent again: counted once or not at all, never twice.
    """

    is_past = True

    def __init__(self, brings: Mapping[LedgerPart, Any]) -> None:
        self.brings = brings


class Take(Record):
    """Draw tokens from a bucket that holds at most `capacity`."""

    def __init__(
        self, bucket: str, capacity: int, refill_per_second: float, *, amount: float = 1, may_owe: bool = False
    ) -> None:
        """`may_owe`: the amount is already used, so an empty bucket goes into debt."""
        self.bucket, self.capacity, self.refill_per_second = bucket, capacity, refill_per_second
        self.amount, self.may_owe = amount, may_owe


_random = random.Random(os.urandom(32))  # noqa: S311 - an id, not a secret; urandom gives the lock away
_bits = _random.getrandbits
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))  # else all workers make the same ids


_id = "{:08x}-{:04x}-7{:03x}-{:04x}-{:012x}".format


def new_invocation_id() -> str:
    """Return a UUID of version 7 (RFC 9562): ids of one time stand side by side in the index."""
    moment = time.time_ns() // 1_000_000
    return _id(moment >> 16, moment & 0xFFFF, _bits(12), 0x8000 | _bits(14), _bits(48))
