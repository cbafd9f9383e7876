"""The stops in force, as each process holds them in memory, and as notices and `mcphub doctor` tell of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from mcphub.features.writes.rules import SUBJECT
from sessions_app.protocol.errors import WritesStopped
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from invocations.configuration import Configuration
    from mcphub.process.doctor import Finding
    from sessions_app.caller import Caller
    from tools_catalog.catalog.snapshot import Tool


@dataclass(frozen=True, slots=True)
class StopInForce:
    """One stop in force."""

    reason: str
    since: datetime
    workspace: str = ""
    """Its name; empty: everybody."""

    def error(self) -> WritesStopped:
        """Return the error of a refused call."""
        where = f"in the workspace {self.workspace}" if self.workspace else "for everybody"
        since = self.since.astimezone(UTC)
        reason = self.reason if self.reason.endswith((".", "!", "?")) else f"{self.reason}."
        return WritesStopped(
            f"Operators stopped all writes {where}, since {since:%Y-%m-%d %H:%M} UTC: {reason} The tool was not "
            "called. Read-only tools still work. Do not retry until an operator allows writes again.",
            since=since.isoformat(timespec="seconds"),
            workspace=self.workspace or None,
        )


Stops = Mapping[int | None, StopInForce]
"""By workspace; None: for everybody."""


def read() -> dict[int | None, StopInForce]:
    from mcphub.features.writes.models import WriteStop

    return {
        row.workspace_id: StopInForce(
            row.reason, row.stopped_at, row.workspace.slug if row.workspace is not None else ""
        )
        for row in WriteStop.objects.in_force()
    }


def of(configuration: Configuration) -> Stops:
    stops: Stops = configuration.additions.get(SUBJECT, {})
    return stops


def that_stops(tool: Tool, caller: Caller, configuration: Configuration) -> StopInForce | None:
    """Return the stop that concerns a call: everybody's, that of its caller's workspace, or that of its tool's."""
    stops, came_by, owner = of(configuration), caller.workspace, tool.workspace
    found = stops.get(None)
    if found is None and came_by is not None:
        found = stops.get(came_by)
    if found is None and owner is not None:
        found = stops.get(owner.key)
    return found


def states() -> dict[str, dict[str, Json]]:
    """Return the facts of a notice for each stop in force, by its number."""
    from mcphub.features.writes.models import WriteStop

    return {
        str(row.pk): {"where": row.where, "who": row.stopped_by, "reason": row.reason}
        for row in WriteStop.objects.in_force()
    }


def check() -> Iterator[Finding]:
    """Tell `mcphub doctor` of writes that are stopped."""
    from django.utils.translation import gettext as _

    from mcphub.features.writes.models import WriteStop
    from mcphub.process.doctor import Finding

    for row in WriteStop.objects.in_force():
        yield Finding(
            "hint",
            _("%(where)s Since %(stopped_at)s UTC, by %(stopped_by)s: %(reason)s")
            % {
                "where": row.where,
                "stopped_at": f"{row.stopped_at:%Y-%m-%d %H:%M}",
                "stopped_by": row.stopped_by,
                "reason": row.reason,
            },
            _("`mcphub writes allow` ends it."),
        )
