"""Counts and durations of the calls that a filter finds, computed by the database in one pass over them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db import connection, connections
from django.db.models import QuerySet
from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter
from rest_framework import serializers
from rest_framework.exceptions import ValidationError

from invocations.lists import filters
from invocations.models import McpToolInvocation
from invocations.rest.filters import CallFilters
from sessions_app.kit.lists.walking import bounds
from sessions_app.kit.rest.errors import Conflict
from sessions_app.protocol.json import Json

FACETS = {name: each.of for name, each in filters.FACETS.items()}
"""Facet, named as the filter that takes its values -> column."""
GROUPS: dict[str, str | int] = {
    "tool": "tool_name",
    "client": "client_name",
    "principal": "principal",
    "hour": 13,
    "day": 10,
}
"""Grouping of statistics -> column, or length of the start's ISO form."""
DEFAULT_TIME = timedelta(days=1)
MOST_ROWS = 2_000_000
"""Of all calls in the time range, matching or not: the bound on reads of one request."""
_FIRST = datetime.min.replace(tzinfo=UTC)
DEFAULT_LIMIT, HIGHEST_LIMIT = 20, 1000

LIMIT = OpenApiParameter(
    "limit",
    {"type": "integer", "minimum": 1, "maximum": HIGHEST_LIMIT, "default": DEFAULT_LIMIT},
    description="Values of each facet, or groups, at most.",
)
BY = OpenApiParameter("by", str, enum=list(GROUPS), default="tool", description="What a group has in common; UTC.")


class FigureFilters(CallFilters):
    """The filters of the list, over a bounded time: the last day where none is given."""

    after: datetime
    before: datetime

    def filter_queryset(self, queryset: QuerySet[McpToolInvocation]) -> QuerySet[McpToolInvocation]:
        given = self.form.cleaned_data
        self.before = given["started_before"] or timezone.now()
        self.after = given["started_after"] or max(self.before, _FIRST + DEFAULT_TIME) - DEFAULT_TIME
        given["started_after"], given["started_before"] = self.after, self.before
        rows = super().filter_queryset(queryset)
        least, most = bounds(rows)
        if most - least >= MOST_ROWS:
            sentence = f"More than {MOST_ROWS} calls were recorded in this time. Choose a shorter one."
            raise Conflict(sentence)
        return rows


def facets(rows: QuerySet[McpToolInvocation], limit: int) -> dict[str, Json]:
    """Return `rows`, how many there are, and `facets`: facet -> its `values`, the most frequent first, and `more`."""
    parts = [
        f"SELECT * FROM (SELECT '{name}' AS facet, {column} AS value, count(*) AS found FROM called "  # noqa: S608
        f"WHERE {column} <> '' GROUP BY {column} ORDER BY 3 DESC, 2 LIMIT {limit + 1}) AS of_{name}"
        for name, column in FACETS.items()
    ]
    counted = _over(rows, list(FACETS.values()), " UNION ALL ".join(["SELECT '', '', count(*) FROM called", *parts]))
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in FACETS}
    total = 0
    for facet, value, count in counted:
        if facet:
            found[facet].append({"value": value, "count": count})
        else:
            total = count
    return {
        "rows": total,
        "facets": {name: {"values": values[:limit], "more": len(values) > limit} for name, values in found.items()},
    }


