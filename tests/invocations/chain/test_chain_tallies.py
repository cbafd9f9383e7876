"""Tallies grow with the blocks: each call is counted once, and overviews see sealed and unsealed calls alike."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from invocations.chain import counting
from invocations.figures import overview
from invocations.figures.tallies import ALL, CODE, DAY, HOUR, MINUTE, QUARTER, SPANS, TOOL, WEEK, Tally
from invocations.models import CallTally
from tests.factories import McpToolInvocationFactory

pytestmark = pytest.mark.usefixtures("transactional_db")

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)


def test_sealing_adds_to_what_was_counted(sealer, log):
    for minutes in (0, 1, 1):
        McpToolInvocationFactory(tool_name="a", started_at=NOON + timedelta(minutes=minutes), duration_ms=10)
        sealer.seal()
    McpToolInvocationFactory(tool_name="b", started_at=NOON, failed=True, duration_ms=1000)
    sealer.seal()
    sealer.seal()
    [hour] = CallTally.objects.filter(subject=ALL, span=HOUR)
    assert (hour.slot, hour.calls, hour.errors) == (NOON, 4, 1)
    assert sorted(Tally.load(hour.durations).values()) == [1, 3]
    minutes = CallTally.objects.filter(subject=TOOL, span=MINUTE, name="a").order_by("slot")
    assert list(minutes.values_list("slot", "calls")) == [(NOON, 1), (NOON + timedelta(minutes=1), 2)]


def test_an_overview_counts_sealed_and_unsealed_calls_alike(sealer, log):
    now = datetime.now(UTC)
    McpToolInvocationFactory(tool_name="a", started_at=now - timedelta(minutes=30), duration_ms=8)
    McpToolInvocationFactory(tool_name="a", started_at=now - timedelta(days=3), duration_ms=8)
    sealer.seal()
    McpToolInvocationFactory(tool_name="b", started_at=now - timedelta(minutes=10), failed=True, duration_ms=8)
    for days, calls in ((1 / 24, 2), (1, 2), (7, 3), (30, 3), (300, 3)):
        length = timedelta(days=days)
        found = overview.between(now - length, now)
        assert found.is_whole
        assert (found.total.calls, found.total.errors, found.total.percentile(95)) == (calls, 1, 8)
        assert sum(step.tally.calls for step in found.steps) == calls
        tools = [(name, tally.calls, tally.errors) for name, tally in found.top(TOOL)]
        assert tools == [("a", calls - 1, 0), ("b", 1, 1)]
        assert [name for name, _ in found.top(CODE)] == ["execution_error"]
        assert overview.between(now - length, now, subject=TOOL, name="a").total.calls == calls - 1


def test_the_longest_slots_that_make_a_bar_are_read(sealer, log):
    now = datetime.now(UTC)
    McpToolInvocationFactory(tool_name="a", started_at=now - timedelta(hours=1))
    sealer.seal()
    for hours, span in ((3, MINUTE), (24, HOUR), (7 * 24, QUARTER), (30 * 24, DAY), (366 * 24, WEEK)):
        CallTally.objects.filter(span=span).update(name="read")
        found = overview.between(now - timedelta(hours=hours), now)
        assert [name for name, _ in found.top(TOOL)] == ["read"], hours
        CallTally.objects.filter(span=span).update(name="a")


def test_old_tallies_are_forgotten(sealer, log):
    McpToolInvocationFactory(started_at=NOON)
    sealer.seal()
    counting.forget(log, NOON + timedelta(days=3))
    assert set(CallTally.objects.values_list("span", flat=True)) == set(SPANS) - {MINUTE}
    counting.forget(log, NOON + timedelta(days=401))
    assert not CallTally.objects.exists()


def test_many_old_tallies_are_forgotten_oldest_first_and_bit_by_bit(sealer, log):
    for minutes in range(5):
        McpToolInvocationFactory(started_at=NOON + timedelta(minutes=minutes))
    sealer.seal()
    minutes = CallTally.objects.filter(subject=ALL, span=MINUTE).order_by("slot").values_list("slot", flat=True)
    assert counting.forget(log, NOON + timedelta(days=3), most=2)
    assert list(minutes.all()) == [NOON + timedelta(minutes=minutes) for minutes in (2, 3, 4)]
    assert counting.forget(log, NOON + timedelta(days=3), most=2)
    assert not counting.forget(log, NOON + timedelta(days=3), most=2)
    assert not minutes.all()
