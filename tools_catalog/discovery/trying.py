"""A test of connections by their operator, with an immediate view of their offers.

A serving worker would list the same a little later; an operator who sets up five connections wants to see them now.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from asgiref.sync import async_to_sync

from tools_catalog.discovery import reconcile as discovery
from tools_catalog.discovery import watching
from tools_catalog.discovery.watching import TrialState
from tools_catalog.models import McpConnection, McpUpstreamTool
from tools_catalog.upstream import listing, probe
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.vault import read_secrets

Tell = Callable[[str, TrialState], None]
MOST_AT_ONCE: Final = 10
"""Connections that one request tries: each may start a program."""
_WAITING: Final = (McpUpstreamTool.State.NEW.value, McpUpstreamTool.State.CHANGED.value)


@dataclass(frozen=True, slots=True)
class TriedConnection:
    """The result: the steps up to the first failure."""

    connection: McpConnection
    steps: tuple[probe.Step, ...]

    @property
    def is_good(self) -> bool:
        return bool(self.steps) and all(step.is_good for step in self.steps)


def try_out(rows: Sequence[McpConnection], *, tell: Tell | None = None) -> list[TriedConnection]:
    """Connect to each, list its offers, disconnect; the offers wait for approval, or pass by the policy.

    `tell` is called every second with a connection's name and the state of its test.
    """
    rows = rows[:MOST_AT_ONCE]
    read_secrets()  # one that was saved a moment ago may not have come by the change bus yet
    found = async_to_sync(_look)([row.spec() for row in rows], tell)
    tried = []
    for row, sight in zip(rows, found, strict=True):
        keep(row, sight)
        tried.append(TriedConnection(row, sight.steps))
    return tried


def keep(row: McpConnection, sight: TrialState) -> None:
    """Keep the offers that a test listed."""
    if sight.offers:
        discovery.reconcile(row.pk, sight.offers)


def waiting(rows: Sequence[McpConnection]) -> list[McpUpstreamTool]:
    """Return the undecided offers of these connections."""
    offers = McpUpstreamTool.objects.filter(connection__in=rows, is_gone=False).select_related("connection")
    return list(offers.filter(state__in=_WAITING).order_by("connection__slug", "kind", "upstream_name"))


def refused(rows: Sequence[McpConnection]) -> list[McpUpstreamTool]:
    """Return what these connections offer and the hub cannot serve."""
    offers = McpUpstreamTool.objects.filter(connection__in=rows, is_gone=False).select_related("connection")
    return list(offers.filter(state="refused").order_by("connection__slug", "kind", "upstream_name"))


async def _look(specs: list[ConnectionSpec], tell: Tell | None) -> list[TrialState]:
    return list(await asyncio.gather(*(_last(spec, tell) for spec in specs)))


async def _last(spec: ConnectionSpec, tell: Tell | None) -> TrialState:
    sight = TrialState()
    async with contextlib.aclosing(watching.watch(spec, kinds=listing.KINDS)) as sights:
        async for sight in sights:
            if tell is not None:
                tell(spec.slug, sight)
    return sight
