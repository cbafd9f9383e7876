"""The catalogue as calls see it: one immutable snapshot a process, replaced whole when the database moves.

Nothing here touches the database but `Catalog.load`. Lists are bytes made once per revision and audience, so
the cost of a call or a list does not grow with the catalogue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from sessions_app.protocol import envelope, json, schemas, shapes
from sessions_app.protocol.errors import ExecutionError, ToolDisabled, ToolNotFound
from tools_catalog import hosts
from tools_catalog.backends import base
from tools_catalog.backends.http import HttpBackend
from tools_catalog.backends.python import PythonBackend
from tools_catalog.backends.upstream import UpstreamBackend, UpstreamConfiguration
from tools_catalog.listing import Audience, Listing, is_visible, readable
from tools_catalog.upstream import pool
from tools_catalog.upstream.spec import ConnectionSpec

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool, ready to be listed and called."""

    name: str
    version: str
    digest: str
    enabled: bool
    groups: frozenset[int]
    read_only: bool
    retry_safe: bool
    timeout_seconds: float
    calls_per_minute: int | None
    task_support: str = "forbidden"
    """A `TaskSupport`."""
    definition: dict[str, Any]
    """The Tool object in its newest form; older revisions are made from it."""
    arguments: schemas.Validator
    result: schemas.Validator | None
    param_headers: tuple[envelope.ParamHeader, ...]
    backend: base.Backend

    def visible_to(self, caller: Audience) -> bool:
        return is_visible(self, caller)


@dataclass(frozen=True, slots=True)
class _Compiled:
    definition: dict[str, Any]
    arguments: schemas.Validator
    result: schemas.Validator | None
    param_headers: tuple[envelope.ParamHeader, ...]
    backend: base.Backend | None
    """None for a tool of an upstream, whose backend depends on more than its definition."""


@dataclass(frozen=True, slots=True)
class Upstreams:
    """What the connections say of the tools behind them. Empty where there are none."""

    specs: Mapping[str, ConnectionSpec] = field(default_factory=dict)
    undiscovered: frozenset[str] = frozenset()
    """Connections whose tools were never listed."""
    approvals: Mapping[int, pool.Approval] = field(default_factory=dict)
    """Of the tools that may be called, by the id of the tool."""


