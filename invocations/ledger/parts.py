"""Parts that a feature adds to the ledger's commits: sums counted in the transaction of their rows.

A record lists its additions by part. An intent can be refused; past events are always counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from invocations.ledger.records import Record
    from sessions_app.kit.database import Dedicated


class LedgerPart(Protocol):
    """One a process. Used on the ledger's thread."""

    name: str
    """Parts are opened in the order of their names in every process, so that none waits for another in a circle."""

    def open(self, database: Dedicated, records: Sequence[Record], now: float) -> BatchPart:
        """Begin with the records of one batch that bring something to this part. Called within the transaction."""
        ...


class BatchPart(Protocol):
    """A part of one transaction."""

    def admit(self, brought: Any) -> Any:
        """Count an intent's addition, or nothing: return the refusal; None if it is admitted."""
        ...

    def add(self, brought: Any) -> None:
        """Count a past event."""
        ...

    def write(self) -> None:
        """Write the counts, once, before the commit."""
        ...

    def said(self, brought: Any) -> Any:
        """Return the part's statement for the record's caller, after the batch."""
        ...
