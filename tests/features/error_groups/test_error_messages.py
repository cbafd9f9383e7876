"""What equal failures have in common: ids, numbers, times, addresses and quoted texts do not tell them apart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.error_groups.normalising import LONGEST, key_of, message_of, normalised


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("No order 4711 for customer 12", "No order <number> for customer <number>"),
        ("Timeout after 3.5 s", "Timeout after <number> s"),
        ('No city "Berlin"', "No city <text>"),
        ("No city 'Berlin', isn't it", "No city <text>, isn't it"),
        ("GET https://api.example.org/a?b=c failed", "GET <address> failed"),
        ("Mail to ann@example.org bounced", "Mail to <address> bounced"),
        ("Call 01a212db-c9e4-7492-97c4-3dc0e2d330c6 is gone", "Call <id> is gone"),
        ("Commit deadbeef01 at 2026-01-31T12:00:00.5Z", "Commit <id> at <time>"),
        ("  two\n lines ", "two lines"),
        ("facade", "facade"),
        ("with\x00NUL", "withNUL"),
        ("", ""),
    ],
)
def test_what_differs_from_call_to_call_is_left_out(message, found):
    assert normalised(message) == found


@given(st.text(max_size=2000))
def test_a_message_stays_bounded_and_is_stable(message):
    found = normalised(message)
    assert len(found) <= LONGEST
    assert "\0" not in found


@pytest.mark.parametrize(
    "stored", [None, "null", '"sha256:00"', "[1]", '{"message":7}', '{"code":1}', "no json", '{"message":']
)
def test_an_error_without_a_message_has_none(stored):
    assert message_of(stored) == ""


def test_a_group_is_one_tool_one_code_and_one_message():
    keys = {key_of("a", "b", "c"), key_of("ab", "", "c"), key_of("a", "bc", ""), key_of("a", "b", "d")}
    assert len(keys) == 4
    assert key_of("a", "b", "c\ud800")
