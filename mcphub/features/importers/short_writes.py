"""Many rows written in short transactions: on SQLite there is one writer, and calls are recorded meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final

from django.db import connection, transaction

LONGEST_SECONDS: Final = 0.25
"""Of one transaction. The next begins after a pause."""
_PAUSE_SECONDS: Final = 0.15
"""On SQLite: a waiter for the write lock retries after a tenth of a second at most."""


def in_turns(deeds: Sequence[Callable[[], None]], *, told: Callable[[int], None] = lambda done: None) -> None:
    """Do these in their order, as many in a transaction as a quarter of a second holds.

    `told` receives the number of completed ones after each transaction. Passes on the exception of a transaction:
    earlier ones stay written.
    """
    done = 0
    while done < len(deeds):
        if done and connection.vendor == "sqlite":
            time.sleep(_PAUSE_SECONDS)
        ends_at = time.monotonic() + LONGEST_SECONDS
        with transaction.atomic():
            while done < len(deeds):
                deeds[done]()
                done += 1
                if time.monotonic() > ends_at:
                    break
        told(done)
