"""Work that writes to SQLite for long lets others in between its transactions."""

from __future__ import annotations

import pytest
from django.db import connection, transaction

from sessions_app.kit.database import giving_way

pytestmark = pytest.mark.usefixtures("transactional_db")


def pauses(*, within: bool = False) -> int:
    """Return how often the block was followed by a pause."""
    paused: list[float] = []
    if within:
        with transaction.atomic(), giving_way(paused.append):
            pass
    else:
        with giving_way(paused.append):
            pass
    return len(paused)


def test_it_pauses_where_writers_wait_by_asking_again() -> None:
    assert pauses() == (connection.vendor == "sqlite")


def test_a_transaction_of_the_caller_is_not_made_longer() -> None:
    assert pauses(within=True) == 0
