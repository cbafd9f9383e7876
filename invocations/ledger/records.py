"""What may be appended to the ledger, and what comes back."""

from __future__ import annotations

import asyncio
import os
import random
import time
from collections.abc import Callable, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, ClassVar, Final, cast

from invocations.columns import ENVELOPE, INVOCATION, AuditTable, Row

if TYPE_CHECKING:
    from invocations.quotas.quota import Charge, Spent

Key = tuple[str, str, str]
"""Scope, key, fingerprint of the request: see McpIdempotencyKey."""


def _bodies_of(table: AuditTable) -> itemgetter[tuple[int, ...]]:
    return itemgetter(*(table.position(name) for name in table.bodies))


class Verdict:
    """What the commit decided about one record."""

    __slots__ = (
        "first_fingerprint",
        "first_invocation_id",
        "refused_by",
        "session_alive",
        "spent",
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
        """What is in the bucket now."""
        self.refused_by: Spent | None = None
        """The quota that is used up: the intent was not written."""
        self.spent: Sequence[Spent] = ()
        """The sums of quotas that the record counts in, as the commit left them."""


class Record:
    """A queued request to the ledger."""

    future: asyncio.Future[Verdict]
    queued_at: float
    session_id: str | None = None
    """A handshake session that must be live at the moment of the commit."""
    abandoned = False
    on_abandoned: Callable[[Verdict], None] | None = None
    """Told, on the event loop, when the record was committed, or may have been, and its caller does not know."""
    in_doubt = False
    """Its COMMIT was sent and never confirmed."""

    characters = 0
    """How much of a transaction the record takes, roughly."""
    is_past: ClassVar[bool] = False
    """It tells what has happened: it is written whether or not anybody still waits for it."""
    charges: Sequence[Charge] | None = None
    """What it counts in. An intent is refused where a sum is full; all else is counted in any case."""


class Touch(Record):
    """A request of a handshake session that is no call: is the session live? Counts as activity."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id


ROW_BYTES: Final = 1024
"""What a row takes besides its bodies, with its part of the indexes, about."""


class CallRecord(Record):
    """A row about a call."""

    _bodies: ClassVar[itemgetter[tuple[int, ...]]]
    """Gives what was sent or answered."""
    _principal: ClassVar[int]
    """Where the row says who calls."""

    def __init__(self, row: Row, invocation_id: str, key: Key | None = None, session_id: str | None = None) -> None:
        self.row, self.invocation_id, self.key, self.session_id = row, invocation_id, key, session_id
        self.characters = sum(map(len, filter(None, self._bodies(row))))

    @property
    def principal(self) -> str:
        return cast("str", self.row[self._principal])

    @property
    def size_bytes(self) -> int:
        """What it takes in the database, about."""
        texts = filter(None, self._bodies(self.row))
        return ROW_BYTES + sum(len(text) if text.isascii() else len(text.encode()) for text in texts)


class Intent(CallRecord):
    """A call about to be made; its row goes to McpRequestEnvelope."""

    _bodies = _bodies_of(ENVELOPE)
    _principal = ENVELOPE.position("principal")


class Outcome(CallRecord):
    """A call whose outcome is known; its row goes to McpToolInvocation."""

    _bodies = _bodies_of(INVOCATION)
    _principal = INVOCATION.position("principal")
    is_past = True

    frees: Key | None = None
    """A key that this call claimed and did not use, as nothing ran: the next call under it is the first."""


class Use(Record):
    """What a round of the chat used of quotas. It has no row of its own.

    Where its COMMIT was sent and never confirmed, it is not sent again: counted once or not at all, never twice.
    """

    is_past = True

    def __init__(self, charges: Sequence[Charge]) -> None:
        self.charges = charges


class Take(Record):
    """Draw tokens from a bucket that holds at most `capacity`."""

    def __init__(
        self, bucket: str, capacity: int, refill_per_second: float, *, amount: float = 1, may_owe: bool = False
    ) -> None:
        """`may_owe`: what is drawn was used already, so it is drawn from an empty bucket too."""
        self.bucket, self.capacity, self.refill_per_second = bucket, capacity, refill_per_second
        self.amount, self.may_owe = amount, may_owe


_random = random.Random(os.urandom(32))  # noqa: S311 - an id, not a secret; urandom gives the lock away
_bits = _random.getrandbits
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(32)))  # else all workers make the same ids


_VERSION_7 = 0x7000_8000_0000_0000_0000
"""The version and the variant of such an id, and below it the bits that are left to chance."""
_CHANCE = 0x0FFF_3FFF_FFFF_FFFF_FFFF


def new_invocation_id() -> str:
    """Give a UUID of version 7 (RFC 9562): ids of one time stand side by side in the index."""
    text = "%032x" % (time.time_ns() // 1_000_000 << 80 | _bits(80) & _CHANCE | _VERSION_7)
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
