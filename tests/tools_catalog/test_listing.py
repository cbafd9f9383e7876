"""Pages of lists: every entry once, whatever comes and goes, and cursors that open nothing else."""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from django.test import override_settings
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.caller import Caller
from sessions_app.protocol.errors import InvalidParams
from tools_catalog.catalog.listing import Listing

NEWEST, OLDEST = "2026-07-28", "2024-11-05"


@dataclass(frozen=True)
class Entry:
    name: str
    enabled: bool = True
    groups: frozenset[int] = frozenset()
    definition: dict[str, Any] = field(default_factory=dict)
    sight: None = None
    workspace: None = None


def listing(*names: str, member: str = "tools", size: int = 2, **groups: int) -> Listing:
    with override_settings(MCPHUB_LIST_PAGE_SIZE=size):
        entries = {name: Entry(name, groups=frozenset(filter(None, [groups.get(name)]))) for name in names}
        made = {name: Entry(name, entry.enabled, entry.groups, {"name": name}) for name, entry in entries.items()}
        return Listing(member, made, lambda revision, definition: dict(definition))


def caller(*groups: int, everything: bool = False) -> Caller:
    return Caller(principal="key:1", label="", scopes=frozenset(), groups=frozenset(groups), sees_everything=everything)


def page(of: Listing, cursor: str | None = None, who: Caller | None = None, version: str = NEWEST) -> Any:
    answer = json.loads(of.page(who or caller(), version, b"", cursor))
    return [entry["name"] for entry in answer["tools"]], answer.get("nextCursor")


def walk(lists: list[Listing]) -> list[str]:
    """Follow the cursors, each page from the next of the lists, the last of them to the end."""
    names, cursor = page(lists[0])
    turn = 0
    while cursor is not None:
        turn += 1
        more, cursor = page(lists[min(turn, len(lists) - 1)], cursor)
        names += more
    return names


def test_pages_follow_each_other_to_the_end():
    of = listing("c", "a", "e", "b", "d")
    first, cursor = page(of)
    second, cursor = page(of, cursor)
    third, last = page(of, cursor)
    assert (first, second, third, last) == (["a", "b"], ["c", "d"], ["e"], None)
    assert page(listing("a", "b"))[1] is None
    assert page(listing()) == ([], None)


def test_a_page_is_made_once():
    of = listing("a", "b", "c")
    cursor = page(of)[1]
    assert of.page(caller(), NEWEST) is of.page(caller(), NEWEST)
    assert of.page(caller(), NEWEST, b"", cursor) is of.page(caller(), NEWEST, b"", cursor)


NAMES = st.sets(st.text("abcé/ ", min_size=1, max_size=4), max_size=12)


@given(st.lists(NAMES, min_size=1, max_size=6), NAMES, st.integers(1, 4))
def test_what_stays_is_seen_once_whatever_comes_and_goes(passing, staying, size):
    lists = [listing(*(names | staying), size=size) for names in passing]
    seen = walk(lists)
    assert sorted(name for name in seen if name in staying) == sorted(staying)
    assert len(seen) == len(set(seen))


def test_a_cursor_is_bound_to_list_revision_and_audience():
    of = listing("a", "b", "c", "d", b=7)
    _, cursor = page(of, who=caller(7))
    assert page(of, cursor, who=caller(7, 9))[0] == ["c", "d"]
    for foreign, who, version in (
        (of, caller(), NEWEST),
        (of, caller(everything=True), NEWEST),
        (of, caller(7), OLDEST),
        (listing("a", "b", "c", "d", member="prompts", b=7), caller(7), NEWEST),
    ):
        with pytest.raises(InvalidParams, match="without a cursor"):
            foreign.page(who, version, b"", cursor)


def test_another_secret_makes_old_cursors_stale():
    of = listing("a", "b", "c")
    cursor = page(of)[1]
    with override_settings(SECRET_KEY="another"), pytest.raises(InvalidParams):
        page(of, cursor)


@given(
    st.one_of(
        st.text(max_size=40),
        st.integers(),
        st.none().map(lambda _: []),
        st.binary(max_size=40).map(lambda raw: base64.urlsafe_b64encode(raw).decode()),
    )
)
def test_any_other_word_is_refused(word):
    with pytest.raises(InvalidParams, match="cursor"):
        listing("a", "b", "c").page(caller(), NEWEST, b"", word)


def test_every_changed_character_of_a_cursor_is_noticed():
    of = listing("aaaa", "bbbb", "cccc")
    cursor = page(of)[1]
    assert cursor is not None
    for at in range(len(cursor)):
        other = cursor[:at] + ("A" if cursor[at] != "A" else "B") + cursor[at + 1 :]
        if base64.urlsafe_b64decode(other + "==") != base64.urlsafe_b64decode(cursor + "=="):
            with pytest.raises(InvalidParams):
                page(of, other)
