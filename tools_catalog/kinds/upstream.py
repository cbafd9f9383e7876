"""Tools of other MCP servers. Their rows are written by the approval of what a connection offers."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import cast

from django.db.models import Q
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from tools_catalog import requirements
from tools_catalog.backends.upstream import UpstreamBackend, UpstreamConfiguration
from tools_catalog.call.base import Json
from tools_catalog.kinds.registry import Basis, DefinedTool, ToolKind, register
from tools_catalog.models.shown import read_sights
from tools_catalog.models.upstream import McpConnection
from tools_catalog.models.upstream_tools import McpUpstreamTool
from tools_catalog.upstream import pool
from tools_catalog.upstream.listing import TOOL
from tools_catalog.upstream.sights import Sight, Sights
from tools_catalog.upstream.spec import ConnectionSpec

logger = logging.getLogger(__name__)

_GONE = "The upstream no longer offers it. Choose another."
_CHANGED = (
    "The upstream changed it since it was approved. The hub's operator can look at the difference and approve it."
)
_NOT_APPROVED = pool.Approval("", "")


@dataclass(frozen=True, slots=True)
class Upstreams:
    """What the connections say of the tools behind them. Empty where there are none."""

    specs: Mapping[str, ConnectionSpec] = field(default_factory=dict)
    undiscovered: frozenset[str] = frozenset()
    """Connections whose tools were never listed."""
    approvals: Mapping[int, pool.Approval] = field(default_factory=dict)
    """Of the tools that may be called, by the id of the tool."""
    sights: Mapping[str, Sights] = field(default_factory=dict)
    """To whom they show what, by the name of the connection, of those alone whose lists depend on who asks."""
    withheld: Mapping[int, str] = field(default_factory=dict)
    """Why others of its connections may not, by the id of the tool."""

    def why_not(self, tool_id: int | None, connection: str) -> str:
        """Say why a tool of a connection may not be called; nothing where it may."""
        if tool_id in self.approvals:
            return ""
        off = f"Its connection {connection} is switched off or cannot be used. Ask the hub's operator."
        return off if tool_id is None else self.withheld.get(tool_id, off)


@register
class UpstreamKind(ToolKind):
    name = "upstream"
    label = _("Upstream MCP server")
    short_label = "MCP"
    comes_by_approval = True

    def check(self, tool: DefinedTool) -> None:
        """Raise ValueError unless the configuration is that of this tool's own approval."""
        configuration = UpstreamConfiguration.parse(tool.configuration)
        approved = McpUpstreamTool.objects.filter(
            Q(tool=None) | Q(tool=tool.pk),
            kind="tool",
            connection__slug=configuration.connection,
            upstream_name=configuration.tool,
            approved_digest=configuration.digest,
        )
        if not approved.exists():
            raise ValueError(
                _t("%(tool)r of %(connection)s is not approved with this definition. Approve it under Upstream offers.")
                % {"tool": configuration.tool, "connection": configuration.connection}
            )

    def read(self) -> Upstreams:
        """Read connections, and which of their tools may be called as they are. One bad row leaves out itself only."""
        specs: dict[str, ConnectionSpec] = {}
        undiscovered = set()
        trusting: dict[int, McpConnection] = {}
        for connection in McpConnection.objects.filter(enabled=True).select_related("profile", "identity"):
            try:
                specs[connection.slug] = connection.spec()
            except ValueError:
                logger.exception("The connection %s cannot be used and is left out", connection.slug)
                continue
            trusting[connection.pk] = connection
            if connection.discovered_at is None:
                undiscovered.add(connection.slug)
        if not specs:
            return Upstreams()
        approvals, withheld = {}, {}
        rows = McpUpstreamTool.objects.filter(tool__isnull=False, connection__in=trusting).defer("seen", "approved")
        for row in rows:
            connection = trusting[row.connection_id]
            if row.tool_id is None:
                continue
            if row.is_withheld(connection):
                withheld[row.tool_id] = _GONE if row.is_gone else _CHANGED
            else:
                approvals[row.tool_id] = pool.Approval(
                    row.approved_digest,
                    row.approved_schema_digest,
                    connection.keeps_serving,
                    connection.policy == McpConnection.Policy.TRUST,
                )
        sights: dict[str, Sights] = {}
        if personal := {spec.id: slug for slug, spec in specs.items() if spec.lists_per_person}:
            found = read_sights()
            sights = {slug: found.get(key, {}) for key, slug in personal.items()}
        return Upstreams(specs, frozenset(undiscovered), approvals, sights, withheld)

    def basis(self, tool: DefinedTool, ground: object) -> Basis:
        upstreams = cast("Upstreams", ground)
        configuration = UpstreamConfiguration.parse(tool.configuration)
        approval = _NOT_APPROVED if tool.pk is None else upstreams.approvals.get(tool.pk, _NOT_APPROVED)
        sights = upstreams.sights.get(configuration.connection)
        return Basis(
            make=lambda: UpstreamBackend(configuration, approval, pool.here),
            key=repr(approval),
            why_not=requirements.why_not(tool.requirements, None)
            or upstreams.why_not(tool.pk, configuration.connection),
            connection=configuration.connection,
            upstream_name=configuration.tool,
            sight=None if sights is None else Sight(sights, TOOL, configuration.tool, approval),
        )

    def annotations(self, tool: DefinedTool) -> dict[str, Json]:
        found = tool.annotations
        if UpstreamConfiguration.parse(tool.configuration).read_only_hint:
            found["readOnlyHint"] = not tool.destructive
        return found

    def source(self, configuration: Mapping[str, Json]) -> str:
        return str(configuration.get("connection", ""))

    def completed(self, entry: dict[str, Json], members: Iterable[str]) -> dict[str, Json]:
        raise ValueError("backend: tools of upstreams come by approval, not by a bundle.")
