"""Tools of other MCP servers. Approval of a connection's offers writes their rows."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from django.db.models import Q
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from sessions_app.protocol import json
from tools_catalog import requirements
from tools_catalog.backends.upstream import UpstreamBackend, UpstreamConfiguration
from tools_catalog.bindings import origin_of
from tools_catalog.call.base import Json
from tools_catalog.kinds.registry import Basis, DefinedTool, Row, ToolKind, register
from tools_catalog.models.accounts import shared_sign_ins
from tools_catalog.models.launch import LaunchProfile
from tools_catalog.models.shown import read_sights
from tools_catalog.models.upstream import McpConnection
from tools_catalog.models.upstream_tools import McpUpstreamTool
from tools_catalog.upstream import pool
from tools_catalog.upstream.listing import TOOL
from tools_catalog.upstream.sights import Sight, Sights
from tools_catalog.upstream.spec import SHARED_ACCOUNT, ConnectionSpec

logger = logging.getLogger(__name__)

_GONE = "The upstream no longer offers it. Choose another."
_CHANGED = (
    "The upstream changed it since it was approved. The hub's operator can look at the difference and approve it."
)
_NOT_APPROVED = pool.Approval("", "")


@dataclass(frozen=True, slots=True)
class Upstreams:
    """The connections' facts about their tools. Empty where there are none."""

    specs: Mapping[str, ConnectionSpec] = field(default_factory=dict)
    undiscovered: frozenset[str] = frozenset()
    """Connections with tools that were never listed."""
    approvals: Mapping[int, pool.Approval] = field(default_factory=dict)
    """Of the tools that may be called, by the id of the tool."""
    sights: Mapping[str, Sights] = field(default_factory=dict)
    """Visibility by connection name, for connections whose lists depend on the user."""
    states: Mapping[str, str] = field(default_factory=dict)
    """Digest of all settings of each connection, its launch profile and the service that identifies people."""
    withheld: Mapping[int, str] = field(default_factory=dict)
    """Why others of its connections may not, by the id of the tool."""

    def why_not(self, tool_id: int | None, connection: str) -> str:
        """Return the reason if a tool of a connection may not be called; nothing otherwise."""
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
    PLACE = "connection"
    DOES = ("tool",)

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
                _t("This definition of %(tool)r from %(connection)s is not approved. Approve it under Upstream offers.")
                % {"tool": configuration.tool, "connection": configuration.connection}
            )

    def read(self) -> Upstreams:
        """Read connections, and which of their tools may be called as they are. One bad row leaves out itself only."""
        specs: dict[str, ConnectionSpec] = {}
        states: dict[str, str] = {}
        undiscovered = set()
        trusting: dict[int, McpConnection] = {}
        for connection in McpConnection.objects.filter(enabled=True).select_related("profile", "identity"):
            try:
                specs[connection.slug] = connection.spec()
            except ValueError:
                logger.exception("The connection %s cannot be used and is left out", connection.slug)
                continue
            states[connection.slug] = connection.state()
            trusting[connection.pk] = connection
            if connection.discovered_at is None:
                undiscovered.add(connection.slug)
        if not specs:
            return Upstreams()
        if shared := {spec.id: slug for slug, spec in specs.items() if spec.account == SHARED_ACCOUNT}:
            for key, signed_in in shared_sign_ins(McpConnection.of, shared).items():
                states[shared[key]] += f" {signed_in}"
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
        return Upstreams(specs, frozenset(undiscovered), approvals, sights, states, withheld)

    def basis(self, tool: DefinedTool, ground: object) -> Basis:
        upstreams = cast("Upstreams", ground)
        configuration = UpstreamConfiguration.parse(tool.configuration)
        approval = _NOT_APPROVED if tool.pk is None else upstreams.approvals.get(tool.pk, _NOT_APPROVED)
        sights = upstreams.sights.get(configuration.connection)
        spec = upstreams.specs.get(configuration.connection)
        return Basis(
            make=lambda: UpstreamBackend(configuration, approval, pool.here),
            key=repr(approval),
            why_not=requirements.why_not(tool.requirements, None)
            or upstreams.why_not(tool.pk, configuration.connection),
            connection=configuration.connection,
            upstream_name=configuration.tool,
            sight=None if sights is None else Sight(sights, TOOL, configuration.tool, approval),
            place=f"{upstreams.states.get(configuration.connection, '')} {approval!r}",
            secrets=lambda _backend: () if spec is None else spec.secrets,
        )

    def annotations(self, tool: DefinedTool) -> dict[str, Json]:
        found = tool.annotations
        if UpstreamConfiguration.parse(tool.configuration).read_only_hint:
            found["readOnlyHint"] = not tool.destructive
        return found

    def likeness(self, one: Json) -> Callable[[Json], bool]:
        """Tools are alike if they have one name at one server: at one origin, or behind one command."""
        servers = _servers(McpConnection.objects.select_related("profile"))
        mine = _at(one, servers)
        return lambda other: _at(other, servers) == mine

    def slugs_of(self, place: object) -> frozenset[str]:
        return frozenset(row.slug for row in _connections(place))

    def moved(self, place: object, rows: Sequence[Row]) -> Iterator[tuple[Row, Row]]:
        before = _servers(McpConnection.objects.select_related("profile"))
        own = _servers(_connections(place))
        after = {**before, **own}
        alike = defaultdict(list)
        for row in rows:
            alike[_at(row.configuration, after)].append(row)
        for row in rows:
            if row.configuration.get("connection") in own:
                for other in alike[_at(row.configuration, after)]:
                    if other is not row and _at(other.configuration, before) != _at(row.configuration, before):
                        yield row, other

    def source(self, configuration: Mapping[str, Json]) -> str:
        return str(configuration.get("connection", ""))

    def completed(self, entry: dict[str, Json], members: Iterable[str]) -> dict[str, Json]:
        raise ValueError("backend: tools of upstreams come by approval, not by a bundle.")


def _connections(place: object) -> Iterable[McpConnection]:
    """Return the connections that a row decides about: itself, or those that run it. Each as with the row as it is."""
    if isinstance(place, McpConnection):
        yield place
    elif isinstance(place, LaunchProfile):
        for row in place.connections.all():
            row.profile = place
            yield row


def _servers(connections: Iterable[McpConnection]) -> dict[str, str]:
    """Return the server behind each connection. Two paths of one origin count as one server: `/mcp` and `/sse`."""
    found = {}
    for row in connections:
        launched = None if row.profile is None else [row.profile.command, row.profile.arguments]
        found[row.slug] = origin_of(row.url) if row.url else json.canonical(launched)
    return found


def _at(configuration: Json, servers: Mapping[str, str]) -> tuple[str, str]:
    """Return server and name of a tool. A connection that is gone is a server of its own."""
    slug = str(configuration.get("connection"))
    return servers.get(slug, slug), str(configuration.get("tool"))
