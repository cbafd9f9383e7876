"""Lists of rows without a bound: each page begins beside a row, and what no index finds is found all the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import chain

import pytest
from django.contrib import admin
from django.urls import reverse

import mcphub.urls  # noqa: F401 - registers the pages of the admin
from sessions_app.models import McpSession
from tests.factories import McpSessionFactory

LIST = "admin:sessions_app_mcpsession_changelist"
BEGIN = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture
def sessions(db):
    """Return the keys of sessions as the list shows them; always three begin at one moment."""
    for number in range(20):
        McpSessionFactory(
            session_id=f"s~{number * 7 % 20:02d}",
            created_at=BEGIN + timedelta(hours=number // 3),
            client_name="rare" if number < 4 else "usual",
            state="closed" if number % 2 else "initialized",
            ended_at=BEGIN + timedelta(days=1) if number % 2 else None,
        )
    return list(McpSession.objects.order_by("-created_at", "-session_id").values_list("pk", flat=True))


@pytest.fixture
def page(monkeypatch):
    page = admin.site._registry[McpSession]
    monkeypatch.setattr(page, "list_per_page", 3)
    return page


def followed(client, where, *links):
    """Return the keys on each page from an address on, by whichever of the links there is."""
    pages = []
    for _ in range(30):
        shown = client.get(reverse(LIST) + where).context_data["cl"]
        pages.append([row.pk for row in shown.result_list])
        where = next((getattr(shown, link) for link in links if getattr(shown, link)), "")
        if not where:
            return pages
    raise AssertionError("the pages do not end")


def test_pages_follow_each_other_without_gap_or_double_among_equal_moments(log_in, sessions, page):
    client = log_in("Viewer")
    assert list(chain(*followed(client, "", "older"))) == sessions
    last = client.get(reverse(LIST), {"after": f"{BEGIN:%Y-%m-%dT%H:%M:%SZ}~s~00"}).context_data["cl"]
    upwards = followed(client, last.get_query_string(), "newer")
    assert list(chain(*reversed(upwards))) == sessions[: sessions.index("s~00")]


def test_a_page_is_not_moved_by_sessions_that_begin_meanwhile(log_in, sessions, page):
    client = log_in("Viewer")
    older = client.get(reverse(LIST)).context_data["cl"].older
    McpSessionFactory(created_at=BEGIN + timedelta(days=2))
    assert [row.pk for row in client.get(reverse(LIST) + older).context_data["cl"].result_list] == sessions[3:6]


@pytest.mark.parametrize("window", [1, 4, 7, 100])
def test_what_no_index_finds_is_found_by_looking_further(log_in, sessions, page, window, monkeypatch):
    monkeypatch.setattr(page, "window", window)
    client = log_in("Viewer")
    rare = set(McpSession.objects.filter(client_name="rare").values_list("pk", flat=True))
    pages = followed(client, "?q=rare", "older", "further")
    assert list(chain(*pages)) == [key for key in sessions if key in rare]
    assert (len(pages) > 2) is (window < 100)
    text = client.get(reverse(LIST) + "?q=rare").content.decode()
    assert ("Search further" in text) is (window < 100)


def test_where_a_page_found_nothing_one_goes_back_to_what_lies_above_it(log_in, sessions, page, monkeypatch):
    monkeypatch.setattr(page, "window", 7)
    client = log_in("Viewer")
    first = client.get(reverse(LIST) + "?q=usual").context_data["cl"]
    empty = client.get(reverse(LIST) + f"?q=usual&before={BEGIN:%Y-%m-%dT%H:%M:%SZ}").context_data["cl"]
    assert not empty.result_list
    upwards = list(chain(*reversed(followed(client, empty.newer, "newer", "further"))))
    assert upwards[:3] == [row.pk for row in first.result_list]
    assert sorted(upwards) == sorted(McpSession.objects.filter(client_name="usual").values_list("pk", flat=True))


def test_an_indexed_filter_looks_at_its_own_rows_alone(log_in, sessions, page, monkeypatch):
    """All closed sessions are among the newest ten closed ones, not among the newest ten."""
    monkeypatch.setattr(page, "window", 10)
    monkeypatch.setattr(page, "list_per_page", 50)
    closed = [key for key in sessions if McpSession.objects.get(pk=key).state == "closed"]
    assert followed(log_in("Viewer"), "?state__exact=closed", "older", "further") == [closed]
    shown = followed(log_in("Viewer"), "?state__exact=closed&transport__exact=streamable-http", "older", "further")
    assert shown == [closed]


@pytest.mark.parametrize(
    "place", ["before=x", "before=2026-13-01T00:00:00Z", "after=2026-05-01T00:00:00Z~a%00b", "before=~", "p=2"]
)
def test_a_place_that_is_none_is_left_out_and_said(log_in, sessions, page, place):
    answer = log_in("Viewer").get(f"{reverse(LIST)}?state__exact=closed&{place}", follow=True)
    assert answer.redirect_chain == [(f"{reverse(LIST)}?state__exact=closed", 302)]
    assert "Ignored: " in answer.content.decode()


@pytest.mark.parametrize(
    "place", ["before=0001-01-01T00:00:00Z", "after=9999-12-31T23:59:59.999999Z", "before=1999-01-01"]
)
def test_beyond_the_ends_there_is_an_empty_page_that_leads_back(log_in, sessions, page, place):
    shown = log_in("Viewer").get(f"{reverse(LIST)}?{place}").context_data["cl"]
    assert not shown.result_list
    assert shown.newer or shown.older


def test_an_empty_page_says_why_and_offers_only_what_can_be_done(log_in, sessions, page, monkeypatch):
    client = log_in("Operator")

    def told(query):
        return client.get(reverse(LIST) + query).content.decode()

    assert "Nothing matches the search and filters." in told("?q=absent")
    assert "Add MCP session" not in told("?q=absent")
    assert "Nothing on this page" in told("?before=1999-01-01")
    monkeypatch.setattr(page, "window", 2)
    assert "Later pages may match." in told("?q=absent")
    McpSession.objects.all().delete()
    assert "Nothing here yet." in told("")


@pytest.mark.parametrize(
    ("listed", "step"),
    [
        ("invocations_mcptoolinvocation", "connect"),
        ("sessions_app_mcpsession", "connect"),
        ("invocations_mcpapproval", "admin:tools_catalog_mcppolicyrule_changelist"),
        ("tools_catalog_mcpupstreamtool", "admin:tools_catalog_mcpconnection_changelist"),
    ],
)
def test_an_empty_list_leads_to_the_step_that_brings_its_first_row(log_in, listed, step):
    client = log_in("Operator")
    button = f'<a href="{reverse(step)}" class="hub-range">'
    address = reverse(f"admin:{listed}_changelist")
    assert button in client.get(address).content.decode()
    assert button not in client.get(f"{address}?q=absent").content.decode()


def test_nobody_is_offered_to_select_rows_that_were_not_counted(log_in, sessions, page):
    page = log_in("Operator").get(reverse(LIST)).content.decode()
    assert 'name="action"' in page
    assert "across all pages" not in page


def test_chosen_sessions_of_a_later_page_are_closed(log_in, sessions, page):
    client = log_in("Operator")
    live = McpSession.objects.filter(state="initialized").order_by("created_at").first()
    where = f"{reverse(LIST)}?before={live.created_at:%Y-%m-%dT%H:%M:%S}Z~t"
    chosen = {"action": "close_selected", "_selected_action": [live.pk], "confirmed": "1"}
    client.post(where, chosen)
    live.refresh_from_db()
    assert live.state == "closed"
