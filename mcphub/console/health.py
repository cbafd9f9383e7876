"""The health verdict at the top of the overview: each finding with the page to act on it."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from invocations.admin.links import listed
from invocations.figures.overview import Overview
from invocations.figures.tallies import Tally
from sessions_app.kit.shown import clipped, duration, percent, rounded
from tools_catalog.models import McpConnection

_FEWEST_CALLS = 20
"""With fewer calls a share means nothing."""
_WORSE_BY = 2
"""Factor of the previous value that is worth a mention."""
_MOST_NAMES = 3
_SHARE_OF_NOTE = 0.02
"""Errors below it appear on their tile only."""


@dataclass(frozen=True)
class HealthFinding:
    """Something that is not as it should be. `kind` is that of a mark: bad or warn."""

    kind: str
    words: str
    link: str


def of_calls(found: Overview) -> list[HealthFinding]:
    """Compare the calls of a time with those of the same time before it."""
    now, before = found.total, found.previous
    findings = []
    if now.calls >= _FEWEST_CALLS:
        share, earlier = now.errors / now.calls, _share(before)
        if share >= _SHARE_OF_NOTE and (earlier is None or share >= _WORSE_BY * earlier):
            was = "–" if earlier is None else percent(earlier, 1)
            words = _("%(share)s of calls failed, compared with %(was)s in the previous period.") % {
                "share": percent(share, 1),
                "was": was,
            }
            findings.append(HealthFinding("bad", words, listed(found.after, found.before, status__exact="error")))
        p95, was_p95 = now.percentile(95), before.percentile(95) if before else None
        if before and before.calls >= _FEWEST_CALLS and p95 and was_p95 and p95 >= _WORSE_BY * was_p95 and p95 >= 100:
            words = _("Calls are slow: p95 is %(now)s, compared with %(was)s in the previous period.") % {
                "now": duration(p95),
                "was": duration(was_p95),
            }
            findings.append(HealthFinding("warn", words, listed(found.after, found.before)))
    return findings


def of_connections(connections: list[McpConnection]) -> list[HealthFinding]:
    down = [row.slug for row in connections if row.status == McpConnection.Status.ERROR]
    if not down:
        return []
    names = ", ".join(clipped(name, 40) for name in down[:_MOST_NAMES]) + (" …" if len(down) > _MOST_NAMES else "")
    words = ngettext(
        "%(count)d connection has an error: %(names)s.", "%(count)d connections have an error: %(names)s.", len(down)
    ) % {"count": len(down), "names": names}
    query = f"?state={McpConnection.Status.ERROR.value}&enabled__exact=1"
    return [HealthFinding("bad", words, reverse("admin:tools_catalog_mcpconnection_changelist") + query)]


def _share(tally: Tally | None) -> float | None:
    return tally.errors / tally.calls if tally is not None and tally.calls >= _FEWEST_CALLS else None


def change(now: float | None, before: float | None) -> str:
    """Return in few words how a figure changed from the previous period; empty without a comparison."""
    if now is None or not before:
        return ""
    moved = 100 * (now - before) / before
    if abs(moved) < 1:
        return _("unchanged")
    sign = "+" if moved > 0 else "−"
    return f"{sign}{rounded(abs(moved), 0)}\N{NO-BREAK SPACE}%"
