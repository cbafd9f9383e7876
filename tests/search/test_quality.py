"""The search finds the tools that people mean."""

from __future__ import annotations

import pytest

from tests.search import quality
from tools_catalog.catalog.searching import Index


@pytest.fixture(scope="module")
def index() -> Index:
    return Index(quality.tools())


@pytest.mark.parametrize("is_tuned", [True, False])
def test_of_plain_questions_seven_in_ten_find_their_tool_first_and_nine_among_five(
    index: Index, is_tuned: bool
) -> None:
    found = quality.measured(index, [each for each in quality.questions() if each.is_tuned is is_tuned])
    assert found.questions == 100
    assert found.top_1 >= 0.7
    assert found.top_5 >= 0.9


def test_the_name_or_title_of_a_tool_finds_it_first(index: Index) -> None:
    definitions = quality.tools()
    titles = [str(each["title"]) for each in definitions.values()]
    for name, definition in definitions.items():
        assert index.rank(name)[0] == name
        if titles.count(definition["title"]) == 1:
            assert index.rank(definition["title"])[0] == name
