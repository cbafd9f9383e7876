"""The list and the page of calls: read-only, escaped, cheap, and without bodies for who may not read them."""

from __future__ import annotations

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from invocations.admin import call_list
from sessions_app.kit.lists.walking import WalkedKeyset
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory
from tests.waiting import PATIENCE_SECONDS

LIST = "admin:invocations_mcptoolinvocation_changelist"


@pytest.fixture(autouse=True)
def patient(monkeypatch):
    """A busy machine looks at as many calls as an idle one: a page whose time is over says that there may be more."""
    monkeypatch.setattr(call_list, "SECONDS", PATIENCE_SECONDS)
    monkeypatch.setattr(WalkedKeyset, "seconds", PATIENCE_SECONDS)


def page_of(row):
    return reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk])


def shown(response):
    return [row.pk for row in response.context["cl"].result_list]


def test_list_is_newest_first_and_counts_nothing(log_in, django_assert_max_num_queries):
    session, process = McpSessionFactory(), ServerProcessFactory()
    rows = [McpToolInvocationFactory(session=session, process=process) for _ in range(60)]
    client = log_in("Viewer")
    with django_assert_max_num_queries(8), CaptureQueriesContext(connection) as asked:
        response = client.get(reverse(LIST), {"_facets": "True"})
    assert shown(response) == [row.pk for row in reversed(rows)][:50]
    statements = [query["sql"] for query in asked if "invocations_mcptoolinvocation" in query["sql"]]
    assert statements
    assert not [sql for sql in statements if "COUNT(" in sql.upper()]
    # Bodies stay in the database: a page of large results must not be loaded for a list.
    assert not [sql for sql in statements if '"result"' in sql]
    assert "Older" in response.content.decode()
    older = client.get(reverse(LIST) + response.context["cl"].older)
    assert shown(older) == [row.pk for row in reversed(rows)][50:]
    assert not older.context["cl"].older
    newer = client.get(reverse(LIST) + older.context["cl"].newer)
    assert shown(newer) == shown(response)
    assert not newer.context["cl"].newer


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"status__exact": "error"}, {"failed", "busy", "died"}),
        ({"tool_name": "search"}, {"search"}),
        ({"client": "Inspector"}, {"inspector", "inspector too"}),
        ({"session": "session-x"}, {"inspector", "inspector too"}),
        ({"code": "execution_error"}, {"failed"}),
        ({"transport__exact": "sse"}, {"sse"}),
        ({"duplicate": "yes"}, {"repeat"}),
        ({"client_version": "9.9"}, {"slow"}),
        ({"duration_ms_from": "5000"}, {"slow"}),
        ({"duration_ms_from": "5000", "duration_ms_to": "5999"}, set()),
        ({"duration_ms_from": "6000", "duration_ms_to": "6000"}, {"slow"}),
        ({"chat": "yes"}, {"asked by a model"}),
        ({"retry": "yes"}, {"busy"}),
        ({"retry": "no"}, {"failed", "died"}),
        ({"interrupted": "yes"}, {"died"}),
        ({"interrupted": "no", "status__exact": "error"}, {"failed", "busy"}),
        ({"chat": "no", "client": "Inspector"}, {"inspector", "inspector too"}),
        ({"principal": "user:7"}, {"mine", "mine too"}),
        ({"started_at_from_0": "2030-01-01", "started_at_from_1": "00:00:00"}, set()),
        ({"q": "session-x"}, {"inspector", "inspector too"}),
        ({"q": "4711"}, {"sse", "4711 as text"}),
        ({"q": "trace-1"}, {"mine", "mine too"}),
        ({"q": "nothing like it"}, set()),
    ],
)
def test_filters_and_search_match_exactly(query, expected, log_in):
    other = McpSessionFactory(session_id="session-x", client_name="Inspector")
    rows = {
        "plain": McpToolInvocationFactory(),
        "failed": McpToolInvocationFactory(failed=True),
        "search": McpToolInvocationFactory(tool_name="search", invocation_id="invocation-to-find"),
        "inspector": McpToolInvocationFactory(session=other, client_name="Inspector"),
        "sse": McpToolInvocationFactory(transport="sse", request_id=4711),
        "repeat": McpToolInvocationFactory(duplicate_of="invocation-to-find"),
        "mine": McpToolInvocationFactory(principal="user:7", trace_id="trace-1"),
        "mine too": McpToolInvocationFactory(principal="user:7", trace_id="trace-1"),
        "inspector too": McpToolInvocationFactory(session=other, client_name="Inspector"),
        "4711 as text": McpToolInvocationFactory(request_id="4711"),
        "slow": McpToolInvocationFactory(client_version="9.9", duration_ms=6000),
        "asked by a model": McpToolInvocationFactory(turn_id="turn-1"),
        "busy": McpToolInvocationFactory(failed=True, error_code="rate_limited", retryable=True),
        "died": McpToolInvocationFactory(failed=True, error_code="interrupted", retryable=False),
    }
    response = log_in("Viewer").get(reverse(LIST), query)
    assert response.status_code == 200
    assert {name for name, row in rows.items() if row.pk in shown(response)} == expected


