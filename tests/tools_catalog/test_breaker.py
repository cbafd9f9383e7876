"""The pure parts of a connection: breaker, pauses, bounds on floods, which call a message belongs to."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tools_catalog.backends.backend_peers import ScriptedContext
from tools_catalog.upstream import spec
from tools_catalog.upstream.breaker import LONGEST_PAUSE_SECONDS, STABLE_SECONDS, Breaker, Retries, backoff
from tools_catalog.upstream.calls import CallsUnderWay
from tools_catalog.upstream.limits import Flood
from tools_catalog.upstream.transports.base import OutgoingRequest


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_it_opens_after_failures_in_a_row_only(clock: Clock) -> None:
    breaker = Breaker(clock, limit=3)
    for _ in range(5):
        breaker.failed()
        breaker.failed()
        breaker.succeeded()
    assert breaker.wait_seconds() == 0
    for _ in range(3):
        breaker.failed()
    assert breaker.wait_seconds() > 0


def test_it_rests_where_somebody_else_found_out(clock: Clock) -> None:
    breaker = Breaker(clock, limit=2)
    breaker.rest(10, openings=3)
    assert (breaker.is_open, breaker.openings, breaker.left_seconds) == (True, 3, 10)
    clock.seconds = 11
    assert breaker.wait_seconds() == 0
    breaker.failed()
    assert breaker.openings == 4
    breaker.succeeded()
    assert (breaker.is_open, breaker.left_seconds) == (False, 0)


def test_after_the_pause_one_tries_for_all(clock: Clock) -> None:
    breaker = Breaker(clock, limit=1)
    breaker.failed()
    clock.seconds += LONGEST_PAUSE_SECONDS
    assert breaker.wait_seconds() == 0
    assert breaker.wait_seconds() > 0, "a second one got through"
    breaker.succeeded()
    assert breaker.wait_seconds() == breaker.wait_seconds() == 0


def test_a_failed_try_lengthens_the_pause_and_one_given_up_lets_the_next_through(clock: Clock) -> None:
    breaker = Breaker(clock, limit=1, draw=lambda: 1.0)
    breaker.failed()
    first = breaker.wait_seconds()
    clock.seconds += first
    assert breaker.wait_seconds() == 0
    breaker.failed()
    assert breaker.wait_seconds() == 2 * first
    clock.seconds += 2 * first
    assert breaker.wait_seconds() == 0
    breaker.left()
    assert breaker.wait_seconds() == 0


def test_one_that_answers_something_else_is_tried_by_all_after_short_rests(clock: Clock) -> None:
    breaker = Breaker(clock, limit=3, draw=lambda: 1.0)
    rests = []
    for failures in (3, 1, 1, 1, 1, 1):
        for _ in range(failures):
            assert breaker.wait_seconds() == breaker.wait_seconds() == 0, "not one for all, but each may try"
            breaker.failed()
        assert breaker.is_open
        breaker.answered()
        rests.append(breaker.wait_seconds())
        assert breaker.is_open == (rests[-1] > 0)
        clock.seconds += rests[-1]
        assert not breaker.is_open
    assert rests == [0, 1, 2, 2, 2, 2]
    breaker.succeeded()
    for _ in range(3):
        breaker.failed()
    breaker.answered()
    assert breaker.wait_seconds() == 0, "a call that went well forgets what was before"


def test_a_failure_of_a_call_that_began_before_the_rest_lengthens_nothing(clock: Clock) -> None:
    breaker = Breaker(clock, limit=3, draw=lambda: 1.0)
    for _ in range(2):
        for _ in range(3):
            breaker.failed()
        breaker.answered()
    rest = breaker.wait_seconds()
    assert rest > 0
    breaker.failed()
    assert breaker.wait_seconds() == rest


def test_an_answer_while_all_goes_well_changes_nothing(clock: Clock) -> None:
    breaker = Breaker(clock, limit=1)
    breaker.answered()
    assert breaker.wait_seconds() == 0
    breaker.failed()
    assert breaker.wait_seconds() > 0


@given(st.integers(0, 10_000), st.floats(0, 1))
def test_pauses_grow_within_bounds_and_scatter(failures: int, chance: float) -> None:
    pause = backoff(failures, lambda: chance)
    assert 0 < pause <= LONGEST_PAUSE_SECONDS
    assert backoff(failures, lambda: 0.0) * 2 == backoff(failures, lambda: 1.0)
    assert backoff(failures + 1, lambda: 0.0) >= backoff(failures, lambda: 0.0)


def test_a_flood_is_told_from_a_stream() -> None:
    flood = Flood(10)
    assert [flood.is_over() for _ in range(11)] == [False] * 10 + [True]


def test_who_has_much_to_say_lets_others_go_on_between() -> None:
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def go() -> None:
        beside = asyncio.create_task(others())
        flood = Flood(1000)
        for _ in range(100):
            flood.is_over()
            await flood.pause()
        beside.cancel()

    asyncio.run(go())
    assert turns >= 90


def test_answers_that_were_asked_for_are_no_flood() -> None:
    flood = Flood(1)
    for _ in range(3):
        flood.request_sent()
        assert not flood.is_over_with(response=True)
    assert [flood.is_over_with(response=each) for each in (True, False)] == [False, True]


def test_only_what_nobody_asked_for_waits() -> None:
    flood = Flood(1000)
    for _ in range(50):
        flood.is_over()
    flood.request_sent()
    flood.is_over_with(response=True)
    with pytest.raises(StopIteration):
        flood.pause().send(None)


def test_a_message_belongs_to_the_only_call_or_to_nobody() -> None:
    calls, one, other = CallsUnderWay(), ScriptedContext(), ScriptedContext(invocation_id="other")
    first, second = (OutgoingRequest(id_, "tools/call", {}, call) for id_, call in ((1, one), (2, other)))
    assert calls.owner() is None
    calls.requests[1] = first
    assert calls.owner() is one
    calls.requests[2] = second
    assert calls.owner() is None, "it could be either's"
    assert calls.owner(request=second) is other, "the stream on which it came says which"
    with calls.following("t1", one):
        assert calls.owner("t1") is one, "it names its task"
    del calls.requests[1]
    del calls.requests[2]
    assert calls.owner() is None
    calls.requests[3] = OutgoingRequest(3, "tasks/get", {}, one)
    assert calls.owner() is None, "what is about a task names it"


@pytest.mark.parametrize(
    "raw",
    [
        None,
        [],
        {"X": 1},
        {"X": "{argument}"},
        {"X": "a\r\nEvil: b"},
        {"Content-Length": "1"},
        {"mcp-session-id": "x"},
        {"A B": "x"},
        {"x": "1", "X": "2"},
        {"": "x"},
        {"X": "{"},
        {"Authorization": "Bearer mcph_plain"},
        {"X-Api-Key": "plain"},
        {"Cookie": "a=b"},
    ],
)
def test_headers_that_cannot_be_sent_are_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        spec.parse_headers(raw)


def test_what_was_never_connected_is_tried_ever_more_seldom() -> None:
    retries = Retries(draw=lambda: 1.0)
    assert [retries.failed(None) for _ in range(8)] == [1, 2, 4, 8, 16, 32, 60, 60]


def test_what_stood_for_a_while_is_tried_again_at_once_and_then_ever_more_seldom() -> None:
    retries = Retries(draw=lambda: 1.0)
    assert [retries.failed(None), retries.failed(None)] == [1, 2]
    assert retries.failed(STABLE_SECONDS + 1) == 0
    assert [retries.failed(0.1), retries.failed(0.1)] == [2, 4]
    retries.ended_well()
    assert retries.failed(None) == 1


@pytest.mark.parametrize(
    "raw",
    [
        None,
        {"A": 1},
        {"1A": "x"},
        {"LD_PRELOAD": "x"},
        {"MCPHUB_SECRET_KEY": "x"},
        {"A": "{x}"},
        {"A=B": "x"},
        {"GITHUB_TOKEN": "x"},
    ],
)
def test_variables_that_must_not_be_set_are_refused(raw: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        spec.parse_environment(raw)


@pytest.mark.parametrize("raw", [None, "ls -l", [1], ["a\x00b"], {"a": "b"}])
def test_words_of_a_command_are_a_list_of_texts(raw: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        spec.parse_arguments(raw)
