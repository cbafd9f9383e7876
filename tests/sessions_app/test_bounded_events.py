"""Events that strangers cause: none is lost to the count, few are written, and none breaks the writer."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.history.bounded import EVENTS_A_MINUTE, BoundedEvents
from sessions_app.history.models import AuditEvent


@pytest.mark.django_db
def test_equal_events_are_one_and_a_flood_is_a_number() -> None:
    events = BoundedEvents()
    for number in range(1000):
        events.note("token.refused", reason="the same" if number % 2 else f"another {number}")
    events.flush()
    rows = AuditEvent.objects.filter(kind="token.refused")
    # Should the minute change meanwhile, twice as many.
    assert rows.count() <= 2 * EVENTS_A_MINUTE + 1
    told = [row.after for row in rows]
    assert sum(each.get("further", each.get("count", 1)) for each in told) == 1000
    assert events.flush() == 0


@given(st.text(), st.text())
def test_any_text_can_be_noted(label: str, reason: str) -> None:
    BoundedEvents().note("token.refused", label=label, reason=reason)


@pytest.mark.django_db
def test_any_text_can_be_written() -> None:
    events = BoundedEvents()
    events.note("token.refused", label="a\x00\ud800" * 500, reason="b\x00\udfff" * 500)
    assert events.flush() == 1
