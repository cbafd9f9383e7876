"""Figures round to the nearest, as people expect."""

from __future__ import annotations

import pytest

from sessions_app.kit.shown import percent, rounded


@pytest.mark.parametrize(
    ("value", "places", "words"), [(0.19, 1, "0.2"), (21.96, 1, "22.0"), (417.9, 0, "418"), (1234.56, 1, "1,234.6")]
)
def test_a_figure_is_rounded_and_not_cut(value: float, places: int, words: str) -> None:
    assert rounded(value, places) == words


def test_a_share_has_one_place() -> None:
    assert percent(2, 3) == "66.7\N{NO-BREAK SPACE}%"
