"""The line that finds rows of a list: what its keys and values mean, and what is said of what they do not mean."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest
from django.utils import timezone

from sessions_app.kit.admin.search_line import offered
from sessions_app.kit.lists import searching
from sessions_app.kit.lists.filters import Between, Demand, During, OneOf, TextIs, WholeNumber, YesOrNo

STATUS = OneOf(name="status", choices=[("ok", "OK"), ("error", "Error")])
TOOL = TextIs(name="tool", column="tool_name", known=lambda begun: [(f"{begun}cho", "Echo"), ("two words", "")])
TOOK = Between(name="duration_ms", key="took")
TIME = During(name="started", column="started_at", key="time")
AGAIN = YesOrNo(name="retryable", key="retry")
ROUND = WholeNumber(name="round", least=1)
FILTERS = (STATUS, TOOL, TOOK, TIME, AGAIN, ROUND)


def meant(text: str) -> list[tuple[str, tuple[object, ...], bool]]:
    found = searching.read(text, FILTERS)
    assert found.problems == []
    return sorted((each.of.search_key, each.values, each.is_excluded) for each in found.demands)


def problem(text: str) -> str:
    found = searching.read(text, FILTERS)
    [only] = found.problems
    return only.words


def test_a_key_has_a_value_and_words_stand_beside() -> None:
    assert meant("status:error") == [("status", ("error",), False)]
    found = searching.read("status:error lost  letters", FILTERS)
    assert found.words == "lost letters"
    assert [each.of for each in found.demands] == [STATUS]


def test_several_values_are_one_demand_and_exclusions_stand_alone() -> None:
    assert meant("tool:a,b tool:c -tool:d,e -tool:f") == [
        ("tool", ("a", "b", "c"), False),
        ("tool", ("d", "e"), True),
        ("tool", ("f",), True),
    ]


def test_quotes_keep_blanks_commas_and_colons_together() -> None:
    assert meant('tool:"a, b:c",d') == [("tool", ("a, b:c", "d"), False)]
    assert searching.read('"status:error"', FILTERS).words == "status:error"
    assert searching.quoted('say "a"') == r'"say \"a\""'
    assert meant(searching.written("tool", 'say "a"', "b")) == [("tool", ('say "a"', "b"), False)]


def test_a_choice_is_found_by_its_word_or_by_what_people_read() -> None:
    assert meant("status:ERROR") == meant("status:error") == meant("status:Error")


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("500", (500, 500)),
        (">500", (501, None)),
        (">=500", (500, None)),
        ("<500", (None, 499)),
        ("100..500", (100, 500)),
        ("..500", (None, 500)),
        (">2s", (2001, None)),
        ("250ms", (250, 250)),
    ],
)
def test_numbers_are_compared(text: str, ends: tuple[int | None, int | None]) -> None:
    assert meant(f"took:{text}") == [("took", (ends,), False)]


def moments(text: str) -> tuple[datetime | None, datetime | None]:
    [(_key, [ends], _excluded)] = meant(f"time:{text}")
    assert isinstance(ends, tuple)
    return ends


def test_times_are_quick_or_days_or_moments_of_the_zone_of_the_hub() -> None:
    after, before = moments("24h")
    assert after is not None
    assert before is None
    assert timedelta(hours=23, minutes=59) < timezone.now() - after < timedelta(hours=24, minutes=5)
    zone = timezone.get_current_timezone()
    assert moments("2026-01-31") == (datetime(2026, 1, 31, tzinfo=zone), datetime(2026, 2, 1, tzinfo=zone))
    assert moments("2026-01-01..2026-01-31")[1] == datetime(2026, 2, 1, tzinfo=zone)
    assert moments("2026-12") == (datetime(2026, 12, 1, tzinfo=zone), datetime(2027, 1, 1, tzinfo=zone))
    assert moments("2026-01..2026-02") == (datetime(2026, 1, 1, tzinfo=zone), datetime(2026, 3, 1, tzinfo=zone))
    assert moments(">2026-01-31T12:00") == (datetime(2026, 1, 31, 12, tzinfo=zone), None)
    assert moments("<2026-01-31") == (None, datetime(2026, 1, 31, tzinfo=zone))
    after, before = moments("yesterday")
    assert after is not None
    assert before is not None
    assert before - after >= timedelta(hours=23)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("colour:red", "Available keys: retry, round, status, time, took, tool."),
        ("status:wrong", "Accepted values: ok, error."),
        ("status:", "Accepted values: ok, error."),
        ("took:long", "Enter 500, >500, <500 or 100..500."),
        ("time:soon", "Enter 15m, 24h, 7d"),
        ("time:2026-13", "Enter 15m, 24h, 7d"),
        ("time:2026-02-31", "Enter 15m, 24h, 7d"),
        ("retry:perhaps", "Accepted values: yes, no."),
        ("round:0", "a whole number of at least 1"),
        ("round:9999999999", "a whole number"),
    ],
)
def test_what_is_wrong_is_said_with_what_may_stand_there(text: str, said: str) -> None:
    assert said in problem(text)


def test_a_search_with_a_problem_finds_nothing_rather_than_too_much() -> None:
    class NoRows:
        def none(self) -> str:
            return "none"

    found = searching.read("status:error colour:red", FILTERS)
    assert found.narrow(NoRows()) == "none"  # type: ignore[arg-type, comparison-overlap]


def test_a_search_is_bounded() -> None:
    assert "at most 40 parts" in problem(" ".join(["tool:a"] * 41))
    assert "at most 50 values" in problem("tool:" + ",".join(map(str, range(51))))
    assert searching.read("x" * 3000, FILTERS).problems


def test_a_part_is_taken_out_without_the_others() -> None:
    found = searching.read("tool:a  status:error lost", FILTERS)
    assert found.without(found.tokens[1]) == "tool:a lost"
    assert found.without(found.tokens[0]) == "status:error lost"


def texts(begun: str) -> list[str]:
    return [each.text for each in offered(begun, FILTERS)]


def test_keys_and_values_are_offered_for_what_is_begun() -> None:
    assert texts("") == ["retry:", "round:", "status:", "time:", "took:", "tool:"]
    assert texts("-to")[:2] == ["-took:", "-tool:"]
    assert texts("status:") == ["status:ok", "status:error"]
    assert texts("status:ok,er") == ["status:ok,error"]
    assert texts("tool:e") == ["tool:echo", 'tool:"two words"']
    assert texts("-tool:x,e") == ["-tool:x,echo", '-tool:x,"two words"']
    assert "time:24h" in texts("time:2")
    assert texts("round:") == []
    assert texts("colour:") == []


def test_a_demand_of_several_values_asks_for_one_of_them_in_one_condition() -> None:
    assert str(TOOL.found_by("a", "b")) == "(AND: ('tool_name__in', ('a', 'b')))"
    assert Demand(TOOL, ("a",)).is_excluded is False
