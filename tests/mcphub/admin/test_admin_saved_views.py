"""Views of a list that people save, and the columns that they choose: an address says everything that is seen."""

from __future__ import annotations

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from sessions_app.models.lists import SavedView
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory

CALLS = "admin:invocations_mcptoolinvocation"
SESSIONS = "admin:sessions_app_mcpsession"
FAILED = "status__exact=error&columns=status,tool"


@pytest.fixture
def rows(db):
    common = {"session": McpSessionFactory(session_id="s" * 20), "process": ServerProcessFactory()}
    return [
        McpToolInvocationFactory(**common),
        McpToolInvocationFactory(failed=True, connection="git", turn_id="turn-1", **common),
    ]


def address(name="changelist", *args, of=CALLS):
    return reverse(f"{of}_{name}", args=args)


def headings(response):
    cells = re.findall(r"<th [^>]*column-([\w-]+)", response.content.decode())
    return [name.removeprefix("shown_") for name in cells]


def save(client, name, query=FAILED, of=CALLS, **more):
    response = client.post(address("views", of=of), {"name": name, "query": query, **more}, follow=True)
    assert response.status_code == 200
    return response


def links(response):
    """Return the views above the list: words -> (address, whether it is the one that is seen)."""
    found = re.findall(
        r'<a class="hub-range" href="([^"]+)"([^>]*)>(?:<span.*</span>)?([^<]*)</a>', response.content.decode()
    )
    return {words: (place.replace("&amp;", "&"), "aria-current" in rest) for place, rest, words in found}


def test_the_address_names_the_columns_in_their_order(log_in, rows):
    client = log_in("Viewer")
    response = client.get(address(), {"columns": "tool,status,connection,size,turn,session,id"})
    assert headings(response) == ["tool", "status", "connection", "size", "listed_turn", "listed_session", "id"]
    page = response.content.decode()
    assert f'href="{address("change", rows[1].pk)}' in page  # where no time is shown, the first column leads there
    assert "git" in page
    assert re.search(r"\d+ B", page)
    page = client.get(address(), {"columns": "tool,<b>,status"}).content.decode()
    assert "This list has no column &lt;b&gt;. Available columns: time, status" in page
    assert headings(client.get(address(), {"columns": "nothing"}))[0] == "time"


@pytest.mark.parametrize("filtered", [{}, {"status__exact": "ok"}])
def test_a_size_is_that_of_the_bodies_as_stored_and_is_measured_only_when_shown(filtered, log_in, rows):
    row = McpToolInvocationFactory(
        arguments={"a": "é"}, result={"b": 1}, session=rows[0].session, process=rows[0].process
    )
    client = log_in("Viewer")
    with CaptureQueriesContext(connection) as asked:
        client.get(address())
    assert not [each for each in asked if "LENGTH" in each["sql"]]
    answer = client.get(address(), {"columns": "size", **filtered})
    shown = answer.context["cl"].result_list[0]
    with connection.cursor() as cursor:
        cursor.execute("SELECT arguments, result FROM invocations_mcptoolinvocation WHERE id = %s", [row.pk])
        stored = cursor.fetchone()
    assert shown.pk == row.pk
    assert shown.body_bytes == sum(len(text.encode()) for text in stored)


def test_chosen_columns_are_remembered_for_the_person_alone(log_in, rows):
    client, other = log_in("Viewer"), log_in("Viewer")
    usual = headings(client.get(address()))
    chosen = {"column": ["time", "tool", "nothing"], "query": "status__exact=error&p=3"}
    response = client.post(address("columns"), chosen)
    assert response.status_code == 302
    assert response.url == f"{address()}?status__exact=error&columns=time,tool"
    assert headings(client.get(address())) == ["time", "tool"]
    assert headings(client.get(address(), {"columns": "id"})) == ["id"]
    assert headings(other.get(address())) == usual
    client.post(address("columns"), {"column": ["tool"], "usual": "1", "query": "columns=tool"})
    assert headings(client.get(address())) == usual


def test_a_saved_view_is_the_address_under_a_name(log_in, rows):
    client, other = log_in("Viewer"), log_in("Auditor")
    response = save(client, " Failures ", query=FAILED + "&p=2&e=1")
    assert "View “Failures” saved." in response.content.decode()
    place, is_seen = links(response)["Failures"]
    assert is_seen
    assert place == f"{address()}?{FAILED}"
    response = client.get(place)
    assert [row.pk for row in response.context["cl"].result_list] == [rows[1].pk]
    assert headings(response) == ["status", "tool"]
    assert links(client.get(address()))["Failures"] == (place, False)
    assert links(other.get(address())) == {}
    assert links(client.get(address(of=SESSIONS))) == {}


