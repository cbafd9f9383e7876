"""A statement that would take too long is ended, and nothing else is."""

from __future__ import annotations

import pytest
from django.db import OperationalError, connection

from sessions_app.kit.database import TookTooLong, at_most

pytestmark = pytest.mark.django_db

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT (i + 1) % 1000 FROM n) SELECT max(i) FROM n"
LONG = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000) SELECT max(i) FROM n"


def ask(sql):
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return cursor.fetchone()[0]


def test_an_endless_statement_is_ended():
    with pytest.raises(TookTooLong), at_most(0.02):
        ask(ENDLESS)


def test_what_comes_after_is_not_bounded_and_works():
    with pytest.raises(TookTooLong), at_most(0.02):
        ask(ENDLESS)
    assert ask(LONG) == 50000
    with at_most(60):
        assert ask("SELECT 7") == 7
    assert ask(LONG) == 50000
    if connection.vendor == "postgresql":
        assert ask("SHOW statement_timeout") == "0"


def test_a_bound_of_the_caller_holds_again_afterwards():
    if connection.vendor == "postgresql":
        ask("SELECT set_config('statement_timeout', '55s', true)")
    with at_most(60):
        ask("SELECT 7")
    with pytest.raises(TookTooLong), at_most(0.02):
        ask(ENDLESS)
    if connection.vendor == "postgresql":
        assert ask("SHOW statement_timeout") == "55s"
    assert ask(LONG) == 50000


def test_another_error_of_a_statement_stays_what_it_is():
    with pytest.raises(Exception, match="no_such_table") as raised, at_most(60):
        ask("SELECT * FROM no_such_table")
    assert not isinstance(raised.value, TookTooLong)


def test_an_operational_error_that_is_none_of_time_passes():
    with pytest.raises(OperationalError, match="away"), at_most(60):
        raise OperationalError("away")
