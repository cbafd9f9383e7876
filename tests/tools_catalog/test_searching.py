"""Full-text search over tools."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools_catalog.catalog.searching import EXAMPLES, Index, words

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


@pytest.mark.parametrize("other", [None, "words", [5], {"a": "b"}])
def test_examples_of_use_find_their_tool_before_a_tool_that_mentions_the_words(other: Any) -> None:
    question = "Should I take an umbrella?"
    tools = {name: {**each, "_meta": {EXAMPLES: other}} for name, each in TOOLS.items()}
    tools["sell_things"] = {"title": "Things", "description": "Wares of a shop, such as an umbrella."}
    assert Index(tools).rank(question) == ["sell_things"]
    tools["weather.forecast"]["_meta"] = {EXAMPLES: ["Do I need an umbrella?", "Will the umbrella be wet?"]}
    assert set(Index(tools).rank(question)) == {"weather.forecast", "sell_things"}
    tools["sell_things"] = {"title": "Things", "description": "Wares of a shop."}
    assert Index(tools).rank("umbrella") == ["weather.forecast"]


def test_spellings_of_names_are_one() -> None:
    assert words("listPullRequests") == words("list_pull-request") == ["list", "pull", "request"]


def test_of_tools_that_fit_alike_the_more_called_one_comes_first() -> None:
    alike = {name: {"title": "Read the weather", "description": "Now."} for name in ("a_read", "b_read", "c_read")}
    assert Index(alike).rank("weather") == ["a_read", "b_read", "c_read"]
    assert Index(alike).rank("weather", {"c_read": 7, "b_read": 2}) == ["c_read", "b_read", "a_read"]


def test_a_tool_that_does_what_is_asked_comes_before_one_that_does_something_else() -> None:
    tools = {f"{verb}_user": {"title": f"{verb.title()} a user"} for verb in ("create", "delete", "get", "update")}
    index = Index(tools)
    for query, found in (
        ("remove a user", "delete_user"),
        ("add a new user", "create_user"),
        ("who is this user", "get_user"),
        ("change the user", "update_user"),
        ("удалить пользователя", "delete_user"),
        ("get rid of the user", "delete_user"),
    ):
        assert index.rank(query)[0] == found, query


@pytest.mark.parametrize("query", ["показать пользователей", "пользователь", "users", "USER", "usersList"])
def test_words_are_found_in_every_form_and_in_both_languages(query: str) -> None:
    tools = {"list_users": {"title": "List users"}, "delete_file": {"title": "Delete a file"}}
    assert Index(tools).rank(query)[0] == "list_users"


def test_a_question_of_several_sentences_finds_a_tool_for_each() -> None:
    tools = {name: {"title": name.replace("_", " ")} for name in ("merge_branch", "weather_forecast", "sum_invoices")}
    tools |= {f"branch_rule_{number}": {"title": f"Branch rule {number} of a branch"} for number in range(20)}
    found = Index(tools).rank(
        "Merge the branch, the branch of the branch rule. What is the forecast? Sum the invoices."
    )
    assert {"merge_branch", "weather_forecast", "sum_invoices"} <= set(found[:5])


def test_words_of_one_subject_find_each_other_after_words_that_are_there() -> None:
    tools = {"trips": {"description": "Plan a trip."}, "doors": {"description": "Doors of a hotel."}}
    assert Index(tools).rank("hotel") == ["doors", "trips"]


def test_words_that_match_nothing_are_named() -> None:
    index = Index(TOOLS)
    assert index.unmatched("please merge the zebra request", TOOLS) == ["zebra"]
    assert index.unmatched("merge the city", {"weather.forecast"}) == []
    assert index.unmatched("pull the city", {"weather.forecast"}) == ["pull"]


@given(st.text(), st.dictionaries(st.text(min_size=1, max_size=20), st.text(max_size=50), max_size=5))
def test_every_query_is_answered_with_names_that_are_there(query: str, described: dict[str, str]) -> None:
    found = Index({name: {"description": text} for name, text in described.items()}).rank(query)
    assert set(found) <= set(described)
    assert len(found) == len(set(found))
