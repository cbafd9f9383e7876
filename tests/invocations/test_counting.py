"""Series of `/metrics` have bounds, whatever the catalogue and its callers do."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from invocations.ledger.counting import BUCKETS, OTHER, CallCounts


def test_tools_beyond_the_bound_are_one_series_and_what_left_makes_room(settings: Any) -> None:
    settings.MCPHUB_METRICS_TOOLS = 2
    counts = CallCounts()
    for name in ("a", "b", "c", "d"):
        counts.count("tools/call", name, "", "", 0.1)
    assert {series[1] for series, _ in counts.outcomes} == {"a", "b", OTHER}
    counts.keep_only({"b", "c", "d"})
    counts.count("tools/call", "c", "", "tool_timeout", 0.1)
    assert {series[1] for series, _ in counts.outcomes} == {"b", "c", OTHER}


@given(st.lists(st.floats(min_value=0, max_value=1e6), max_size=50))
def test_each_duration_is_in_one_bucket(durations: list[float]) -> None:
    counts = CallCounts()
    for seconds in durations:
        counts.count("tools/call", "a", "", "", seconds)
    found = counts.durations.get(("tools/call", "a", ""), [0])
    assert sum(found) == len(durations)
    if durations:
        low = sum(found[: BUCKETS.index(1) + 1])
        assert low == sum(seconds <= 1 for seconds in durations)


def test_what_was_not_made_has_an_outcome_and_no_duration() -> None:
    counts = CallCounts()
    counts.count("tools/call", OTHER, OTHER, "tool_not_found", None)
    assert list(counts.outcomes.values()) == [1]
    assert counts.durations == {}
