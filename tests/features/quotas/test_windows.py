"""Calendar windows in UTC, and which sums a call counts in."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.quotas.quota import Charge, QuotaRule, Quotas, charges_of_result
from mcphub.features.quotas.windows import DAY, HOUR, MINUTE, MONTH, PERIODS, Period, window_of
from sessions_app.caller import Caller
from tests.invocations.calls.call_path import gives, tool

MOMENTS = st.floats(min_value=0, max_value=4_102_444_800, allow_nan=False)  # to the year 2100
PERSON = Caller(principal="user:3", label="", scopes=frozenset(), groups=frozenset({7, 9}), key_id=5)
TOOL = tool(gives(None), "tickets_make", connection="desk")


def moment(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp())


@given(MOMENTS, st.sampled_from(PERIODS))
def test_a_moment_lies_in_its_window_and_windows_leave_no_gap(seconds: float, period: Period) -> None:
    found = window_of(period, seconds)
    assert found.begins <= seconds < found.ends
    assert window_of(period, found.begins) == window_of(period, found.ends - 1) == found
    assert window_of(period, found.ends).begins == found.ends


@given(MOMENTS, st.sampled_from([MINUTE, HOUR, DAY]))
def test_windows_of_a_period_are_of_one_length(seconds: float, period: Period) -> None:
    found = window_of(period, seconds)
    assert found.ends - found.begins == {MINUTE: 60, HOUR: 3600, DAY: 86400}[period]


@given(MOMENTS)
def test_a_month_begins_at_midnight_of_its_first_day(seconds: float) -> None:
    begins = datetime.fromtimestamp(window_of(MONTH, seconds).begins, UTC)
    assert (begins.day, begins.hour, begins.minute, begins.second) == (1, 0, 0, 0)


@pytest.mark.parametrize(
    ("period", "now", "begins", "ends"),
    [
        (MONTH, "2026-12-31T23:59:59", "2026-12-01", "2027-01-01"),
        (MONTH, "2028-02-29T12:00:00", "2028-02-01", "2028-03-01"),
        (DAY, "2026-11-25T00:00:00", "2026-11-25", "2026-11-26"),
        (HOUR, "2026-11-25T17:59:59", "2026-11-25T17:00:00", "2026-11-25T18:00:00"),
        (MINUTE, "2026-11-25T17:59:59", "2026-11-25T17:59:00", "2026-11-25T18:00:00"),
    ],
)
def test_windows_are_those_of_the_calendar(period: Period, now: str, begins: str, ends: str) -> None:
    found = window_of(period, moment(now))
    assert (found.begins, found.ends) == (moment(begins), moment(ends))
    assert found.resets_at == f"{datetime.fromisoformat(ends):%Y-%m-%dT%H:%M:%SZ}"


def rule(**changes: object) -> QuotaRule:
    values: dict[str, object] = {"key": 1, "name": "q", "per": "person", "unit": "calls", "period": DAY, "hard": 2}
    return QuotaRule(**{**values, **changes})


def subjects(one: QuotaRule, caller: Caller = PERSON) -> list[str]:
    return [charge.subject for charge in Quotas([one]).charges(TOOL, caller, "{}")]


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"per": "person"}, ["user:3"]),
        ({"per": "key"}, ["key:5"]),
        ({"per": "all"}, ["all"]),
        ({"per": "group"}, ["group:7", "group:9"]),
        ({"per": "group", "group": 9}, ["group:9"]),
        ({"group": 8}, []),
        ({"principal": "user:3"}, ["user:3"]),
        ({"principal": "user:4"}, []),
        ({"credential": "key:5", "per": "all"}, ["all"]),
        ({"credential": "key:6"}, []),
        ({"applies_to": "tool", "target": "tickets_*"}, ["user:3"]),
        ({"applies_to": "tool", "target": "other"}, []),
        ({"applies_to": "connection", "target": "desk"}, ["user:3"]),
        ({"applies_to": "connection", "target": "forge"}, []),
    ],
)
def test_whom_and_what_a_quota_is_about(changes: dict[str, object], found: list[str]) -> None:
    assert subjects(rule(**changes)) == found


@given(st.text(st.characters(codec="utf-8")), st.text(st.characters(codec="utf-8"), min_size=1))
def test_bytes_are_those_of_arguments_and_then_of_the_result(arguments: str, result: str) -> None:
    charges = Quotas([rule(unit="bytes"), rule(key=2, name="r")]).charges(TOOL, PERSON, arguments)
    assert [charge.amount for charge in charges] == [len(arguments.encode()), 1]
    assert [charge.amount for charge in charges_of_result(charges, result)] == [len(result.encode())]
    assert charges_of_result(charges, None) == []


@given(MOMENTS, st.sampled_from(PERIODS), st.sampled_from(PERIODS), st.sampled_from(["calls", "bytes"]))
def test_another_period_or_unit_is_another_sum(seconds: float, one: Period, other: Period, unit: str) -> None:
    charges = [Charge(rule(period=one), "all", 1), Charge(rule(period=other, unit=unit), "all", 1)]
    keys = {charge.key(charge.window(seconds)) for charge in charges}
    assert (len(keys) == 1) == (one == other and unit == "calls")


def test_without_quotas_there_is_nothing_to_ask() -> None:
    assert not Quotas()
