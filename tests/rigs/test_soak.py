"""The verdict of the soak is bad where something grows: else an hour of load would prove nothing."""

from __future__ import annotations

import pytest

from tests.rigs.soak import Note, percent_an_hour, verdict

_MINUTES = range(1, 61)
_PID = 2**22 + 1
"""Of no process: Linux counts to 2**22."""


def notes(*, memory_an_hour: float = 0.0, descriptors_a_minute: float = 0.0, tokens_a_minute: int = 0) -> list[Note]:
    return [
        Note(
            minute * 60.0,
            {_PID: 200 + memory_an_hour * minute / 60 + minute % 3},
            {_PID: 40 + minute % 4 + int(descriptors_a_minute * minute)},
            {"access tokens": tokens_a_minute * minute},
            [1.0, 2.0],
        )
        for minute in _MINUTES
    ]


def wrong(found: list[tuple[bool | None, str]]) -> list[str]:
    return [words.partition(" ")[0] for holds, words in found if holds is False]


def test_what_stays_as_it_is_is_good() -> None:
    assert wrong(verdict(notes(), {"access tokens": 100})) == []


def test_a_line_is_fitted_by_least_squares() -> None:
    assert percent_an_hour([(0, 100), (1800, 105), (3600, 110)]) == pytest.approx(10)
    assert percent_an_hour([(900, 100), (1800, 100), (2700, 100)]) == pytest.approx(0)


def test_each_kind_of_growth_is_found() -> None:
    bounds = {"access tokens": 100}
    assert wrong(verdict(notes(memory_an_hour=8), bounds)) == []
    assert wrong(verdict(notes(memory_an_hour=14), bounds)) == ["memory"]
    assert wrong(verdict(notes(descriptors_a_minute=0.2), bounds)) == ["descriptors"]
    assert wrong(verdict(notes(tokens_a_minute=2), bounds)) == ["access"]


def test_what_grows_in_the_first_quarter_alone_is_good() -> None:
    found = notes()
    for note in found[:14]:
        note.memory[_PID] = note.seconds / 900 * 200
    assert wrong(verdict(found, {})) == []


def test_a_process_that_ends_is_found() -> None:
    found = notes()
    del found[-1].memory[_PID]
    assert wrong(verdict(found, {})) == ["ended"]


def test_a_short_run_judges_no_memory_and_one_without_notes_is_bad() -> None:
    found = notes(memory_an_hour=500)[:14]
    assert (None, True) in {(holds, words.startswith("memory")) for holds, words in verdict(found, {})}
    assert wrong(verdict(found[:4], {})) == ["only"]
    assert wrong(verdict([], {})) == ["only"]
