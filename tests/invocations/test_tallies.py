"""What overviews are drawn from: exact counts, and percentiles that are never too low and at most a fifth too high."""

from __future__ import annotations

from collections import Counter
from datetime import datetime

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from invocations.figures.tallies import ALL, SPANS, TOOL, Count, Tally, class_of, longest_of

DURATIONS = st.integers(min_value=0, max_value=10_000_000)


@given(DURATIONS)
@example(1)
@example(2)
@example(4096)
def test_a_duration_is_in_the_narrowest_class_that_holds_it(duration):
    assert duration <= longest_of(class_of(duration))
    if duration:
        assert longest_of(class_of(duration)) <= duration * 1.2
        assert longest_of(class_of(duration) - 1) < duration


@given(st.lists(DURATIONS, min_size=1, max_size=60), st.sampled_from([50, 95, 99]))
def test_percentiles_are_never_too_low(durations, part):
    tally = Tally(durations=Counter(class_of(duration) for duration in durations))
    rank = -(-len(durations) * part // 100)
    exact = sorted(durations)[rank - 1]
    assert exact <= tally.percentile(part) <= exact * 1.2


def test_nothing_has_no_percentile():
    assert Tally().percentile(95) is None


ROWS = st.fixed_dictionaries(
    {
        "started_at": st.datetimes(datetime(2026, 1, 1), datetime(2026, 1, 2)).map(lambda when: when.isoformat() + "Z"),
        "duration_ms": DURATIONS,
        "status": st.sampled_from(["ok", "error"]),
        "tool_name": st.sampled_from(["a", "b"]),
        "client_name": st.sampled_from([None, "", "c"]),
        "principal": st.just("key:1"),
        "error_code": st.just(""),
        "occurrences": st.integers(1, 3),
    }
)


@given(st.lists(ROWS, max_size=30))
def test_each_call_is_counted_once_in_every_span_and_subject(rows):
    count = Count()
    for row in rows:
        count.see(row)
    found = count.found()
    for span in SPANS:
        sums = {
            subject: sum(tally.calls for (of, _, about, _), tally in found.items() if (of, about) == (span, subject))
            for subject in (ALL, TOOL)
        }
        assert set(sums.values()) == {sum(row["occurrences"] for row in rows)}


@pytest.mark.parametrize("when", ["", "yesterday", "2026-13-01T00:00:00Z", "2026-01-01T00:6"])
def test_a_time_that_is_none_is_left_to_the_proof(when):
    count = Count()
    count.see({"started_at": when, "duration_ms": 1, "status": "ok", "tool_name": "a"})
    assert count.found() == {}
