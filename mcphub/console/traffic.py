"""The map of the overview: callers, the hub, and its backends, each with traffic and state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.urls import reverse
from django.utils.formats import number_format
from django.utils.translation import gettext as _

from invocations.admin.links import listed
from invocations.figures.overview import Overview
from invocations.figures.tallies import CALLER, TOOL, Tally
from sessions_app.keys.naming import names_of
from sessions_app.kit.admin.base import mark
from sessions_app.kit.shown import breakable, clipped, percent
from tools_catalog.admin.connections import STATUS_MARKS
from tools_catalog.models import McpConnection, McpUpstreamTool

if TYPE_CHECKING:
    from django.utils.safestring import SafeString

MOST_CALLERS, MOST_NAMED, MOST_UPSTREAMS = 6, 8, 8
_MOST_TOOLS = 400
"""Called tools with a looked-up connection: those with the most calls."""


@dataclass(frozen=True, kw_only=True)
class TrafficEnd:
    """A caller or an upstream on the map. `link` is empty where the person may not see its page."""

    name: SafeString
    calls: str
    errors: str
    share: int
    """Of the calls at the busiest end, in percent."""
    link: str
    state: SafeString | str = ""
    is_bad: bool = False


@dataclass(frozen=True, kw_only=True)
class TrafficMap:
    callers: list[TrafficEnd]
    more_callers: int
    upstreams: list[TrafficEnd]
    more_upstreams: int
    """Connections that are not shown: those with errors and those with traffic are shown first."""
    own: TrafficEnd | None
    """The hub's own backends: Python functions and HTTP."""


def drawn(
    request: HttpRequest, found: Overview, connections: list[McpConnection], names: Mapping[str, str]
) -> TrafficMap:
    """Return the map of a time; `connections` are the enabled ones, with their status; `names` those of callers."""
    callers = sorted(found.counts(CALLER).items(), key=lambda each: (-each[1].calls, each[0]))
    by_upstream, own = _by_upstream(found)
    ranked = sorted(connections, key=lambda row: (row.status != McpConnection.Status.ERROR, -_calls(by_upstream, row)))
    most = max([tally.calls for _name, tally in callers[:1]] + [own.calls, *(t.calls for t in by_upstream.values()), 1])
    may_see = request.user.has_perm("tools_catalog.view_mcpconnection")
    return TrafficMap(
        callers=[
            _end(names.get(name, name), tally, most, listed(found.after, found.before, principal=name))
            for name, tally in callers[:MOST_CALLERS]
        ],
        more_callers=max(0, len(callers) - MOST_CALLERS),
        upstreams=[_upstream(row, by_upstream, most) for row in ranked[:MOST_UPSTREAMS]] if may_see else [],
        more_upstreams=max(0, len(ranked) - MOST_UPSTREAMS) if may_see else 0,
        own=_end(_("Tools of the hub itself"), own, most, reverse("admin:tools_catalog_mcptooldefinition_changelist"))
        if own.calls or not connections
        else None,
    )


def names_of_callers(found: Overview, others: Sequence[str]) -> Mapping[str, str]:
    """Return the names of the busiest callers, as many as map and table show, and of the others.

    One statement. Deleted ones have no name.
    """
    callers = sorted(found.counts(CALLER).items(), key=lambda each: (-each[1].calls, each[0]))
    return names_of([*(name for name, _tally in callers[:MOST_NAMED]), *others])


def _by_upstream(found: Overview) -> tuple[dict[int, Tally], Tally]:
    """Return the calls of each connection by its key, and those of tools that belong to none."""
    tools = sorted(found.counts(TOOL).items(), key=lambda each: -each[1].calls)[:_MOST_TOOLS]
    rows = McpUpstreamTool.objects.filter(tool__name__in=[name for name, _tally in tools])
    connection_of = dict(rows.values_list("tool__name", "connection_id"))
    sums: dict[int, Tally] = {}
    own = Tally()
    for name, tally in tools:
        key = connection_of.get(name)
        (own if key is None else sums.setdefault(key, Tally())).add(Tally(tally.calls, tally.errors))
    return sums, own


def _calls(sums: dict[int, Tally], row: McpConnection) -> int:
    return sums[row.pk].calls if row.pk in sums else 0


def _upstream(row: McpConnection, sums: dict[int, Tally], most: int) -> TrafficEnd:
    link = reverse("admin:tools_catalog_mcpconnection_change", args=[row.pk])
    status = McpConnection.Status(row.status)
    state = mark(STATUS_MARKS[row.status], status.label)
    return _end(row.slug, sums.get(row.pk, Tally()), most, link, state, is_bad=status == McpConnection.Status.ERROR)


def _end(
    name: str, tally: Tally, most: int, link: str, state: SafeString | str = "", *, is_bad: bool = False
) -> TrafficEnd:
    return TrafficEnd(
        name=breakable(clipped(name, 48)),
        calls=number_format(tally.calls, force_grouping=True),
        errors=percent(tally.errors, tally.calls) if tally.errors else "",
        share=round(100 * tally.calls / most),
        link=link,
        state=state,
        is_bad=is_bad,
    )