def test_the_same_name_replaces_and_a_name_must_be_one(log_in, rows):
    client = log_in("Viewer")
    save(client, "mine")
    assert "now shows this list" in save(client, "mine", query="tool_name=echo").content.decode()
    assert SavedView.objects.get().query == "tool_name=echo"
    assert "Enter a name for the view." in save(client, "  ").content.decode()
    assert "at most 60 characters" in save(client, "x" * 61).content.decode()
    assert "too many filters" in save(client, "long", query="tool_name=" + "x" * 5000).content.decode()
    assert SavedView.objects.count() == 1


def test_views_are_shared_by_who_may_and_then_seen_by_all(log_in, rows):
    viewer, operator, auditor = log_in("Viewer"), log_in("Operator"), log_in("Auditor")
    assert "is_shared" not in viewer.get(address()).content.decode()
    save(viewer, "hers", is_shared="on")
    assert not SavedView.objects.get().is_shared
    save(operator, "ours", query="tool_name=echo", is_shared="on")
    assert links(viewer.get(address())).keys() == {"hers", "ours"}
    assert links(auditor.get(address())).keys() == {"ours"}
    shared = SavedView.objects.get(name="ours")
    assert viewer.post(address("view", shared.pk), {"name": "mine now"}).status_code == 403
    assert viewer.post(address("view_delete", shared.pk), {"confirmed": "1"}).status_code == 403
    assert auditor.post(address("view", shared.pk), {"name": "all of us", "is_shared": "on"}).status_code == 302
    assert links(viewer.get(address())).keys() == {"hers", "all of us"}
    own = SavedView.objects.get(name="hers")
    assert auditor.post(address("view", own.pk), {"name": "not hers"}).status_code == 404
    assert auditor.get(address("view_delete", own.pk)).status_code == 404


def test_a_view_is_renamed_and_deleted_after_a_question(log_in, rows):
    client = log_in("Viewer")
    save(client, "one")
    save(client, "two", query="tool_name=echo")
    one = SavedView.objects.get(name="one")
    page = client.post(address("view", one.pk), {"name": "two"}, follow=True).content.decode()
    assert "Another view already has this name" in page
    client.post(address("view", one.pk), {"name": "first"})
    assert "be undone" in client.get(address("view_delete", one.pk)).content.decode()
    assert SavedView.objects.filter(name="first").exists()
    client.post(address("view_delete", one.pk), {"confirmed": "1"})
    assert [view.name for view in SavedView.objects.all()] == ["two"]
    for name in ("columns", "views"):
        assert client.get(address(name)).status_code == 405


def test_who_may_not_see_the_list_saves_nothing(log_in, rows, client):
    stranger = log_in("Viewer")
    stranger.user.groups.clear()
    for name in ("columns", "views"):
        assert stranger.post(address(name), {"name": "x", "query": ""}).status_code == 403
        assert client.post(address(name), {"name": "x"}).status_code == 302
    assert not SavedView.objects.exists()


def test_other_lists_are_arranged_too(log_in, rows):
    client = log_in("Viewer")
    response = client.get(address(of=SESSIONS), {"columns": "id,created_at,ended_at", "o": "1"})
    assert headings(response) == ["id", "created_at", "ended_at"]
    assert links(save(client, "by age", query="columns=id,created_at&o=-2", of=SESSIONS))["by age"][1]


def test_foreign_words_in_a_view_neither_run_nor_lead_away(log_in, rows):
    client = log_in("superuser")
    page = save(client, "<script>alert(1)</script>", query="//evil.example/?q=<script>alert(2)").content.decode()
    assert "<script>alert" not in page
    assert f'href="{address()}?' in page
    assert 'href="//' not in page


def test_views_above_a_list_are_found_by_their_indexes(log_in, rows):
    client = log_in("Viewer")
    save(client, "one")
    with CaptureQueriesContext(connection) as asked:
        client.get(address())
    statements = [each["sql"] for each in asked if re.search("savedview|listcolumns", each["sql"])]
    assert len(statements) == 2
    with connection.cursor() as cursor:
        for statement in statements:
            if connection.vendor == "postgresql":
                for way in ("seqscan", "bitmapscan", "sort"):
                    cursor.execute(f"SET LOCAL enable_{way} = off")
            cursor.execute(f"EXPLAIN {'' if connection.vendor == 'postgresql' else 'QUERY PLAN'} {statement}")
            told = "\n".join(str(row) for row in cursor.fetchall())
            assert re.search("saved_view_by_page|list_columns_once|sqlite_autoindex", told), told
            assert not re.search("Seq Scan|SCAN|TEMP B-TREE|Sort", told), told
