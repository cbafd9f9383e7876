"""Each index of the audit answers the query that it is paid for, on both databases."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from invocations.models import McpRequestEnvelope, McpToolInvocation
from invocations.rest.filters import InvocationFilter, during, span
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory

pytestmark = pytest.mark.django_db

START = datetime(2026, 3, 1, tzinfo=UTC)
ASKED_BY_AN_AUDITOR = SimpleNamespace(auth=None, user=SimpleNamespace(has_perm=lambda permission: True))
FILTERS = {
    "tool": ("add", "invocation_by_tool"),
    "session": ("s", "invocation_by_session"),
    "principal": ("key:1", "invocation_by_principal"),
    "status": ("error", "invocation_errors"),
    "error_code": ("timeout", "invocation_by_code"),
}


def plan(rows):
    _keep_to_indexes()
    return rows.explain()


def explained(sql):
    _keep_to_indexes()
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {'' if connection.vendor == 'postgresql' else 'QUERY PLAN'} {sql}")
        return "\n".join(str(row) for row in cursor.fetchall())


def _keep_to_indexes():
    """A table this small is read whole."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            for way in ("seqscan", "bitmapscan", "sort"):
                cursor.execute(f"SET LOCAL enable_{way} = off")


@pytest.mark.parametrize("name", FILTERS)
def test_filter_of_the_list_is_answered_by_its_index_newest_first(name):
    value, index = FILTERS[name]
    if name == "error_code":  # in an empty table the index of all errors is as good
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX invocation_errors")
    rows = InvocationFilter({name: value}, queryset=McpToolInvocation.objects.order_by("-id")).qs[:51]
    told = plan(rows)
    assert index in told
    assert "TEMP B-TREE" not in told
    assert "Sort" not in told


def test_first_call_since_a_moment_is_found_by_its_index():
    since = datetime(2026, 1, 1, tzinfo=UTC)
    rows = McpToolInvocation.objects.filter(started_at__gte=since).order_by("started_at")[:1]
    assert "invocation_by_time" in plan(rows)


@pytest.fixture
def days():
    """Calls of three days, one an hour, on an index that tells what it holds."""
    common = {"process": ServerProcessFactory(), "session": McpSessionFactory(session_id="s")}
    for hour in range(72):
        McpToolInvocationFactory(**common, received_at=START + timedelta(hours=hour))


SECOND_DAY = {"started_after": "2026-03-02T00:00:00Z", "started_before": "2026-03-03T00:00:00Z"}
BESIDE_A_TIME = {
    "tool": ("echo", "invocation_by_tool"),
    "session": ("s", "invocation_by_session"),
    "principal": ("key:1", "invocation_by_principal"),
    "status": ("error", "invocation_errors"),
    "error_code": ("timeout", "invocation_by_code"),
    "interrupted": ("true", "invocation_by_code"),
    "continues": ("first", "invocation_rounds"),
}


@pytest.mark.parametrize("name", sorted(set(InvocationFilter.base_filters) - set(SECOND_DAY)))
def test_a_filter_beside_a_time_reads_no_calls_of_other_times(days, name):
    example = {
        "status": "ok", "transport": "sse", "error_code": "timeout", "arguments": "$.text=1", "result": "$.a=1",
        **dict.fromkeys(("retryable", "duplicate", "interrupted"), "true"),
    }  # fmt: skip
    value, index = BESIDE_A_TIME.get(name, (example.get(name, "7"), "mcptoolinvocation"))
    if index == "invocation_by_code":
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX invocation_errors")
    filterset = InvocationFilter({name: value, **SECOND_DAY}, queryset=McpToolInvocation.objects.order_by("-id"))
    filterset.request = ASKED_BY_AN_AUDITOR
    told = plan(filterset.qs[:51])
    assert index in told
    assert "TEMP B-TREE" not in told
    assert "Sort" not in told
    if connection.vendor == "postgresql":
        assert re.search(r"Index Cond: .*\bid >= \d+.*\bid <= \d+", told)
    else:
        assert re.search(r"SEARCH .*\b(rowid|id)>\? AND (rowid|id)<\?", told)


def test_the_ends_of_a_time_are_read_from_its_index_alone():
    with CaptureQueriesContext(connection) as queries:
        span(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    told = explained(queries.captured_queries[-1]["sql"])
    assert "invocation_by_time" in told
    assert "COVERING" in told or "Index Only Scan" in told


def test_a_time_bounds_the_sequence_to_its_calls(days):
    after, before = START + timedelta(days=1), START + timedelta(days=2)
    every = list(McpToolInvocation.objects.order_by("id").values_list("id", flat=True))
    ends = span(after, before)
    assert (ends["least"], ends["most"]) == (every[24], every[47])
    assert during(McpToolInvocation.objects.all(), after, before).count() == 24


def test_a_long_call_that_is_written_late_is_found_by_its_start(days):
    late = McpToolInvocationFactory(received_at=START + timedelta(hours=30))
    found = InvocationFilter(SECOND_DAY, queryset=McpToolInvocation.objects.order_by("-id")).qs
    assert len(found) == 25
    assert found[0].pk == late.pk


def test_open_calls_of_a_process_are_found_by_their_index():
    assert "envelope_by_process" in plan(McpRequestEnvelope.objects.filter(process="p").order_by())


def test_successes_are_in_no_index_of_errors():
    rows = InvocationFilter({"status": "ok"}, queryset=McpToolInvocation.objects.order_by("-id")).qs[:51]
    assert "invocation_errors" not in plan(rows)