class Catalog:
    """All tools at one moment."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        compiled: Mapping[str, _Compiled] | None = None,
        upstreams: Upstreams | None = None,
    ) -> None:
        self.upstreams = upstreams or Upstreams()
        self.tools = {tool.name: tool for tool in sorted(tools, key=lambda tool: tool.name)}
        self.tasking = frozenset(tool.name for tool in self.tools.values() if tool.task_support != "forbidden")
        """Names of the tools that may run as tasks."""
        self._compiled = dict(compiled or {})
        self.tool_list = Listing("tools", self.tools, shapes.tool_for)

    def find(self, name: str, caller: Audience) -> Tool:
        """Give the tool; raise ToolNotFound (hidden ones too) or ToolDisabled."""
        tool = self.tools.get(name)
        if tool is None or (tool.groups and not tool.visible_to(caller)):
            raise ToolNotFound(
                f"There is no tool named {json.dumps(name[:100]).decode()}. Ask tools/list for the names.",
                tool=name[:100],
            )
        if not tool.enabled:
            raise ToolDisabled(
                f"The tool {name} is switched off. Ask the hub's operator to enable it, or choose another.", tool=name
            )
        return tool

    @classmethod
    def load(cls, before: Catalog | None = None) -> Catalog:
        """Read the catalogue; what did not change since `before` is not compiled again.

        A tool that cannot be compiled is left out and logged: one bad row never empties the list.
        """
        from tools_catalog.models import McpToolDefinition, Secret

        # Replaced whole: a call that looks for a secret meanwhile finds the old ones or the new ones.
        global _vault
        _vault = {secret.name: secret for secret in Secret.objects.all()}
        upstreams = _upstreams()
        known = before._compiled if before is not None else {}
        compiled: dict[str, _Compiled] = {}
        tools = []
        for row in readable(McpToolDefinition.objects.prefetch_related("groups").order_by("name")):
            # Of what is served, not of the version that should be: an edit behind the model's back is seen
            # and recorded as what it is.
            digest = row.digest()
            try:
                parts = known.get(digest) or _compile(row)
            except Exception:
                logger.exception("The tool %s cannot be served and is left out", row.name)
                continue
            compiled[digest] = parts
            approval = upstreams.approvals.get(row.pk)
            backend = parts.backend or UpstreamBackend(
                UpstreamConfiguration.parse(row.configuration), approval or _NOT_APPROVED, pool.here
            )
            enabled = row.enabled and (approval is not None or parts.backend is not None)
            tools.append(
                Tool(
                    name=row.name, version=row.version, digest=digest, enabled=enabled,
                    groups=frozenset(group.pk for group in row.groups.all()), read_only=row.read_only,
                    retry_safe=row.retry_safe, timeout_seconds=row.timeout_seconds,
                    calls_per_minute=row.calls_per_minute, task_support=row.task_support, definition=parts.definition,
                    arguments=parts.arguments, result=parts.result, param_headers=parts.param_headers,
                    backend=backend,
                )
            )  # fmt: skip
        return cls(tools, compiled, upstreams)


def _compile(row: Any) -> _Compiled:
    definition: dict[str, Any] = {"name": row.name}
    if row.title:
        definition["title"] = row.title
    definition["description"] = row.description
    definition["inputSchema"] = row.input_schema
    if row.output_schema:
        definition["outputSchema"] = row.output_schema
    definition["annotations"] = {**({"title": row.title} if row.title else {}), **row.annotations}
    if row.backend == "upstream" and UpstreamConfiguration.parse(row.configuration).read_only_hint:
        definition["annotations"]["readOnlyHint"] = not row.destructive
    if row.task_support != "forbidden":
        definition["execution"] = {"taskSupport": row.task_support}
    if row.meta:
        definition["_meta"] = row.meta
    backend: base.Backend | None = None
    if row.backend == "python":
        backend = PythonBackend(row.configuration["function"])
    elif row.backend == "http":
        backend = HttpBackend(row.configuration, secret=secret_for)
    return _Compiled(
        definition,
        schemas.compile(row.input_schema),
        schemas.compile(row.output_schema) if row.output_schema else None,
        envelope.param_headers(row.input_schema),
        backend,
    )


_NOT_APPROVED = pool.Approval("", "")


def _upstreams() -> Upstreams:
    """Read connections, and which of their tools may be called as they are. One bad row leaves out itself only."""
    from tools_catalog.models import McpConnection, McpUpstreamTool

    specs: dict[str, ConnectionSpec] = {}
    undiscovered = set()
    trusting: dict[int, McpConnection] = {}
    for connection in McpConnection.objects.filter(enabled=True).select_related("profile"):
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
    approvals = {}
    rows = McpUpstreamTool.objects.filter(tool__isnull=False, connection__in=trusting).defer("seen", "approved")
    for row in rows:
        connection = trusting[row.connection_id]
        if row.tool_id is not None and not row.is_withheld(connection):
            approvals[row.tool_id] = pool.Approval(
                row.approved_digest, row.approved_schema_digest, connection.keeps_serving,
                connection.policy == McpConnection.Policy.TRUST,
            )  # fmt: skip
    return Upstreams(specs, frozenset(undiscovered), approvals)


_vault: dict[str, Any] = {}
"""Secret rows by name, still encrypted, as of the newest snapshot."""


def secret_for(name: str, host: str) -> str:
    """Give a secret for a request to `host`, or for a child process `PROFILE.stdio`; raise ExecutionError."""
    if name not in _vault:
        raise ExecutionError(f"The secret {name} that the tool needs does not exist. Tell the hub's operator.")
    if not hosts.covers(_vault[name].hosts, host):
        raise ExecutionError(
            f"The secret {name} is not for the host {host}, so nothing was sent. Tell the hub's operator.",
            secret=name, host=host,
        )  # fmt: skip
    value: str = _vault[name].value()
    return value
