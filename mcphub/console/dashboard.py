"""The first page of the admin: activity in a time range, pending decisions, next steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from invocations.admin.links import listed
from invocations.chain.models import AuditBlock
from invocations.figures import overview
from invocations.figures.overview import Overview
from invocations.figures.tallies import CALLER, CLIENT, CODE, TOOL, Tally
from invocations.models import McpToolInvocation
from mcphub.console import health, traffic
from mcphub.parts import OverviewCard, OverviewPanel, PanelRows, PendingRows
from sessions_app.history import deciding, guarding
from sessions_app.keys.naming import names_of
from sessions_app.kit import charts
from sessions_app.kit.admin.base import mark
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.shown import breakable, clipped, duration, percent, rounded, span
from sessions_app.models import McpSession
from tools_catalog.models import McpConnection, McpToolDefinition, McpUpstreamTool

_MOST_COUNTED = 10_000
"""Beyond this a tile shows `10,000+`, so that the page costs the same on a busy hub."""
_LAST_CALLS = 10
_SHOWN, _MOST_RANKED = 8, 50
"""Rows of a table; busy tools among which the slowest are looked for."""
_FEWEST = 5
"""Calls of a tool before it is called slow."""
_RANGES = {"15m": timedelta(minutes=15), "1h": timedelta(hours=1), "24h": timedelta(days=1), "7d": timedelta(days=7)}
_ACTIVE_FOR = timedelta(hours=1)
_USUAL_RANGE = "24h"
_WAITING = "?state=waiting"


def show(request: HttpRequest, context: dict[str, object]) -> dict[str, object]:
    """Add the parts that the person may see: verdict, figures, the map, charts, pending decisions, next steps."""
    may = request.user.has_perm
    tiles: list[dict[str, Any]] = []
    findings: list[health.HealthFinding] = []
    steps = _steps(request)
    connections = _enabled_connections() if may("tools_catalog.view_mcpconnection") else []
    findings += health.of_connections(connections)
    panels = {} if steps else _panels(request)
    subjects = [subject for rows in panels.values() for subject in rows.subjects]
    names: Mapping[str, str] = {}
    if may("invocations.view_mcptoolinvocation") and not steps:
        span = chosen(request)
        found = overview.between(span.after, span.before, is_compared=True)
        names = traffic.names_of_callers(found, subjects)
        findings += health.of_calls(found)
        tiles += _call_tiles(found)
        context |= {"range": span, "ranges": range_links(span.name), "charts": charts_of(found), "window": found}
        context |= {"tables": _tables(found, names), "is_whole": found.is_whole, "last_calls": _last_calls()}
        context |= {
            "traffic": traffic.drawn(request, found, connections, names),
            "until": min(found.before, timezone.now()),
        }
    elif subjects:
        names = names_of(subjects)
    if may("sessions_app.view_mcpsession") and not steps:
        tiles.append(_active_sessions())
    if may("tools_catalog.view_mcptooldefinition"):
        enabled = McpToolDefinition.objects.filter(enabled=True).order_by()
        tiles.append(_counted(_("Enabled tools"), enabled, "tools_catalog_mcptooldefinition", "?enabled__exact=1"))
    if may("tools_catalog.view_mcpconnection"):
        tiles.append(_connections_down(connections))
    tiles += _waiting(request)
    if may("invocations.view_auditblock"):
        tiles.append(_sealed())
    context["panels"] = [{"template": template, **rows.shown(names)} for template, rows in panels.items()]
    context["cards"] = [card for part in declared(OverviewCard) if (card := loaded(part.card)(request))]
    context |= {"tiles": tiles, "steps": steps, "findings": findings, "now": timezone.now()}
    return context


def _panels(request: HttpRequest) -> dict[str, PanelRows]:
    """Return what features show, by their templates."""
    found = ((part.template, loaded(part.rows)(request)) for part in declared(OverviewPanel))
    return {template: rows for template, rows in found if rows is not None}


def _enabled_connections() -> list[McpConnection]:
    return list(McpConnection.objects.with_status().filter(enabled=True).order_by("slug")[:_MOST_COUNTED])


def _waiting(request: HttpRequest) -> list[dict[str, object]]:
    """Return the tiles of pending decisions."""
    may, tiles = request.user.has_perm, []
    if may("tools_catalog.view_mcpupstreamtool"):
        offers = McpUpstreamTool.objects.filter(state__in=["new", "changed"]).order_by()
        query = "?state__in=new,changed"
        tiles.append(_counted(_("Offers waiting for approval"), offers, "tools_catalog_mcpupstreamtool", query))
    for part in declared(PendingRows):
        app, model = part.page.rsplit("_", 1)
        if may(f"{app}.view_{model}"):
            tiles.append(_counted(str(part.title), loaded(part.rows)(), part.page, part.query))
    if may(deciding.PERMISSION):
        open_ = guarding.seen_by(request.user).filter(state="waiting", expires_at__gt=timezone.now()).order_by()
        tiles.append(_counted(_("Changes waiting for a second person"), open_, "sessions_app_waitingchange", _WAITING))
    return [tile | {"waits": tile["words"] != "0"} for tile in tiles]


@dataclass(frozen=True)
class _Range:
    name: str
    after: datetime
    before: datetime
    error: str = ""


def chosen(request: HttpRequest) -> _Range:
    """Read the range from the address; an unreadable one is reported, and the default shown."""
    now = timezone.now()
    name = request.GET.get("range", _USUAL_RANGE)
    if name in _RANGES:
        return _Range(name, now - _RANGES[name], now)
    error = _("Choose a range, or enter both times.")
    after, before = (_moment(request.GET.get(side, "")) for side in ("from", "to"))
    if name == "custom" and after is not None and before is not None:
        if after >= before:
            error = _("The start must be before the end.")
        elif before - after > overview.LONGEST:
            error = _("Choose at most a year.")
        else:
            return _Range(name, after, before)
    return _Range(_USUAL_RANGE, now - _RANGES[_USUAL_RANGE], now, error)


def _moment(written: str) -> datetime | None:
    try:
        moment = parse_datetime(written)
        return None if moment is None else (timezone.make_aware(moment) if timezone.is_naive(moment) else moment)
    except (ValueError, OverflowError):
        return None


def range_links(name: str) -> list[dict[str, object]]:
    words = {"15m": _("15 minutes"), "1h": _("1 hour"), "24h": _("24 hours"), "7d": _("7 days")}
    return [{"words": words[each], "link": f"?range={each}", "is_chosen": each == name} for each in _RANGES]


# Tiles -------------------------------------------------------------------------------------------------


def _call_tiles(found: Overview) -> list[dict[str, object]]:
    """Return the figures of the time, each with how it moved against the time before."""
    now, before = found.total, found.previous
    everything = listed(found.after, found.before)
    failed = listed(found.after, found.before, status__exact="error")
    minutes = (min(found.before, timezone.now()) - found.after) / timedelta(minutes=1)
    rate = now.calls / minutes
    said = _("%(rate)s a minute") % {"rate": rounded(rate, 1 if rate < 10 else 0)}
    # The last slot is not over, so rates are compared and not counts.
    moved = health.change(
        rate, before.calls / ((found.before - found.after) / timedelta(minutes=1)) if before else None
    )
    errors = number_format(now.errors, force_grouping=True) if now.errors else ""
    was = failing(before) if before and before.calls else ""
    tiles = [
        _tile(
            _("Calls"),
            number_format(now.calls, force_grouping=True),
            everything,
            " · ".join(filter(None, [said, moved])),
        ),
        _tile(
            _("Errors"),
            failing(now),
            failed,
            " · ".join(filter(None, [errors, _("before: %(was)s") % {"was": was} if was else ""])),
        ),
    ]
    for part in (50, 95, 99):
        value = now.percentile(part)
        moved = health.change(value, before.percentile(part) if before else None)
        words = "–" if value is None else duration(value)
        tiles.append(_tile(_("Duration, p%(part)s") % {"part": part}, words, everything, moved))
    return tiles


def _connections_down(connections: list[McpConnection]) -> dict[str, object]:
    broken = sum(connection.status == McpConnection.Status.ERROR for connection in connections)
    query = f"?state={McpConnection.Status.ERROR.value}&enabled__exact=1"
    link = reverse("admin:tools_catalog_mcpconnection_changelist") + query
    return _tile(_("Connections with an error"), str(broken), link)


def _sealed() -> dict[str, object]:
    last = AuditBlock.objects.order_by("-number").values("invocations_through", "sealed_at").first()
    link = reverse("admin:invocations_auditblock_changelist")
    if last is None:
        return _tile(_("Audit log sealed through"), "–", link, _("nothing sealed yet"))
    words = _("%(time)s ago") % {"time": span((timezone.now() - last["sealed_at"]).total_seconds())}
    return _tile(_("Audit log sealed through"), f"#{last['invocations_through']}", link, words)


def _active_sessions() -> dict[str, object]:
    """Count sessions that a client used lately; those that stand for stateless clients stay open for weeks."""
    since = timezone.now() - _ACTIVE_FOR
    live = (McpSession.State.CREATED.value, McpSession.State.INITIALIZED.value)
    used = McpSession.objects.filter(state__in=live, last_activity_at__gte=since).order_by()
    query = {"state__in": ",".join(live), **_from("last_activity_at", since)}
    tile = _counted(_("Active sessions"), used, "sessions_app_mcpsession", f"?{urlencode(query)}")
    return tile | {"beside": _("in the last hour")}


def _from(field: str, moment: datetime) -> dict[str, str]:
    """Return the query of a list that begins at a moment (see MomentsControl)."""
    here = timezone.localtime(moment)
    return {f"{field}_from_0": f"{here:%Y-%m-%d}", f"{field}_from_1": f"{here:%H:%M:%S.%f}"}


def _counted(title: str, rows: QuerySet[Model], page: str, query: str) -> dict[str, object]:
    count = rows.values("pk")[: _MOST_COUNTED + 1].count()
    words = number_format(min(count, _MOST_COUNTED), force_grouping=True) + ("+" if count > _MOST_COUNTED else "")
    return _tile(title, words, reverse(f"admin:{page}_changelist") + query)


def _tile(title: str, words: str, link: str, beside: str = "") -> dict[str, object]:
    return {"title": title, "words": words, "link": link, "beside": beside}


def failing(tally: Tally) -> str:
    return percent(tally.errors, tally.calls) if tally.calls else "–"


# Charts and tables -------------------------------------------------------------------------------------


def charts_of(found: Overview, **of: str) -> list[dict[str, object]]:
    """Return the charts with the figures of their tables; `of` narrows the lists that they lead to."""
    labels = [_label(step.begin, found) for step in found.steps]
    links: dict[str, list[str]] = {"all": [], "ok": [], "error": []}
    counted, durations = [], []
    for step, label in zip(found.steps, labels, strict=True):
        tally, end = step.tally, step.begin + found.step
        link = listed(step.begin, end, **of) if tally.calls else ""
        good, bad = (listed(step.begin, end, **of, status__exact=status) for status in ("ok", "error"))
        for name, address in (("all", link), ("ok", good), ("error", bad)):
            links[name].append(address)
        if tally.calls:
            p50, p95 = tally.percentile(50) or 0, tally.percentile(95) or 0
            counted.append(_row([label, tally.calls, tally.calls - tally.errors, tally.errors], [link, "", good, bad]))
            durations.append(_row([label, duration(p50), duration(p95)], [link, "", ""]))
    tallies = [step.tally for step in found.steps]
    outcomes = [
        charts.Series("good", [tally.calls - tally.errors for tally in tallies], _("OK"), links["ok"]),
        charts.Series("bad", [tally.errors for tally in tallies], _("Error"), links["error"]),
    ]
    waits = [
        charts.Series(kind, [tally.percentile(part) for tally in tallies], f"p{part}")
        for kind, part in (("wait", 50), ("warn", 95))
    ]
    return [
        {
            "id": "calls",
            "title": _("Calls by outcome"),
            "drawing": charts.columns(labels, outcomes, links["all"]),
            "legend": [(each.kind, each.title) for each in outcomes],
            "head": [_("From"), _("Calls"), _("OK"), _("Error")],
            "rows": counted,
        },
        {
            "id": "durations",
            "title": _("Durations, ms"),
            "drawing": charts.lines(labels, waits),
            "legend": [(each.kind, each.title) for each in waits],
            "head": [_("From"), "p50", "p95"],
            "rows": durations,
        },
    ]


def _row(cells: list[object], links: list[str]) -> dict[str, object]:
    """Return a row of a chart's table; each cell may lead to the calls that it counts, the first leads to all."""
    return {"link": links[0], "cells": cells, "linked": list(zip(cells, links, strict=True))}


