"""Views of MCP Apps: their URIs are kept apart, and who may call a tool is read as the extension has it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import mcp_apps

VIEW = "ui://panel/page.html"
PATHS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=40)
SLUGS = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True)
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.just(VIEW),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["ui", "ui/resourceUri", "resourceUri", "visibility", "x"]), inner)
    ),
    max_leaves=10,
)


@given(SLUGS, PATHS)
def test_the_uri_of_a_view_comes_back_as_the_upstream_has_it(slug: str, path: str) -> None:
    uri = f"ui://{path}"
    assert mcp_apps.apart(slug, uri) != uri
    assert mcp_apps.at_upstream(slug, mcp_apps.apart(slug, uri)) == uri


@given(SLUGS, SLUGS, PATHS)
def test_two_upstreams_never_have_one_uri(one: str, other: str, path: str) -> None:
    same = mcp_apps.apart(one, f"ui://{path}") == mcp_apps.apart(other, f"ui://{path}")
    assert same == (one == other)


def test_other_uris_stay_as_they_are() -> None:
    assert mcp_apps.apart("far", "docs://ui/page") == "docs://ui/page"
    assert mcp_apps.at_upstream("far", VIEW) == VIEW


def test_both_places_of_a_views_uri_are_renamed_and_nothing_else() -> None:
    meta = {"ui": {"resourceUri": VIEW, "visibility": ["app"]}, "ui/resourceUri": VIEW, "x": VIEW}
    there = "ui://far/panel/page.html"
    assert mcp_apps.renamed(meta, lambda uri: mcp_apps.apart("far", uri)) == {
        "ui": {"resourceUri": there, "visibility": ["app"]},
        "ui/resourceUri": there,
        "x": VIEW,
    }


def test_views_in_the_content_of_a_result_are_renamed() -> None:
    content = [
        {"type": "text", "text": VIEW},
        {"type": "resource_link", "uri": VIEW, "name": "page"},
        {"type": "resource", "resource": {"uri": VIEW, "text": "<p>"}},
        {"type": "resource_link", "uri": "docs://a", "name": "a"},
        7,
    ]
    text, link, embedded, other, odd = mcp_apps.blocks_renamed(content, lambda uri: mcp_apps.apart("far", uri))
    assert (text, other, odd) == (content[0], content[3], 7)
    assert link["uri"] == embedded["resource"]["uri"] == "ui://far/panel/page.html"


@pytest.mark.parametrize(
    ("meta", "who"),
    [
        ({}, {"model", "app"}),
        ({"ui": {"visibility": ["app"]}}, {"app"}),
        ({"ui": {"visibility": ["model", "cat"]}}, {"model"}),
        ({"ui": {"visibility": []}}, set()),
        ({"ui": {"visibility": "app"}}, {"model", "app"}),
        ({"ui": 7}, {"model", "app"}),
        (None, {"model", "app"}),
    ],
)
def test_who_may_call_a_tool(meta: object, who: set[str]) -> None:
    assert mcp_apps.visibility(meta) == who


@given(ANYTHING)
def test_nothing_that_a_server_writes_breaks_the_reading_of_it(meta: object) -> None:
    assert mcp_apps.view_of(meta) in ("", VIEW)
    assert mcp_apps.visibility(meta) <= {"model", "app"}
    if isinstance(meta, dict):
        mcp_apps.renamed(meta, lambda uri: mcp_apps.apart("far", uri))
    mcp_apps.blocks_renamed(meta, lambda uri: mcp_apps.apart("far", uri))


@pytest.mark.parametrize(
    "meta",
    [
        {"ui": "ui://panel"},
        {"ui": {"resourceUri": "https://example.com/panel"}},
        {"ui/resourceUri": "panel"},
        {"ui": {"visibility": ["everybody"]}},
        {"ui": {"visibility": []}},
    ],
)
def test_what_clients_cannot_read_of_a_view_is_refused(meta: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="ui"):
        mcp_apps.check(meta)


def test_the_meta_of_a_tool_with_a_view_has_it_in_both_places() -> None:
    made = mcp_apps.with_view({"x": 1, "ui": {"later": True}}, VIEW, ["app"])
    assert made == {"x": 1, "ui": {"later": True, "resourceUri": VIEW, "visibility": ["app"]}, "ui/resourceUri": VIEW}
    mcp_apps.check(made)
    assert mcp_apps.with_view({}, "", ["app", "model"]) == {}
