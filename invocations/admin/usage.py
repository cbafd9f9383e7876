"""Provides call figures to the catalogue's pages."""

from __future__ import annotations

from invocations.figures import usage as calls
from tools_catalog import usage

usage.recent = calls.recent
usage.callers = calls.callers
usage.totals = calls.totals
usage.grouped = calls.grouped
usage.ranking = calls.ranking