def _label(moment: datetime, found: Overview) -> str:
    local = timezone.localtime(moment)
    if found.before - found.after <= timedelta(days=1, hours=1):
        return f"{local:%H:%M}"
    return f"{local:%m-%d %H:%M}" if found.step < timedelta(days=1) else f"{local:%m-%d %Y}"


def _tables(found: Overview, names: Mapping[str, str]) -> list[dict[str, object]]:
    """Return the tables of names; the slowest tools are those with many calls and the highest p95."""
    busiest = found.top(TOOL, _MOST_RANKED)
    slowest = sorted(
        (each for each in busiest if each[1].calls >= _FEWEST), key=lambda each: -(each[1].percentile(95) or 0)
    )
    wanted: list[tuple[str, list[tuple[str, Tally]], str, str, bool]] = [
        (TOOL, busiest[:_SHOWN], _("Tools with the most calls"), "tool_name", True),
        ("slowest", slowest[:_SHOWN], _("Slowest tools"), "tool_name", True),
        (CODE, found.top(CODE), _("Most frequent errors"), "code", False),
        (CLIENT, found.top(CLIENT), _("Clients with the most calls"), "client", True),
        (CALLER, found.top(CALLER), _("Callers with the most calls"), "principal", True),
    ]
    tables = []
    for subject, rows, title, parameter, has_errors in wanted:
        most = max((tally.calls for _name, tally in rows), default=1)
        tables.append(
            {
                "id": subject,
                "title": title,
                "has_errors": has_errors,
                "rows": [
                    {
                        "name": breakable(clipped(names.get(name, name) if subject == CALLER else name, 64)),
                        "calls": number_format(tally.calls, force_grouping=True),
                        "errors": failing(tally),
                        "p95": duration(tally.percentile(95) or 0),
                        "share": max(1, round(100 * tally.calls / most)),
                        "link": listed(found.after, found.before, **{parameter: name}),
                    }
                    for name, tally in rows
                ],
            }
        )
    return tables


