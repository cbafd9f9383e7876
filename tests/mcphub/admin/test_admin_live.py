"""The followed list fetches exactly the rows between two sequences, by the list's own filters."""

from __future__ import annotations

import pytest
from django.urls import reverse

from invocations.admin.live import FIRST_ROWS, MOST_ROWS
from invocations.rest import live
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory

LIST = "admin:invocations_mcptoolinvocation_changelist"


@pytest.fixture
def rows(db):
    common = {"session": McpSessionFactory(), "process": ServerProcessFactory()}
    return [McpToolInvocationFactory(**common, failed=number % 2 == 1) for number in range(6)]


def stretch(client, after, upto, **query):
    response = client.get(reverse("admin:invocation_live_rows", args=[after, upto]), query)
    assert response.status_code == 200
    return [row.pk for row in response.context["cl"].result_list], response


def test_a_stretch_holds_what_lies_after_the_last_up_to_the_told(log_in, rows):
    ids = [row.pk for row in rows]
    client = log_in("Viewer")
    found, response = stretch(client, ids[1], ids[4])
    assert found == ids[4:1:-1]
    assert (response["X-Upto"], response["X-More"]) == (str(ids[4]), "0")
    assert "no-store" in response["Cache-Control"]
    assert response.content.decode().count("<tbody") == 3
    assert stretch(client, ids[1], ids[4], status__exact="error")[0] == [ids[3]]
    assert stretch(client, ids[4], ids[4])[0] == []


def test_the_first_stretch_ends_where_all_is_visible(log_in, rows, monkeypatch):
    monkeypatch.setattr(live, "settling", live.SettlingCalls())
    found, response = stretch(log_in("Viewer"), 0, 0)
    assert found == [row.pk for row in reversed(rows)]
    assert int(response["X-Upto"]) >= rows[-1].pk


def test_what_came_too_fast_is_cut_and_said(log_in, rows):
    common = {"session": rows[0].session, "process": rows[0].process}
    more = [McpToolInvocationFactory(**common) for _ in range(MOST_ROWS + 1)]
    found, response = stretch(log_in("Viewer"), rows[-1].pk, more[-1].pk)
    assert found == [row.pk for row in reversed(more)][:MOST_ROWS]
    assert response["X-More"] == "1"
    assert FIRST_ROWS <= MOST_ROWS


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ({"q": "trace"}, "A list with free-text search"),
        ({"arguments": '$.text="hello"'}, "reads every body"),
        ({"started_at_to_0": "2026-01-01"}, "has an end"),
        ({"before": "2"}, "first page"),
    ],
)
def test_a_list_that_cannot_be_followed_says_why(query, why, log_in, rows):
    client = log_in("Viewer")
    page = client.get(reverse(LIST), query).content.decode()
    assert why in page
    assert "hub-live-bar" not in page
    for name, place in (("invocation_live", [1]), ("invocation_live_rows", [1, 2])):
        assert client.get(reverse(f"admin:{name}", args=place), query).status_code == 400


def test_a_list_that_can_be_followed_offers_it(log_in, rows):
    page = log_in("Viewer").get(reverse(LIST), {"tool_name": "echo"}).content.decode()
    assert "hub-live-bar" in page
    assert "mcphub/live.js" in page


def test_who_may_not_see_calls_follows_none(log_in, rows, client):
    stranger = log_in("Viewer")
    stranger.user.groups.clear()
    for name, place in (("invocation_live", [1]), ("invocation_live_rows", [1, 2])):
        assert stranger.get(reverse(f"admin:{name}", args=place)).status_code == 403
        assert client.get(reverse(f"admin:{name}", args=place)).status_code == 302


@pytest.mark.parametrize("place", [[0, 2**63], [2**63, 1]])
def test_a_sequence_that_no_table_has_is_refused(place, log_in, rows):
    assert log_in("Viewer").get(reverse("admin:invocation_live_rows", args=place)).status_code == 400
