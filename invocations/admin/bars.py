"""A histogram as a chart of the console: bars that lead to their time, and the same figures as a table."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.http import HttpRequest
from django.utils import timezone
from django.utils.translation import gettext as _t

from invocations.lists.histogram import Histogram
from sessions_app.kit import charts
from sessions_app.kit.admin.search_line import replaced
from sessions_app.kit.lists.filters import ListFilter

if TYPE_CHECKING:
    from sessions_app.kit.admin.base import HubAdmin


def drawn(
    page: HubAdmin, request: HttpRequest, of: ListFilter, found: Histogram, *, has_status: bool
) -> dict[str, object]:
    """Return the context of `admin/hub/histogram.html`; `of` is the time filter."""
    labels, links, rows = [], [], []
    for bar in found.bars:
        label, total = _label(bar.begin, found.step), bar.good + bar.bad
        link = replaced(page, request, of, f"{of.search_key}:{_span(bar.begin, found.step)}") if total else ""
        labels.append(label)
        links.append(link)
        if total:
            rows.append({"label": label, "link": link, "good": bar.good, "bad": bar.bad, "total": total})
    good, bad = [bar.good for bar in found.bars], [bar.bad for bar in found.bars]
    series = [charts.Series("good", good, _t("OK")), charts.Series("bad", bad, _t("Error"))]
    if not has_status:
        series = [charts.Series("good", [sum(both) for both in zip(good, bad, strict=True)])]
    begin, end = timezone.localtime(found.bars[0].begin), timezone.localtime(found.bars[-1].begin + found.step)
    told = _t("%(begin)s to %(end)s, one column per %(span)s.") % {
        "begin": begin.strftime("%Y-%m-%d %H:%M"),
        "end": end.strftime("%Y-%m-%d %H:%M"),
        "span": _words(found.step),
    }
    if found.counted_from is not None:
        moment = timezone.localtime(found.counted_from)
        told += " " + _t("Times are relative to %(time)s.") % {"time": moment.strftime("%Y-%m-%d %H:%M:%S")}
    return {
        "drawing": charts.columns(labels, series, links),
        "rows": rows,
        "told": told,
        "has_status": has_status,
        "id": "over-time",
    }


def _label(begin: datetime, step: timedelta) -> str:
    local = timezone.localtime(begin)
    if step >= timedelta(days=1):
        return f"{local:%m-%d}"
    if local.date() != timezone.localdate():
        return f"{local:%m-%d %H:%M}"
    return f"{local:%H:%M}" if step >= timedelta(minutes=1) else f"{local:%H:%M:%S}"


def _span(begin: datetime, step: timedelta) -> str:
    first, last = timezone.localtime(begin), timezone.localtime(begin + step)
    return f"{first:%Y-%m-%dT%H:%M:%S}..{last:%Y-%m-%dT%H:%M:%S}"


def _words(step: timedelta) -> str:
    seconds = int(step.total_seconds())
    if seconds < 60:
        return _t("%(count)d s") % {"count": seconds}
    if seconds < 3600:
        return _t("%(count)d min") % {"count": seconds // 60}
    if seconds < 86_400:
        return _t("%(count)d h") % {"count": seconds // 3600}
    return _t("%(count)d d") % {"count": seconds // 86_400}
