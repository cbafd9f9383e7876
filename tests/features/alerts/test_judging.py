"""When an alert fires, over counts of calls alone."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invocations.figures.tallies import class_of
from mcphub.features.alerts.judging import ERRORS, MILLION, QUIET, SLOW, SPEND, AlertCount, AlertThreshold, tried

pytestmark = pytest.mark.hypothesis


def counted(calls: int, errors: int = 0, milliseconds: int = 1) -> AlertCount:
    """Return a count of calls that cost a unit each."""
    return AlertCount(calls, errors, Counter({class_of(milliseconds): calls}), calls * MILLION)


@pytest.mark.parametrize(
    ("threshold", "tally", "is_passed"),
    [
        (AlertThreshold(ERRORS, 10, 20), counted(20, 2), True),
        (AlertThreshold(ERRORS, 10, 20), counted(20, 1), False),
        (AlertThreshold(ERRORS, 10, 20), counted(19, 19), False),
        (AlertThreshold(ERRORS, 1, 1), counted(0), False),
        (AlertThreshold(SLOW, 1000, 1), counted(1, milliseconds=1000), True),
        (AlertThreshold(SLOW, 1000, 1), counted(1, milliseconds=500), False),
        (AlertThreshold(SLOW, 1000, 2), counted(1, milliseconds=5000), False),
        (AlertThreshold(QUIET), counted(0), True),
        (AlertThreshold(QUIET), counted(1), False),
        (AlertThreshold(SPEND, 3, 20), counted(3), True),
        (AlertThreshold(SPEND, 3), counted(2), False),
    ],
)
def test_a_threshold_is_passed_by_what_reaches_it(
    threshold: AlertThreshold, tally: AlertCount, is_passed: bool
) -> None:
    assert threshold.is_passed_by(tally) is is_passed


_SLOTS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([1, 200, 5000])), max_size=40)


@given(
    slots=_SLOTS,
    window=st.integers(1, 6),
    settle=st.integers(0, 4),
    threshold=st.sampled_from(
        [AlertThreshold(ERRORS, 40, 3), AlertThreshold(SLOW, 200, 2), AlertThreshold(QUIET), AlertThreshold(SPEND, 4)]
    ),
)
def test_the_trial_judges_each_slot_with_its_window_and_counts_what_begins(
    slots: list[tuple[int, int, int]], window: int, settle: int, threshold: AlertThreshold
) -> None:
    tallies = [counted(calls, min(errors, calls), ms) for calls, errors, ms in slots]
    holds = []
    for end in range(window, len(tallies) + 1):
        whole = AlertCount()
        for each in tallies[end - window : end]:
            whole.add(each)
            whole.spent += each.spent
        holds.append(threshold.is_passed_by(whole))
    begun = [here and not any(holds[max(0, at - settle - 1) : at]) for at, here in enumerate(holds)]
    found = tried(threshold, tallies, window, settle)
    assert (found.fired, found.slots_fired, found.slots) == (sum(begun), sum(holds), len(holds))
