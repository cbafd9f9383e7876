"""Each index of the audit answers the query that it is paid for, on both databases."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from urllib.parse import parse_qsl, urlsplit

import pytest
from django.db import connection
from django.db.models import IntegerField
from django.db.models.expressions import RawSQL
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIRequestFactory

from invocations.chain import marks, service
from invocations.lists.spans import TimeSpan, span
from invocations.models import McpToolInvocation
from invocations.rest.calls import InvocationViewSet
from invocations.rest.filters import CallFilters
from sessions_app.kit.lists.walking import WalkedKeyset, bounds, walk
from sessions_app.kit.rest.lists import KeysetPagination
from tests.factories import McpSessionFactory, McpToolInvocationFactory, ServerProcessFactory

pytestmark = pytest.mark.django_db

LINKS = ("next", "previous")
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
    """A table this small is read whole. What an autovacuum noted of it, perhaps when it was empty, is forgotten."""
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            ours = "SELECT oid FROM pg_class WHERE relname LIKE 'invocation%'"
            cursor.execute(f"DELETE FROM pg_statistic WHERE starelid IN ({ours})")
            cursor.execute(f"UPDATE pg_class SET reltuples = -1, relpages = 0 WHERE oid IN ({ours})")
            for way in ("seqscan", "bitmapscan", "sort"):
                cursor.execute(f"SET LOCAL enable_{way} = off")


@pytest.mark.parametrize("name", FILTERS)
def test_filter_of_the_list_is_answered_by_its_index_newest_first(name):
    value, index = FILTERS[name]
    if name == "error_code":  # in an empty table the index of all errors is as good
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX invocation_errors")
    rows = CallFilters({name: value}, queryset=McpToolInvocation.objects.order_by("-id")).qs[:51]
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
    "turn": ("turn", "invocation_by_turn"),
    "trace_id": ("7", "invocation_by_trace"),
    "duplicate_of": ("first", "invocation_repeats"),
}


@pytest.mark.parametrize("name", sorted(set(CallFilters.base_filters) - set(SECOND_DAY)))
def test_a_filter_beside_a_time_reads_no_calls_of_other_times(days, name):
    example = {
        "status": "ok",
        "transport": "sse",
        "error_code": "timeout",
        "arguments": "$.text=1",
        "result": "$.a=1",
        **dict.fromkeys(("retryable", "duplicate", "interrupted"), "true"),
    }
    value, index = BESIDE_A_TIME.get(name, (example.get(name, "7"), "mcptoolinvocation"))
    if index == "invocation_by_code":
        with connection.cursor() as cursor:
            cursor.execute("DROP INDEX invocation_errors")
    if connection.vendor == "postgresql" and name in BESIDE_A_TIME:  # on a table this small the key costs as little
        with connection.cursor() as cursor:
            key = "indexrelid = 'invocations_mcptoolinvocation_pkey'::regclass"
            cursor.execute(f"UPDATE pg_index SET indisvalid = false WHERE {key}")
    filterset = CallFilters({name: value, **SECOND_DAY}, queryset=McpToolInvocation.objects.order_by("-id"))
    filterset.request = ASKED_BY_AN_AUDITOR
    rows = filterset.qs
    told = plan(rows[:51])
    assert index in told
    assert "TEMP B-TREE" not in told
    assert "Sort" not in told
    if connection.vendor == "postgresql":
        assert re.search(r"Index Cond: .*\bid >= \d+.*\bid <= \d+", told)
    else:
        assert re.search(r"SEARCH .*\b(rowid|id)>\? AND (rowid|id)<\?", told)


def test_without_marks_the_ends_of_a_time_are_read_from_its_index_alone():
    with CaptureQueriesContext(connection) as queries:
        span(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
    told = explained(queries.captured_queries[-1]["sql"])
    assert "invocation_by_time" in told
    assert "COVERING" in told or "Index Only Scan" in told


def test_a_time_bounds_the_sequence_to_its_calls(days):
    after, before = START + timedelta(days=1), START + timedelta(days=2)
    every = list(McpToolInvocation.objects.order_by("id").values_list("id", flat=True))
    assert span(after, before) == TimeSpan(every[24], every[47])
    assert span(after, None) == TimeSpan(every[24], None)
    assert span(None, before) == TimeSpan(None, every[47])
    assert span(before + timedelta(days=9), None) is None


def test_a_long_call_that_is_written_late_is_found_by_its_start(days):
    late = McpToolInvocationFactory(received_at=START + timedelta(hours=30))
    filterset = CallFilters(SECOND_DAY, queryset=McpToolInvocation.objects.order_by("-id"))
    found = filterset.qs
    assert len(found) == 25
    assert found[0].pk == late.pk == bounds(found)[1]


def test_successes_are_in_no_index_of_errors():
    rows = CallFilters({"status": "ok"}, queryset=McpToolInvocation.objects.order_by("-id")).qs[:51]
    assert "invocation_errors" not in plan(rows)


@pytest.mark.parametrize(
    ("name", "value", "index"),
    [
        ("trace_id", "7", "invocation_by_trace"),
        ("duplicate_of", "7", "invocation_repeats"),
        ("method", "prompts/get", "invocation_by_method"),
        ("target", "7", "invocation_by_target"),
        ("asked_by", "7", "invocation_questions"),
    ],
)
def test_what_few_calls_have_is_found_by_an_index_of_them_alone(name, value, index):
    assert index in plan(CallFilters({name: value}, queryset=McpToolInvocation.objects.order_by("-id")).qs[:51])


class TestWalking:
    """Reading the sequence stretch by stretch."""

    @pytest.fixture
    def calls(self, days):
        return list(McpToolInvocation.objects.order_by("-id"))

    @pytest.mark.parametrize("stretch", [1, 5, 1000])
    @pytest.mark.parametrize("wanted", [1, 7, 100])
    def test_a_walk_finds_what_the_query_finds(self, calls, stretch, wanted):
        downwards = McpToolInvocation.objects.order_by("-id").filter(started_at__lt=START + timedelta(hours=60))
        found, reached = walk(downwards, calls[0].pk, calls[-1].pk, wanted, stretch=stretch, seconds=60)
        assert ([row.pk for row in found], reached) == ([row.pk for row in downwards[:wanted]], None)
        upwards = downwards.order_by("id")
        found, reached = walk(upwards, calls[-1].pk, calls[0].pk, wanted, upwards=True, stretch=stretch, seconds=60)
        assert ([row.pk for row in found], reached) == ([row.pk for row in upwards[:wanted]], None)

    def test_a_walk_whose_time_is_over_says_where_it_stopped(self, calls):
        rows = McpToolInvocation.objects.order_by("-id").filter(started_at__lt=START + timedelta(hours=10))
        begin, found, walks = calls[0].pk, [], 0
        while begin is not None:
            part, begin = walk(rows, begin, calls[-1].pk, 100, stretch=8, seconds=0)
            found += part
            walks += 1
        assert (found, walks) == (list(rows), 9)

    def test_a_walk_gives_up_a_stretch_that_would_take_too_long_and_says_where_it_begins(self, calls):
        """Rows that are not in memory take long; here the ninth and all after it take for ever."""
        endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT 1 FROM n) SELECT i FROM n"
        slow = f"CASE WHEN id > %s THEN 1 ELSE (SELECT max(i) FROM ({endless}) AS m) END"
        fast = RawSQL(slow, [calls[8].pk], IntegerField())
        rows = McpToolInvocation.objects.order_by("-id").annotate(fast=fast).filter(fast=1)
        found, reached = walk(rows, calls[0].pk, calls[-1].pk, 100, stretch=8, seconds=0.2)
        assert ([row.pk for row in found], reached) == ([row.pk for row in calls[:8]], calls[8].pk)

    @pytest.mark.parametrize(
        ("query", "found", "pages"),
        [({"started_before": (START + timedelta(hours=10)).isoformat()}, 10, 4), ({"client": "nobody"}, 0, 9)],
    )
    def test_a_page_that_ends_early_leads_on_and_back(self, calls, query, found, pages):
        """As a client does who follows `next`, then `previous`, through pages that may be empty."""
        from tests.rest import by_key

        class Hurried(WalkedKeyset):
            stretch, seconds = 8, 0.0

        paged = type("Pages", (KeysetPagination,), {"keyset": Hurried})
        view = type("View", (InvocationViewSet,), {"pagination_class": paged}).as_view({"get": "list"})
        auditor = by_key("audit:read")

        def page(query):
            request = APIRequestFactory().get("/api/invocations/", query)
            request.META |= auditor.defaults
            answer = view(request)
            assert answer.status_code == 200, answer.data
            told = {name: answer.data[name] and dict(parse_qsl(urlsplit(answer.data[name]).query)) for name in LINKS}
            return [row["sequence"] for row in answer.data["results"]], told

        # From the first of these on: below lie the numbers that other tests used up.
        forwards, links = page({**query, "started_after": START.isoformat(), "limit": "3"})
        count = 1
        while links["next"]:
            last = links["next"]
            rows, links = page(last)
            forwards += rows
            count += 1
        assert forwards == [row.pk for row in calls[len(calls) - found :]]
        assert count >= pages
        backwards = []
        while links["previous"]:
            rows, links = page(links["previous"])
            backwards = rows + backwards
        rows, _ = page(last)
        assert backwards + rows == forwards


class TestMarks:
    """The sealing process tells between which moments the calls of a stretch started."""

    @pytest.fixture
    def log(self):
        connection.ensure_connection()
        return service.Log(lambda: connection.connection, connection.vendor == "sqlite")

    def test_marks_bound_a_time_and_what_is_not_marked_yet_is_found(self, days, log):
        every = list(McpToolInvocation.objects.order_by("id").values_list("id", flat=True))
        marks.follow(log, every[40])
        assert marks.marked(log) == every[40]
        marks.follow(log, every[40])
        marks.follow(log, every[60])
        assert marks.marked(log) == every[60]
        assert span(START + timedelta(hours=71), None) == TimeSpan(every[71], None)
        assert span(START + timedelta(hours=61), START + timedelta(hours=63)) == TimeSpan(every[61], every[62])
        bounds = span(START, START + timedelta(hours=70))
        assert bounds.least <= every[0]
        assert bounds.most == every[69]
        assert span(START + timedelta(days=9), None) is None
        late = McpToolInvocationFactory(received_at=START + timedelta(hours=1))
        assert span(None, START + timedelta(hours=2)).most == late.pk
        marks.follow(log, late.pk)
        assert span(None, START + timedelta(hours=2)).most == late.pk

    def test_where_sealing_is_far_behind_no_list_reads_all_that_is_not_marked(self, days, log):
        every = list(McpToolInvocation.objects.order_by("id").values_list("id", flat=True))
        after, before, most = START + timedelta(hours=20), START + timedelta(hours=50), every[-1] - every[40] - 1
        assert span(after, before, most_unmarked=most) == TimeSpan(every[0], every[-1])
        marks.follow(log, every[40])
        assert span(after, before, most_unmarked=most).most == every[-1]
        assert span(after, before, most_unmarked=most + 1).most == every[49]

    def test_ids_below_the_oldest_call_are_not_taken_for_unmarked_calls(self):
        common, first = {"process": ServerProcessFactory(), "session": McpSessionFactory()}, 10**6
        for hour in range(10):
            McpToolInvocationFactory(**common, id=first + hour, received_at=START + timedelta(hours=hour))
        after, before = START + timedelta(hours=3), START + timedelta(hours=6)
        assert span(after, before, most_unmarked=10) == TimeSpan(first + 3, first + 5)

    def test_marks_are_asked_instead_of_the_index(self, days, log):
        marks.follow(log, McpToolInvocation.objects.latest("id").pk)
        with CaptureQueriesContext(connection) as queries:
            span(datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC))
        told = explained(queries.captured_queries[-1]["sql"])
        assert "rowid>?" in told or "id > " in told
        assert "invocation_by_time" not in told
