"""GET /api/invocations/facets/ and /statistics/: counts and durations, by the database, within bounds."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from invocations.models import McpToolInvocation
from invocations.rest.figures import MOST_ROWS, statistics
from sessions_app.history.models import AuditEvent
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory
from tests.rest import by_key, by_person, error_of

pytestmark = pytest.mark.django_db

FACETS = "/api/invocations/facets/"
STATISTICS = "/api/invocations/statistics/"
VIEW = "invocations.view_mcptoolinvocation"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
THEN = {"started_after": "2026-03-01", "started_before": "2026-03-03"}


@pytest.fixture
def auditor():
    return by_key("audit:read")


@pytest.fixture
def calls():
    """Four of echo, one of them failed; one flood of add; one of another time."""
    common = {"process": ServerProcessFactory(), "session": McpSessionFactory()}
    for at, duration in enumerate((10, 20, 400)):
        McpToolInvocationFactory(**common, received_at=NOON + timedelta(minutes=at), duration_ms=duration)
    McpToolInvocationFactory(
        **common, received_at=NOON + timedelta(hours=1), duration_ms=30, failed=True, tool_version="2"
    )
    McpToolInvocationFactory(
        **common,
        received_at=NOON + timedelta(days=1),
        duration_ms=0,
        failed=True,
        error_code="rate_limited",
        tool_name="add",
        client_name="",
        occurrences=9,
        principal="anonymous",
        transport="sse",
    )
    McpToolInvocationFactory(**common, received_at=NOON - timedelta(days=9), tool_name="old")


def facet(body, name):
    return [(each["value"], each["count"]) for each in body["facets"][name]["values"]]


def test_facets_count_the_rows_that_the_list_would_show(auditor, calls):
    body = auditor.get(FACETS, THEN).json()
    assert body["rows"] == 5
    assert facet(body, "status") == [("ok", 3), ("error", 2)]
    assert facet(body, "tool") == [("echo", 4), ("add", 1)]
    assert facet(body, "version") == [("1", 4), ("2", 1)]
    assert facet(body, "error_code") == [("execution_error", 1), ("rate_limited", 1)]
    assert facet(body, "client") == [("client", 4)]
    assert facet(body, "principal") == [("key:1", 4), ("anonymous", 1)]
    assert facet(body, "transport") == [("streamable-http", 4), ("sse", 1)]
    assert (body["started_after"], body["started_before"]) == ("2026-03-01T00:00:00Z", "2026-03-03T00:00:00Z")


def test_facets_keep_to_the_filters_and_to_a_limit(auditor, calls):
    body = auditor.get(FACETS, {**THEN, "tool": "echo", "limit": "1", "arguments": '$.text="hello"'}).json()
    assert body["rows"] == 4
    assert facet(body, "status") == [("ok", 3)]
    assert body["facets"]["status"]["more"] is True
    assert body["facets"]["tool"]["more"] is False


def test_each_value_of_a_facet_is_one_that_its_filter_takes(auditor, calls):
    for name, found in auditor.get(FACETS, THEN).json()["facets"].items():
        for value in found["values"]:
            assert auditor.get(FACETS, {**THEN, name: value["value"]}).json()["rows"] == value["count"]


def test_statistics_by_tool_count_calls_errors_and_durations(auditor, calls):
    body = auditor.get(STATISTICS, THEN).json()
    assert body["by"] == "tool"
    assert body["groups"] == [
        {
            "group": "add",
            "calls": 9,
            "errors": 9,
            "error_rate": 1.0,
            "p50_ms": 0,
            "p95_ms": 0,
            "p99_ms": 0,
            "longest_ms": 0,
        },
        {
            "group": "echo",
            "calls": 4,
            "errors": 1,
            "error_rate": 0.25,
            "p50_ms": 20,
            "p95_ms": 400,
            "p99_ms": 400,
            "longest_ms": 400,
        },
    ]
    assert body["more"] is False


@pytest.mark.parametrize(
    ("by", "groups"),
    [
        ("hour", [("2026-03-01T12:00:00Z", 3), ("2026-03-01T13:00:00Z", 1), ("2026-03-02T12:00:00Z", 9)]),
        ("day", [("2026-03-01", 4), ("2026-03-02", 9)]),
        ("client", [("", 9), ("client", 4)]),
        ("principal", [("anonymous", 9), ("key:1", 4)]),
    ],
)
def test_statistics_by_time_run_forward_and_others_by_calls(auditor, calls, by, groups):
    body = auditor.get(STATISTICS, {**THEN, "by": by}).json()
    assert [(each["group"], each["calls"]) for each in body["groups"]] == groups
    cut = auditor.get(STATISTICS, {**THEN, "by": by, "limit": "1"}).json()
    assert (len(cut["groups"]), cut["more"]) == (1, True)


class Percentiles(TestCase):
    @given(st.lists(st.integers(0, 50), min_size=1, max_size=120))
    @settings(max_examples=15, deadline=None)
    def test_percentiles_are_by_nearest_rank(self, durations):
        rows = McpToolInvocation.objects.bulk_create(
            McpToolInvocationFactory.build(
                session_id="s", session=None, process=None, process_id="p", received_at=NOON, duration_ms=duration
            )
            for duration in durations
        )
        assert len(rows) == len(durations)
        (group,) = statistics(McpToolInvocation.objects.all(), "tool", 10)["groups"]
        ordered = sorted(durations)
        for part in (50, 95, 99):
            assert group[f"p{part}_ms"] == ordered[math.ceil(part * len(ordered) / 100) - 1]


@pytest.mark.parametrize("path", [FACETS, STATISTICS])
def test_without_a_time_it_is_the_last_day_and_the_answer_says_so(auditor, calls, path):
    McpToolInvocationFactory(tool_name="now")
    body = auditor.get(path).json()
    after, before = (datetime.fromisoformat(body[name]) for name in ("started_after", "started_before"))
    assert before - after == timedelta(days=1)
    names = [each[0] for each in facet(body, "tool")] if path == FACETS else [g["group"] for g in body["groups"]]
    assert names == ["now"]


@pytest.mark.parametrize("path", [FACETS, STATISTICS])
def test_where_nothing_is_found_figures_are_empty(auditor, path):
    McpToolInvocationFactory()
    for query in (THEN, {"tool": "nothing"}):
        body = auditor.get(path, query).json()
        found = [each["values"] for each in body["facets"].values()] if path == FACETS else [body["groups"]]
        assert not any(found)
        assert body.get("rows", 0) == 0


@pytest.mark.parametrize("path", [FACETS, STATISTICS])
@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"started_before": "soon"}, "started_before"),
        ({"limit": "1001"}, "limit"),
        ({"limit": "0"}, "limit"),
        ({"status": "fine"}, "status"),
        ({"arguments": "nonsense"}, "arguments"),
    ],
)
def test_a_bad_question_is_refused_by_its_field(auditor, path, query, field):
    error = error_of(auditor.get(path, query), 400, "invalid_params")
    assert list(error["details"]["fields"]) == [field]


def test_what_to_group_by_is_a_closed_list(auditor):
    error = error_of(auditor.get(STATISTICS, {"by": "colour"}), 400, "invalid_params")
    assert "tool, client, principal, hour, day" in error["details"]["fields"]["by"][0]
    known = error_of(auditor.get(FACETS, {"cursor": "x"}), 400, "invalid_params")["details"]["known"]
    assert "limit" in known
    assert not {"cursor", "fields", "by"} & set(known)


@pytest.mark.parametrize("path", [FACETS, STATISTICS])
def test_a_time_with_too_many_calls_is_refused(auditor, calls, path):
    last = McpToolInvocation.objects.order_by("-id")[0]
    McpToolInvocationFactory(id=last.pk + MOST_ROWS, received_at=NOON + timedelta(hours=2))
    assert "shorter" in error_of(auditor.get(path, THEN), 409, "conflict")["message"]


@pytest.mark.parametrize("path", [FACETS, STATISTICS])
def test_a_time_may_be_long_and_lie_at_the_begin_of_all_time(auditor, calls, path):
    told = auditor.get(path, {"started_after": "2020-01-01", "started_before": "2030-01-01"}).json()
    assert told["started_after"] == "2020-01-01T00:00:00Z"
    assert (told["rows"] if path == FACETS else len(told["groups"])) > 0
    first = auditor.get(path, {"started_before": "0001-01-01"}).json()
    assert first["started_after"] == first["started_before"] == "0001-01-01T00:00:00Z"


@pytest.mark.parametrize("path", [FACETS, STATISTICS])
def test_who_reads_figures(calls, path):
    error_of(by_key("tools:list").get(path), 403, "forbidden")
    error_of(by_person().get(path), 403, "forbidden")
    viewer = by_person(VIEW)
    assert viewer.get(path, THEN).status_code == 200
    error_of(viewer.get(path, {**THEN, "result": "$.a=1"}), 403, "forbidden")


@pytest.mark.parametrize("path", [FACETS, STATISTICS])
def test_figures_of_searched_bodies_are_on_record_and_others_not(auditor, calls, path):
    events = AuditEvent.objects.filter(kind="bodies.read")
    auditor.get(path, THEN)
    assert not events.exists()
    auditor.get(path, {**THEN, "arguments": '$.text="hello"'})
    event = events.get()
    assert event.subject_label == path
    assert event.after["searched"] == ["arguments"]
    assert event.after["query"]["arguments"].startswith("$.text=redacted:")
