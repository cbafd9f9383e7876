"""Vectors, their closeness, and orders that are fused. Pure."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcphub.features.embeddings.vectors import Vector, VectorInvalid, closest
from tools_catalog.catalog.closeness import fused

_VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=40).filter(
    lambda values: any(abs(v) > 1e-3 for v in values)
)
_NAMES = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(_VALUES)
def test_a_vector_is_read_as_it_was_stored(values: list[float]) -> None:
    made = Vector.of(values)
    assert Vector.read(made.stored()) == made
    assert math.isclose(sum(value * value for value in made.values), 1.0, rel_tol=1e-4)


@pytest.mark.parametrize("values", [[], [0.0, 0.0], [math.nan], [math.inf, 1.0], [1e308, 1e308]])
def test_what_has_no_direction_is_refused(values: list[float]) -> None:
    with pytest.raises(VectorInvalid):
        Vector.of(values)


def test_of_thousands_the_closest_is_found() -> None:
    drawn = random.Random(7)

    def near(to: list[float], by: float) -> list[float]:
        return [value + drawn.gauss(0, by) for value in to]

    centres = [[drawn.gauss(0, 1) for _ in range(128)] for _ in range(50)]
    vectors = {f"{at}-{copy}": Vector.of(near(centre, 0.5)) for at, centre in enumerate(centres) for copy in range(40)}
    vectors["short"] = Vector.of([1.0, 2.0])
    for at, centre in enumerate(centres):
        assert {name.partition("-")[0] for name in closest(Vector.of(near(centre, 0.3)), vectors, 10)} == {str(at)}


@given(_NAMES, st.lists(_NAMES, max_size=2))
def test_fused_orders_lose_nothing_and_agree_where_all_do(by_words: list[str], orders: list[list[str]]) -> None:
    found = fused(by_words, orders)
    assert sorted(found) == sorted({*by_words, *(name for order in orders for name in order)})
    assert fused(by_words, []) == by_words
    assert fused(by_words, [by_words]) == by_words


def test_what_words_find_best_stays_where_vectors_do_not_know_it() -> None:
    by_words = [f"tool{rank}" for rank in range(25)]
    assert {"tool0", "tool1", "tool2"} <= set(fused(by_words, [by_words[:4:-1]])[:10])
