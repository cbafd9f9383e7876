"""Values that the search of calls offers: names from the catalogue, and from the counts that are kept of calls."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from invocations.figures.tallies import CLIENT, DAY
from invocations.models import CallTally
from invocations.parts import KnownValues
from sessions_app.kit.features import declared, loaded
from tools_catalog.models import McpConnection, McpToolDefinition

MOST = 10
_CLIENTS_OF = timedelta(days=30)


def tools(begun: str) -> list[tuple[str, str]]:
    """Return tools whose names begin with the text, then those that contain it."""
    rows = McpToolDefinition.objects.order_by("name")
    first = list(rows.filter(name__startswith=begun).values_list("name", "title")[:MOST])
    names = [name for name, _title in first]
    more = rows.filter(name__icontains=begun).exclude(name__in=names) if begun else rows.none()
    return [*first, *more.values_list("name", "title")[: MOST - len(first)]]


def connections(begun: str) -> list[tuple[str, str]]:
    rows = McpConnection.objects.filter(slug__icontains=begun).order_by("slug")
    return list(rows.values_list("slug", "title")[:MOST])


def rules(begun: str) -> list[tuple[str, str]]:
    parts = (part for part in declared(KnownValues) if part.column == "policy_rule")
    return [value for part in parts for value in loaded(part.function)(begun)[:MOST]]


def clients(begun: str) -> list[tuple[str, str]]:
    """Return clients that called in the last days, as far as their calls are sealed."""
    since = datetime.now(UTC) - _CLIENTS_OF
    rows = CallTally.objects.filter(subject=CLIENT, span=DAY, slot__gte=since, name__icontains=begun)
    return [(name, "") for name in rows.order_by("name").values_list("name", flat=True).distinct()[:MOST]]
