"""Full-text search over tools."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tools_catalog.catalog.searching import Index, words

TOOLS = {
    "bitbucket.merge_pull_request": {"title": "Merge a pull request", "description": "Merge it into its branch."},
    "bitbucket.list_pull_requests": {"title": "List pull requests", "description": "All of a repository."},
    "weather.forecast": {
        "title": "Forecast",
        "description": "Weather of the next days. It does not merge anything.",
        "inputSchema": {"properties": {"city": {"description": "Name of the city."}}},
    },
}


def test_names_weigh_more_than_descriptions() -> None:
    assert Index(TOOLS).rank("merge") == ["bitbucket.merge_pull_request", "weather.forecast"]


def test_arguments_are_found_and_words_by_their_beginning() -> None:
    index = Index(TOOLS)
    assert index.rank("city") == ["weather.forecast"]
    assert index.rank("forec") == ["weather.forecast"]
    assert index.rank("nothing of the kind")[:1] != ["x"]
    assert index.rank("zebra") == []


def test_spellings_of_names_are_one() -> None:
    assert words("listPullRequests") == words("list_pull-request") == ["list", "pull", "request"]


@given(st.text(), st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=50), max_size=5))
def test_every_query_is_answered_with_names_that_are_there(query: str, described: dict[str, str]) -> None:
    found = Index({name: {"description": text} for name, text in described.items()}).rank(query)
    assert set(found) <= set(described)
    assert len(found) == len(set(found))
