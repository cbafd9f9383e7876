"""A connection tried out by the person who set it up, with what it offers put before them at once.

A worker that serves would list the same a little later; who sets up five connections wants to see them now.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from asgiref.sync import async_to_sync
from django.conf import settings

from tools_catalog.accounts.resolving import Accounts
from tools_catalog.discovery import reconcile as discovery
from tools_catalog.models import McpConnection, McpUpstreamTool
from tools_catalog.upstream import listing, probe
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.vault import read_secrets, secret_for

MOST_AT_ONCE: Final = 10
"""Connections that one request tries: each may start a program."""
_WAITING: Final = (McpUpstreamTool.State.NEW.value, McpUpstreamTool.State.CHANGED.value)


@dataclass(frozen=True, slots=True)
class TriedConnection:
    """What came out: the steps up to the first that failed."""

    connection: McpConnection
    steps: tuple[probe.Step, ...]

    @property
    def is_good(self) -> bool:
        return bool(self.steps) and all(step.is_good for step in self.steps)


def try_out(rows: Sequence[McpConnection]) -> list[TriedConnection]:
    """Connect to each, list what it offers, disconnect; what was listed waits for approval, or passes by the policy."""
    rows = rows[:MOST_AT_ONCE]
    read_secrets()  # one that was saved a moment ago may not have come by the change bus yet
    found = async_to_sync(_look)([row.spec() for row in rows])
    tried = []
    for row, (steps, offers) in zip(rows, found, strict=True):
        if offers:
            discovery.reconcile(row.pk, offers)
        tried.append(TriedConnection(row, tuple(steps)))
    return tried


def waiting(rows: Sequence[McpConnection]) -> list[McpUpstreamTool]:
    """Give what these connections offer and nobody decided about."""
    offers = McpUpstreamTool.objects.filter(connection__in=rows, is_gone=False).select_related("connection")
    return list(offers.filter(state__in=_WAITING).order_by("connection__slug", "kind", "upstream_name"))


async def _look(specs: list[ConnectionSpec]) -> list[tuple[list[probe.Step], listing.Offers]]:
    accounts = Accounts()
    tries = [
        probe.look(spec, secret_for, settings.MCPHUB_VERSION, kinds=listing.KINDS, account=accounts) for spec in specs
    ]
    return list(await asyncio.gather(*tries))
