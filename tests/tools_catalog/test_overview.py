"""The overview of many tools that clients get: by group, bounded, those called most first."""

from __future__ import annotations

from tools_catalog.catalog.overview import MOST_CHARACTERS, MOST_GROUPS, overview


def test_names_stand_by_group_the_large_ones_first() -> None:
    words = overview(["add", "git.log", "git.push", "mail.send"], {"git.push": 5})
    assert words == "Tools here: git.* (2): push, log; mail.* (1): send; others (1): add."


def test_without_tools_there_are_no_words() -> None:
    assert overview([], {}) == ""


def test_however_many_there_are_it_stays_short_and_counts_what_it_leaves_out() -> None:
    names = [f"group{group}.{'long_' * 20}{tool}" for group in range(100) for tool in range(50)]
    words = overview(names, {})
    assert len(words) < MOST_CHARACTERS * 1.2
    assert f"{100 - MOST_GROUPS} more groups with {(100 - MOST_GROUPS) * 50} tools" in words


def test_of_a_large_group_some_names_stand_for_all() -> None:
    words = overview([f"git.command{number:02}" for number in range(60)], {"git.command42": 3})
    assert words.startswith("Tools here: git.* (60): command42, command00, ")
    assert words.endswith(", ….")
