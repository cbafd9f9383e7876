"""The counts beside the list of calls: of what the list's filters find, bounded, each a link that narrows to it."""

from __future__ import annotations

from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from invocations.admin import facets as admin_facets
from sessions_app.kit.lists import walking
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory
from tests.waiting import PATIENCE_SECONDS

LIST = "admin:invocations_mcptoolinvocation_changelist"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy machine counts as many as an idle one; who tests the bound sets it."""
    monkeypatch.setattr(admin_facets, "SECONDS", PATIENCE_SECONDS)


@pytest.fixture
def rows(db):
    session, process = McpSessionFactory(session_id="s", client_name="zed"), ServerProcessFactory()
    more = {"session": session, "process": process, "client_name": "zed", "caller_label": "laptop"}
    return [
        *(McpToolInvocationFactory(tool_name="echo", tool_version="1", **more) for _ in range(3)),
        McpToolInvocationFactory(tool_name="echo", tool_version="2", failed=True, **more),
        McpToolInvocationFactory(tool_name="<b>add", transport="sse", connection="git", **more),
    ]


def counted(client, **query):
    """Return what the panel says, and facet -> words -> (count, address)."""
    response = client.get(reverse("admin:invocation_facets"), query)
    assert response.status_code == 200
    facets = {
        facet["name"]: {each["words"]: (each["count"], each["link"]) for each in facet["values"]}
        for facet in response.context.get("facets", [])
    }
    return response.content.decode(), facets


def shown(client, address):
    return [row.pk for row in client.get(address).context["cl"].result_list]


def test_each_value_is_counted_and_leads_to_its_calls(log_in, rows):
    client = log_in("Viewer")
    page, facets = counted(client)
    assert "5 matches, all there are" in page
    assert "<b>" not in page
    assert {words: count for words, (count, _link) in facets["tool"].items()} == {"echo": "4", "<b>add": "1"}
    assert facets["principal"].keys() == {f"laptop ({rows[0].principal})"}
    assert facets["connection"].keys() == {"git"}
    assert "version" not in facets
    for name, words, found in (
        ("tool", "echo", rows[:4]),
        ("status", "Error", rows[3:4]),
        ("transport", "HTTP+SSE", rows[4:]),
        ("client", "zed", rows),
        ("error_code", rows[3].error_code, rows[3:4]),
        ("connection", "git", rows[4:]),
        ("principal", f"laptop ({rows[0].principal})", rows),
    ):
        assert shown(client, facets[name][words][1]) == [row.pk for row in reversed(found)], name


def test_figures_are_of_what_the_filters_find_and_a_chosen_value_is_taken_out(log_in, rows):
    client = log_in("Viewer")
    page, facets = counted(client, tool_name="echo", before="2", transport__exact=rows[0].transport)
    assert {words: count for words, (count, _link) in facets["version"].items()} == {"1": "3", "2": "1"}
    assert shown(client, facets["version"]["2"][1]) == [rows[3].pk]
    assert 'aria-current="true"' in page
    assert parse_qs(urlsplit(facets["tool"]["echo"][1]).query) == {"transport__exact": [rows[0].transport]}
    page, facets = counted(client, tool_name="none such")
    assert "Nothing matches" in page
    assert not facets
    assert counted(client, started_at_from_0="2031-01-01")[1] == {}
    assert counted(client, started_at_to_0="9999-12-31")[1].keys() > {"tool", "status"}


def test_a_count_that_was_cut_says_so(log_in, rows, monkeypatch):
    monkeypatch.setattr(admin_facets, "MOST_COUNTED", 3)
    page, facets = counted(log_in("Viewer"))
    assert "the newest 3 matches" in page
    assert {words: count for words, (count, _link) in facets["tool"].items()} == {"echo": "2+", "<b>add": "1+"}


def test_a_count_whose_time_was_over_says_so(log_in, rows, monkeypatch):
    monkeypatch.setattr(admin_facets, "SECONDS", 0)
    monkeypatch.setattr(walking, "FIRST_STRETCH", 2)
    page, facets = counted(log_in("Viewer"), tool_name="echo")
    assert "the newest 1 match" in page
    assert facets["tool"]["echo"][0] == "1+"


def test_what_is_looked_for_in_bodies_is_not_counted(log_in, rows):
    assert "reads every body" in counted(log_in("Auditor"), arguments='$.text="x"')[0]


def test_who_may_not_see_calls_counts_none(log_in, rows, client):
    stranger = log_in("Viewer")
    stranger.user.groups.clear()
    assert stranger.get(reverse("admin:invocation_facets")).status_code == 403
    assert client.get(reverse("admin:invocation_facets")).status_code == 302


def test_a_filter_that_is_none_is_refused(log_in, rows):
    assert log_in("Viewer").get(reverse("admin:invocation_facets"), {"status__exact__x": "1"}).status_code == 400


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ({}, ""),
        ({"tool_name": "echo"}, "invocation_by_tool"),
        ({"status__exact": "error"}, "invocation_errors"),
        ({"principal": "key:1"}, "invocation_by_principal"),
        ({"session": "s"}, "invocation_by_session"),
        ({"connection": "git"}, "invocation_upstream"),
    ],
)
def test_the_count_reads_an_index_in_its_order(query, index, log_in, rows):
    client = log_in("Viewer")
    with CaptureQueriesContext(connection) as asked:
        counted(client, **query)
    statements = [each["sql"] for each in asked if "caller_label" in each["sql"]]
    # The list itself comes first, the count last.
    with connection.cursor() as cursor:
        if connection.vendor == "postgresql":
            for way in ("seqscan", "bitmapscan", "sort"):
                cursor.execute(f"SET LOCAL enable_{way} = off")
        cursor.execute(f"EXPLAIN {'' if connection.vendor == 'postgresql' else 'QUERY PLAN'} {statements[-1]}")
        told = "\n".join(str(row) for row in cursor.fetchall())
    assert "TEMP B-TREE" not in told
    assert "Sort" not in told
    assert index in told
    assert "SEARCH" in told or "Index" in told
