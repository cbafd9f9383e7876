"""Counts of what an alert watches: calls by the tallies of the audit, silence by the newest call, money as recorded."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from invocations.figures.tallies import ALL, HOUR, MINUTE, TOOL, slot_of
from invocations.models import CallTally, McpToolInvocation
from mcphub.features.alerts.judging import QUIET, SLOW, SPEND, AlertCount, AlertHistory, tried
from mcphub.features.alerts.models import Alert
from mcphub.parts import RecordedSpend, SpendQuery
from sessions_app.kit.database import at_most
from sessions_app.kit.features import declared, loaded
from tools_catalog.models import McpToolDefinition

WEEK = timedelta(days=7)
BY_MINUTES = timedelta(hours=47)
"""So far back there are counts by the minute; before, by the hour."""
_SECONDS = 3.0


def counted_now(alert: Alert, now: datetime) -> AlertCount:
    """Return the count of the alert's window. Raises `TookTooLong`."""
    span = _span_of(alert)
    begins = now - timedelta(minutes=alert.window_minutes)
    whole = AlertCount()
    with at_most(_SECONDS):
        if alert.measure == SPEND:
            whole.spent = sum(spent for _moment, spent in _spent(alert, begins, now))
            return whole
        for tally in _by_slot(alert, span, slot_of(begins, span), now).values():
            whole.add(tally)
        if alert.measure == QUIET and whole.calls == 0 and (newest := _newest_call(alert)) and newest >= begins:
            whole.calls += 1  # recorded, and counted in a moment
    return whole


def last_week(alert: Alert, now: datetime) -> AlertHistory:
    """Return how often an alert, saved or not, would have fired in the last week. Raises `TookTooLong`.

    The last two days are judged by the minute; before, and for windows of six hours and more, by the hour.
    """
    minutes = int(alert.window_minutes)
    by_minutes = now - BY_MINUTES if _span_of(alert) == MINUTE else now
    hours = max(1, minutes // 60)
    found = _tried(alert, HOUR, now - WEEK - timedelta(hours=hours), by_minutes, hours)
    if by_minutes != now:
        found.add(_tried(alert, MINUTE, by_minutes - timedelta(minutes=minutes), now, minutes, found.holds))
    return found


def _tried(alert: Alert, span: int, after: datetime, before: datetime, window: int, held: bool = False) -> AlertHistory:
    begin, end = slot_of(after, span), slot_of(before, span)
    with at_most(_SECONDS):
        found = _by_slot(alert, span, begin, end)
    settle = -(-settings.MCPHUB_NOTICE_SETTLE_SECONDS // span)
    return tried(alert.threshold, _filled(found, begin, end, span), window, int(settle), held)


def _filled(found: dict[datetime, AlertCount], begin: datetime, end: datetime, span: int) -> Iterator[AlertCount]:
    moment, step = begin, timedelta(seconds=span)
    while moment < end:
        yield found.get(moment) or AlertCount()
        moment += step


def _by_slot(alert: Alert, span: int, after: datetime, before: datetime) -> dict[datetime, AlertCount]:
    found: dict[datetime, AlertCount] = {}
    if alert.measure == SPEND:
        for moment, spent in _spent(alert, after, before):
            found.setdefault(slot_of(moment, span), AlertCount()).spent += spent
        return found
    rows = _tallies(alert).filter(span=span, slot__gte=after, slot__lt=before)
    for slot, calls, errors, durations in rows.values_list("slot", "calls", "errors", "durations").iterator():
        tally = found.setdefault(slot.astimezone(UTC), AlertCount())
        tally.calls += calls
        tally.errors += errors
        if alert.measure == SLOW:
            tally.see(durations)
    return found


def _spent(alert: Alert, after: datetime, before: datetime) -> Iterator[tuple[datetime, int]]:
    query = SpendQuery(after, before, alert.principals, alert.provider)
    for part in declared(RecordedSpend):
        yield from loaded(part.spent)(query)


def _tallies(alert: Alert) -> QuerySet[CallTally]:
    if not alert.scope:
        return CallTally.objects.filter(subject=ALL, name="")
    return CallTally.objects.filter(subject=TOOL, name__in=_names(alert))


def _names(alert: Alert) -> Any:
    if alert.tool is not None:
        return [alert.tool.name]
    tools = McpToolDefinition.objects.order_by().values("name")
    if alert.connection_id is not None:
        return tools.filter(upstream_tool__connection=alert.connection_id)
    return tools.filter(workspace=alert.workspace_id)


def _newest_call(alert: Alert) -> datetime | None:
    rows = McpToolInvocation.objects.order_by("-id")
    if alert.tool is not None:
        rows = rows.filter(tool_name=alert.tool.name)
    elif alert.connection is not None:
        rows = rows.filter(connection=alert.connection.slug)
    elif alert.workspace is not None:
        rows = rows.filter(workspace=alert.workspace.slug)
    return rows.values_list("started_at", flat=True).first()


def _span_of(alert: Alert) -> int:
    return MINUTE if alert.window_minutes <= Alert.Window.HOUR else HOUR
