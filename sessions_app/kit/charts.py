"""Charts of the console, as `mcphub/charts.js` draws them by Chart.js. Each has a table with the same figures."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Series:
    """Values over the labels of a chart. `kind` is a colour of the console: good, bad, wait, warn, off."""

    kind: str
    values: Sequence[float | None]
    """None leaves a gap."""
    title: str = ""
    links: Sequence[str] = ()
    """Where each value leads; empty: to where its column does."""


def columns(labels: Sequence[str], series: Sequence[Series], links: Sequence[str] = ()) -> str:
    """Describe stacked columns for the template `admin/hub/chart.html`; `links` are those of whole columns."""
    return _described("bar", labels, series, links)


def lines(labels: Sequence[str], series: Sequence[Series]) -> str:
    """Describe lines for the same template."""
    return _described("line", labels, series, ())


def _described(shape: str, labels: Sequence[str], series: Sequence[Series], links: Sequence[str]) -> str:
    told = [
        {"kind": each.kind, "title": str(each.title), "values": list(each.values), "links": list(each.links)}
        for each in series
    ]
    return json.dumps({"shape": shape, "labels": list(labels), "links": list(links), "series": told})