@pytest.mark.parametrize(
    "written", ["019a0000-0000-7000-8000-000000000001", "one-session", "4711", "-5", "a request", "one-trace"]
)
@pytest.mark.parametrize("filters", [{}, {"status__exact": "error"}])
def test_an_id_that_one_call_has_leads_to_its_page(written, filters, log_in):
    rows = {
        "019a0000-0000-7000-8000-000000000001": {"invocation_id": "019a0000-0000-7000-8000-000000000001"},
        "one-session": {"session": McpSessionFactory(session_id="one-session")},
        "4711": {"request_id": 4711},
        "-5": {"request_id": -5},
        "a request": {"request_id": "a request"},
        "one-trace": {"trace_id": "one-trace"},
    }
    made = {name: McpToolInvocationFactory(**given) for name, given in rows.items()}
    response = log_in("Viewer").get(reverse(LIST), {"q": f" {written} ", **filters})
    assert response.status_code == 302
    assert response.url == page_of(made[written])


def test_bodies_are_hidden_from_who_may_not_read_them(log_in):
    row = McpToolInvocationFactory(arguments={"password": "arguments-body"}, result={"content": ["result-body"]})
    body = reverse("admin:invocation_body", args=[row.pk, "arguments"])
    viewer, auditor = log_in("Viewer"), log_in("Auditor")
    page = viewer.get(page_of(row)).content.decode()
    assert "arguments-body" not in page
    assert "result-body" not in page
    assert viewer.get(body).status_code == 403
    page = auditor.get(page_of(row)).content.decode()
    assert "arguments-body" in page
    assert "result-body" in page
    answer = auditor.get(body)
    assert answer["Content-Type"] == "application/json"
    assert answer["Content-Disposition"].startswith("attachment")
    assert answer["X-Content-Type-Options"] == "nosniff"
    assert auditor.get(reverse("admin:invocation_body", args=[row.pk, "principal"])).status_code == 404


def test_foreign_text_neither_runs_nor_hides(log_in):
    evil = "<script>alert(1)</script>\u202egnp.exe\u200b"
    row = McpToolInvocationFactory(
        tool_name=evil,
        client_name=evil,
        client_version=evil,
        caller_label=evil,
        arguments={evil: evil},
        session=McpSessionFactory(client_name=evil),
        failed=True,
        error={"code": 1, "message": evil, "data": {}},
    )
    client = log_in("superuser")
    session = reverse("admin:sessions_app_mcpsession_change", args=[row.session_id])
    sessions = reverse("admin:sessions_app_mcpsession_changelist")
    for address in (reverse(LIST), page_of(row), reverse("admin:index"), session, sessions):
        page = client.get(address).content.decode()
        assert "<script>alert" not in page, address
        assert "\u202e" not in page, address
        assert "\u200b" not in page, address
    assert "\\u202e" in client.get(page_of(row)).content.decode()


def test_large_bodies_are_cut_and_had_whole_by_download(log_in):
    row = McpToolInvocationFactory(result={"text": "x" * 100_000})
    client = log_in("Auditor")
    page = client.get(page_of(row)).content.decode()
    assert len(page) < 160_000
    address = reverse("admin:invocation_body", args=[row.pk, "result"])
    assert address in page
    assert len(client.get(address).content) > 100_000


@pytest.mark.parametrize("deed", ["add", "change", "delete"])
def test_calls_are_never_written_from_the_admin(deed, log_in):
    row = McpToolInvocationFactory()
    address = reverse(f"admin:invocations_mcptoolinvocation_{deed}", args=[] if deed == "add" else [row.pk])
    assert log_in("superuser").post(address, {"post": "yes", "tool_name": "x"}).status_code == 403


def test_page_links_the_version_that_ran(log_in, echo):
    version = echo.versions.first()
    row = McpToolInvocationFactory(tool_name="echo", tool_version=version.version, tool_digest=version.digest)
    page = log_in("Viewer").get(page_of(row)).content.decode()
    assert reverse("admin:tool_version", args=[echo.pk, version.version]) in page
