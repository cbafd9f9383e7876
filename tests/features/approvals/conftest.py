"""A person answers for the keys by which these tests ask, so one other person is enough."""

from __future__ import annotations

import pytest

from sessions_app import accountable
from tests.factories import UserFactory

CALLERS = ("key:1", "key:2", "key:one")
NUMBER = 10_000
"""Of a person who decides nothing here."""


@pytest.fixture(autouse=True)
def somebody_answers_for_the_keys(request: pytest.FixtureRequest) -> None:
    marker = request.node.get_closest_marker("django_db")
    is_committed = "transactional_db" in request.fixturenames or bool(marker and marker.kwargs.get("transaction"))
    if not (is_committed or marker or "db" in request.fixturenames):
        return
    request.getfixturevalue("transactional_db" if is_committed else "db")
    person = UserFactory(pk=NUMBER)
    for principal in CALLERS:
        accountable.name(principal, [person.pk])
