"""The rows of streams that may be resumed: read without gaps, bounded, removed in time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from sessions_app import events
from sessions_app.events import CallStreamEvent
from sessions_app.kit.database import delete_in_slices
from sessions_app.models import BusEvent, StreamEvent

pytestmark = pytest.mark.django_db


def of(session: str, numbers: range, message: bytes = b"{}", stream: str = "s" * 16) -> list[CallStreamEvent]:
    return [CallStreamEvent(session, stream, number, message) for number in numbers]


def test_what_follows_is_given_in_order_and_stops_at_a_gap() -> None:
    events.write([*of("a", range(3)), *of("a", range(4, 6)), *of("b", range(9))])
    assert [event.number for event in events.after("a", "s" * 16, 0)] == [1, 2]
    assert [event.number for event in events.after("a", "s" * 16, 3)] == [4, 5]
    assert events.after("a", "t" * 16, -1) == []
    assert [events.is_kept("a", "s" * 16, number) for number in (2, 3, 5, 6)] == [True, True, True, False]


def test_writing_twice_keeps_once() -> None:
    for _ in range(2):
        events.write(of("a", range(3)))
    assert StreamEvent.objects.count() == 3


def test_only_who_may_wait_elsewhere_is_told() -> None:
    before = BusEvent.objects.count()
    events.write(of("a", range(3)))
    assert BusEvent.objects.count() == before
    events.write([CallStreamEvent("a", "t" * 16, number, b"{}", is_awaited=True) for number in range(3)])
    assert BusEvent.objects.count() == before + 1


@pytest.mark.parametrize(
    ("count", "size", "left"),
    [(1000, 1, 1000), (1100, 1, 1000), (5, events.MOST_CHARACTERS // 2, 2), (2, events.MOST_CHARACTERS + 1, 0)],
)
def test_a_session_keeps_its_newest_within_bounds(count: int, size: int, left: int) -> None:
    events.write([*of("a", range(count), b"x" * size), *of("b", range(2))])
    events.trim("a")
    numbers = list(StreamEvent.objects.filter(session_id="a").order_by("number").values_list("number", flat=True))
    assert numbers == list(range(count - left, count))
    assert StreamEvent.objects.filter(session_id="b").count() == 2


def test_nobody_comes_back_after_so_long() -> None:
    events.write(of("a", range(2)))
    StreamEvent.objects.filter(number=0).update(created_at=timezone.now() - timedelta(seconds=events.KEEP_SECONDS + 1))
    assert events.purge() == 1
    assert list(StreamEvent.objects.values_list("number", flat=True)) == [1]


def test_many_go_slice_by_slice_and_none_is_left() -> None:
    events.write(of("a", range(7)))
    with CaptureQueriesContext(connection) as asked:
        assert delete_in_slices(StreamEvent.objects.filter(number__lt=6), most=3) == 6
    assert len([query for query in asked if query["sql"].startswith("DELETE")]) == 2
    assert list(StreamEvent.objects.values_list("number", flat=True)) == [6]