def _last_calls() -> list[dict[str, object]]:
    rows = McpToolInvocation.objects.defer("arguments", "result", "error").order_by("-id")[:_LAST_CALLS]
    return [
        {
            "row": row,
            "tool": breakable(clipped(row.what, 64)),
            "caller": breakable(clipped(row.caller_label or row.principal, 32)),
            "client": breakable(clipped(row.client_name, 32)) or "-",
            "code": breakable(row.error_code or "–"),
            "took": duration(row.duration_ms),
            "status": mark("good" if row.status == "ok" else "bad", row.get_status_display()),
            "link": reverse("admin:invocations_mcptoolinvocation_change", args=[row.pk]),
        }
        for row in rows
    ]


def _way_to_connect() -> str:
    """Return the page that reads a client's configuration, or the form of a connection without it."""
    try:
        return reverse("admin:connection_import")
    except NoReverseMatch:
        return reverse("admin:tools_catalog_mcpconnection_add")


def _steps(request: HttpRequest) -> list[tuple[str, str, str]]:
    """Return what is still to be done before the first call: words, what it is for, and the page where it is done."""
    may = request.user.has_perm
    if not may("invocations.view_mcptoolinvocation") or McpToolInvocation.objects.exists():
        return []
    steps, has_tools = [], McpToolDefinition.objects.exists()
    if may("tools_catalog.add_mcpconnection") and may("tools_catalog.change_mcpconnection"):
        words = _("Paste a URL, a command or a client's configuration: its tools become tools of the hub.")
        steps.append((_("Add a connection to an MCP server"), words, _way_to_connect()))
    if may("tools_catalog.add_mcptooldefinition") and not has_tools:
        words = _("A Python function or an HTTP request; clients see it as soon as it is saved.")
        steps.append((_("Add your first tool"), words, reverse("admin:tools_catalog_mcptooldefinition_add")))
    words = _("Copy the client's configuration, and watch its first call arrive.")
    steps.append((_("Connect a client"), words, reverse("connect")))
    if may("tools_catalog.try_mcptooldefinition") and has_tools:
        words = _("A form generated from its schema; the call is recorded like any other.")
        link = reverse("admin:tools_catalog_mcptooldefinition_changelist")
        steps.append((_("Try a tool from its page"), words, link))
    return steps
