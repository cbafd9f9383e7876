"""The policy of a view's page: what its server declared, as far as browsers may be led there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from django.test import RequestFactory
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from mcphub.console import shown_views
from sessions_app.history import source
from sessions_app.history.guarding import decided
from sessions_app.history.models import WaitingChange
from sessions_app.models import McpWorkspace
from tests.factories import GroupFactory, McpResourceFactory, McpToolDefinitionFactory, UserFactory
from tools_catalog.catalog.snapshot import Catalog


@given(st.one_of(st.none(), st.text(), st.lists(st.text() | st.integers()), st.dictionaries(st.text(), st.text())))
def test_no_declared_source_ends_a_directive(named: Any) -> None:
    for word in shown_views.sources(named):
        assert not set(word) & set(" ;,'\"\n\t")
        assert word.lower().startswith(("https://", "wss://"))
    said = shown_views.policy(dict.fromkeys(("connectDomains", "resourceDomains", "frameDomains"), named))
    assert said.count(";") == 12
    assert said.startswith("sandbox allow-scripts allow-forms; default-src 'none'; script-src 'unsafe-inline'")


@pytest.mark.parametrize(
    "source",
    [
        "https://10.0.0.1",
        "https://[::1]",
        "https://localhost",
        "http://a.example.com",
        "https://a.example.com/path",
        "https://*",
        "https:",
        "'self'",
        "https://a.example.com; script-src *",
    ],
)
def test_sources_within_the_network_and_whole_schemes_are_left_out(source: str) -> None:
    assert shown_views.sources([source, "https://*.example.com:8443"]) == ["https://*.example.com:8443"]


def test_only_who_may_try_a_tool_sees_its_view(log_in: Any, echo: Any) -> None:
    viewer = log_in("Viewer")
    assert viewer.get(reverse("tool_view", args=[echo.pk])).status_code == 403
    assert viewer.post(reverse("tool_view_asked", args=[echo.pk]), {}).status_code == 403


def test_the_page_of_a_view_is_no_page_of_its_own(log_in: Any, echo: Any) -> None:
    answer = log_in("Operator").get(reverse("tool_view", args=[echo.pk]), headers={"Sec-Fetch-Dest": "document"})
    assert answer.status_code == 400
    assert answer["Content-Security-Policy"].startswith("sandbox ")
    assert answer["X-Frame-Options"] == "SAMEORIGIN"


# What a view calls -----------------------------------------------------------------------------------------

VIEW = {"ui": {"resourceUri": "ui://board/page.html"}}
OTHER = {"ui": {"resourceUri": "ui://board/other.html"}}


def names(shown: str) -> set[str]:
    tools = Catalog.load().tools
    return {tool.name for tool in shown_views.companions(tools.values(), tools[shown])}


@pytest.mark.django_db
def test_a_view_calls_its_own_tool_and_those_that_name_the_same_view() -> None:
    own, finance = GroupFactory(name="own"), GroupFactory(name="finance")
    blue, red = (McpWorkspace.objects.create(slug=slug) for slug in ("blue", "red"))
    for name, meta, workspace, groups in (
        ("board", VIEW, None, []),
        ("board_data", VIEW, None, []),
        ("reserved_data", VIEW, None, [finance]),
        ("model_only", {"ui": {**VIEW["ui"], "visibility": ["model"]}}, None, []),
        ("another", OTHER, None, []),
        ("fin_report", {}, None, []),
        ("blue_data", VIEW, blue, []),
        ("red_board", VIEW, red, []),
        ("own_board", VIEW, None, [own]),
    ):
        row = McpToolDefinitionFactory(name=name, meta=meta, workspace=workspace)
        row.groups.set(groups)
    assert names("board") == {"board", "board_data"}
    assert names("own_board") == {"board", "board_data", "own_board"}
    assert names("blue_data") == {"blue_data"}
    assert names("red_board") == {"red_board"}
    assert names("fin_report") == {"fin_report"}


# Where a view may send what it shows -----------------------------------------------------------------------


def csp(*hosts: str) -> dict[str, Any]:
    return {"ui": {"csp": {"connectDomains": list(hosts)}}}


@pytest.fixture
def editing() -> Iterator[None]:
    request = RequestFactory().get("/")
    request.user = UserFactory()
    with source.edits_via(source.REST, request):
        yield


@pytest.mark.django_db
def test_hosts_outside_that_a_view_reaches_need_a_second_person(editing: None) -> None:
    row = McpResourceFactory(uri="ui://board/page.html", content="<p>", meta={**csp("https://evil.example"), "a": 1})
    row.refresh_from_db()
    assert row.meta == {"ui": {}, "a": 1}
    assert WaitingChange.objects.get().after["meta"] == {**csp("https://evil.example"), "a": 1}
    plain = McpResourceFactory(uri="docs://x", content="x", meta=csp("https://evil.example"))
    assert plain.meta == csp("https://evil.example")


@pytest.mark.django_db
def test_a_view_whose_page_changes_reaches_nothing_until_it_is_confirmed_again(editing: None) -> None:
    with decided():
        row = McpResourceFactory(uri="ui://board/page.html", content="<p>", meta=csp("https://a.example"))
    row.meta = {**csp("https://a.example"), "a": 1}
    row.save()
    assert row.meta["a"] == 1  # the hosts are those that were confirmed
    row.content = "<script>"
    row.save()
    row.refresh_from_db()
    assert row.meta == {"ui": {}, "a": 1}
    assert row.content == "<script>"