def statistics(rows: QuerySet[McpToolInvocation], by: str, limit: int) -> dict[str, Json]:
    """Return `groups` with calls, errors and durations: times in their order, others by calls; and `more`.

    Percentiles are by nearest rank: the shortest duration that so many of a hundred rows do not exceed.
    """
    kept = GROUPS[by]
    column, group = (kept, kept) if isinstance(kept, str) else ("started_at", _begin(kept))
    ranks = ", ".join(f"min(CASE WHEN place * 100 >= size * {part} THEN duration_ms END)" for part in (50, 95, 99))
    # Few calls are alike in group and duration, yet many enough: what is ranked is a fraction of them.
    ranked = _over(
        rows,
        [column, "duration_ms", "occurrences", "status"],
        "SELECT grouped, cast(sum(calls) AS bigint), cast(sum(errors) AS bigint), "  # noqa: S608 - our own names
        f"{ranks}, max(duration_ms) FROM (SELECT grouped, duration_ms, calls, errors, "
        "sum(found) OVER (PARTITION BY grouped ORDER BY duration_ms) AS place, "
        "sum(found) OVER (PARTITION BY grouped) AS size FROM "
        f"(SELECT {group} AS grouped, duration_ms, count(*) AS found, sum(occurrences) AS calls, "
        "sum(CASE WHEN status = 'error' THEN occurrences ELSE 0 END) AS errors FROM called GROUP BY 1, 2) AS alike"
        f") AS ranked GROUP BY grouped ORDER BY {'2 DESC, 1' if isinstance(kept, str) else '1'} LIMIT {limit + 1}",
    )
    groups = [
        {
            "group": f"{name[:10]}T{name[11:]}:00:00Z" if by == "hour" else name,
            "calls": calls,
            "errors": errors,
            "error_rate": round(errors / calls, 6),
            "p50_ms": p50,
            "p95_ms": p95,
            "p99_ms": p99,
            "longest_ms": longest,
        }
        for name, calls, errors, p50, p95, p99, longest in ranked
    ]
    return {"by": by, "groups": groups[:limit], "more": len(groups) > limit}


def _begin(characters: int) -> str:
    if connection.vendor == "postgresql":
        return f"left(to_char(started_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24'), {characters})"
    return f"substr(started_at, 1, {characters})"


def _over(rows: QuerySet[McpToolInvocation], columns: list[str], question: str) -> list[tuple[Any, ...]]:
    """Ask `question` of the columns of the rows, as the table `called`: made once where it is named often."""
    try:
        found, parameters = rows.order_by().values_list(*columns).query.get_compiler(rows.db).as_sql()
    except EmptyResultSet:
        return []
    with connections[rows.db].cursor() as cursor:
        cursor.execute(f"WITH called({', '.join(columns)}) AS ({found}) {question}", parameters)
        return list(cursor.fetchall())


class _TimeSerializer(serializers.Serializer[Any]):
    started_after = serializers.DateTimeField(help_text="Calls that started from here,")
    started_before = serializers.DateTimeField(help_text="and before this moment.")


class ValueSerializer(serializers.Serializer[Any]):
    """A value, as its filter takes it."""

    value = serializers.CharField()
    count = serializers.IntegerField(help_text="Rows.")


class FacetSerializer(serializers.Serializer[Any]):
    """The values of one facet, the most frequent first. Rows without a value are not among them."""

    values = ValueSerializer(many=True)
    more = serializers.BooleanField(help_text="Whether there are values beyond `limit`.")


class FacetsByNameSerializer(serializers.Serializer[Any]):
    """Facets, named as the filters."""

    def get_fields(self) -> dict[str, Any]:
        return {name: FacetSerializer() for name in FACETS}


class FacetsSerializer(_TimeSerializer):
    """Which values occur among the rows that the filters find."""

    rows = serializers.IntegerField(help_text="Rows that the filters find.")
    facets = FacetsByNameSerializer()


class GroupSerializer(serializers.Serializer[Any]):
    """The calls of one group."""

    group = serializers.CharField(help_text="Tool, client or principal; or the begin of the hour, or the day, in UTC.")
    calls = serializers.IntegerField(help_text="Refusals of a flood, counted in one row, each count.")
    errors = serializers.IntegerField()  # type: ignore[assignment]  # a declared field is no attribute of the class
    error_rate = serializers.FloatField(min_value=0, max_value=1)
    p50_ms = serializers.IntegerField(help_text="The median; percentiles are by nearest rank.")
    p95_ms = serializers.IntegerField()
    p99_ms = serializers.IntegerField()
    longest_ms = serializers.IntegerField()


class StatisticsSerializer(_TimeSerializer):
    """How often, how well and how fast, by group."""

    by = serializers.ChoiceField(choices=[(name, name) for name in GROUPS])
    groups = GroupSerializer(many=True)
    more = serializers.BooleanField(help_text="Whether there are groups beyond `limit`.")


def group_of(word: str | None) -> str:
    """Return the grouping, or raise ValidationError."""
    by = "tool" if word is None else word
    if by not in GROUPS:
        raise ValidationError({"by": [f"Choose one of {', '.join(GROUPS)}."]})
    return by
