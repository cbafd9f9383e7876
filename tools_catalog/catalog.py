"""The catalogue as calls see it: one immutable snapshot a process, replaced whole when the database moves.

Nothing here touches the database but `Catalog.load`. Lists are bytes made once per revision and audience, so
the cost of a call or a list does not grow with the catalogue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from sessions_app.protocol import envelope, schemas
from sessions_app.protocol.errors import ExecutionError, InvalidParams
from tools_catalog import hosts, requirements
from tools_catalog.backends import base
from tools_catalog.backends.http import HttpBackend, HttpConfiguration, Service
from tools_catalog.backends.python import PythonBackend
from tools_catalog.backends.upstream import UpstreamBackend, UpstreamConfiguration
from tools_catalog.listing import Audience, readable
from tools_catalog.selection import Selection, Tool
from tools_catalog.toolsets import Toolset, ToolsetNotFound, matches
from tools_catalog.upstream import pool
from tools_catalog.upstream.spec import ConnectionSpec

logger = logging.getLogger(__name__)

__all__ = ["Catalog", "Tool", "secret_for"]


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
    withheld: Mapping[int, str] = field(default_factory=dict)
    """Why others of its connections may not, by the id of the tool."""

    def why_not(self, tool_id: int, connection: str | None) -> str:
        """Say why a tool of a connection may not be called; nothing where it may."""
        if connection is None or tool_id in self.approvals:
            return ""
        off = f"Its connection {connection} is switched off or cannot be used. Ask the hub's operator."
        return self.withheld.get(tool_id, off)


class Catalog(Selection):
    """All tools at one moment, and the selections of them."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        compiled: Mapping[str, _Compiled] | None = None,
        upstreams: Upstreams | None = None,
        toolsets: Iterable[Toolset] = (),
    ) -> None:
        super().__init__(tools)
        self.upstreams = upstreams or Upstreams()
        self.toolsets = {toolset.slug: toolset for toolset in toolsets}
        self._compiled = dict(compiled or {})

    def toolset(self, slug: str, caller: Audience) -> Toolset:
        """Give the toolset of an address; raise ToolsetNotFound, also for one that the caller may not use."""
        found = self.toolsets.get(slug)
        if found is None or not (not found.groups or caller.sees_everything or found.groups & caller.groups):
            raise ToolsetNotFound
        return found

    @staticmethod
    def read_secrets() -> None:
        """Make the secrets known that `secret_for` gives."""
        from tools_catalog.models import Secret

        # Replaced whole: a call that looks for a secret meanwhile finds the old ones or the new ones.
        global _vault
        _vault = {secret.name: secret for secret in Secret.objects.all()}

    @classmethod
    def load_version(cls, name: str, version: str, caller: Audience) -> Tool:
        """Read one tool in one of its versions, under today's rules of who may call it and how often.

        Raises ToolNotFound and ToolDisabled as `find`; InvalidParams for a version that cannot be called.
        """
        from tools_catalog.models import McpToolDefinition, McpToolVersion

        now = cls(cls._read(McpToolDefinition.objects.filter(name=name), _upstreams(), {})[0]).find(name, caller)
        if version in ("", now.version):
            return now
        past = McpToolVersion.objects.filter(tool__name=name, version=version).first()
        if past is None:
            raise InvalidParams(f"The tool {name} has no version {version[:20]}. Its versions are listed over REST.")
        row = McpToolDefinition(**{**McpToolDefinition.UNSAID, **past.definition})
        if row.backend == "upstream" or now.connection is not None:
            raise InvalidParams(
                f"{name} belongs to an upstream, which has its newest version only. Choose version {now.version}."
            )
        try:
            service, why_not = _service_of(row, _services())
            parts = _compile(row, service)
        except Exception as error:
            logger.exception("Version %s of %s cannot be called", version, name)
            raise InvalidParams(f"Version {version} of {name} cannot be called any more. Choose another.") from error
        if why_not or parts.backend is None:
            raise InvalidParams(f"Version {version} of {name} cannot be called. {why_not}".strip())
        return replace(
            now, version=past.version, digest=past.digest, read_only=now.read_only and row.read_only,
            timeout_seconds=row.timeout_seconds, task_support="forbidden", definition=parts.definition,
            arguments=parts.arguments, result=parts.result, param_headers=parts.param_headers, backend=parts.backend,
        )  # fmt: skip

    @classmethod
    def load(cls, before: Catalog | None = None) -> Catalog:
        """Read the catalogue; what did not change since `before` is not compiled again.

        A tool that cannot be compiled is left out and logged: one bad row never empties the list.
        """
        from tools_catalog.models import McpToolDefinition

        upstreams = _upstreams()
        known = before._compiled if before is not None else {}
        tools, compiled = cls._read(McpToolDefinition.objects.order_by("name"), upstreams, known)
        return cls(tools, compiled, upstreams, _toolsets(tools))

    @classmethod
    def _read(
        cls, rows: Any, upstreams: Upstreams, known: Mapping[str, _Compiled]
    ) -> tuple[list[Tool], dict[str, _Compiled]]:
        """Give the tools of some rows, and what was compiled for them; of that, `known` is taken as it is."""
        cls.read_secrets()
        services = _services()
        compiled: dict[str, _Compiled] = {}
        tools = []
        for row in readable(rows.prefetch_related("groups")):
            # Of what is served, not of the version that should be: an edit behind the model's back is seen
            # and recorded as what it is.
            digest = row.digest()
            service, why_not = _service_of(row, services)
            # What a tool runs by beside its definition.
            key = f"{digest} {row.retry_safe} {service}"
            try:
                parts = known.get(key) or _compile(row, service)
            except Exception:
                logger.exception("The tool %s cannot be served and is left out", row.name)
                continue
            compiled[key] = parts
            approval = upstreams.approvals.get(row.pk)
            backend = parts.backend or UpstreamBackend(
                UpstreamConfiguration.parse(row.configuration), approval or _NOT_APPROVED, pool.here
            )
            connection = backend.connection if isinstance(backend, UpstreamBackend) else None
            why_not = why_not or upstreams.why_not(row.pk, connection)
            tools.append(
                Tool(
                    name=row.name, version=row.version, digest=digest, enabled=row.enabled and not why_not,
                    groups=frozenset(group.pk for group in row.groups.all()), read_only=row.read_only,
                    retry_safe=row.retry_safe, timeout_seconds=row.timeout_seconds,
                    calls_per_minute=row.calls_per_minute, task_support=row.task_support, definition=parts.definition,
                    connection=connection, arguments=parts.arguments, result=parts.result,
                    param_headers=parts.param_headers,
                    backend=backend, why_not=why_not if row.enabled else "",
                )
            )  # fmt: skip
        return tools, compiled


def _services() -> dict[str, Service]:
    """Read the services that are switched on."""
    from tools_catalog.models import HttpService

    return {row.slug: row.plain() for row in readable(HttpService.objects.filter(enabled=True))}


def _service_of(row: Any, services: Mapping[str, Service]) -> tuple[Service | None, str]:
    """Give the service of a tool, and why the tool cannot be served, or nothing."""
    name = row.configuration.get("service") if row.backend == "http" else None
    service = services.get(str(name))
    if name is not None and service is None:
        return Service(slug=str(name), url="https://switched-off.invalid", headers={}), (
            f"Its service {name} is switched off. Ask the hub's operator."
        )
    return service, requirements.why_not(row.requirements, service)


def definition_of(row: Any) -> dict[str, Any]:
    """Give the Tool object of a row, in the newest revision; raise ValueError where its configuration is broken."""
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
    return definition


def _compile(row: Any, service: Service | None = None) -> _Compiled:
    backend: base.Backend | None = None
    if row.backend == "python":
        backend = PythonBackend(row.configuration["function"])
    elif row.backend == "http":
        configuration = HttpConfiguration.parse(row.configuration, service)
        backend = HttpBackend(configuration, secret=secret_for, retries=row.retry_safe)
    return _Compiled(
        definition_of(row),
        schemas.compile(row.input_schema),
        schemas.compile(row.output_schema) if row.output_schema else None,
        envelope.param_headers(row.input_schema),
        backend,
    )


def _toolsets(tools: Iterable[Tool]) -> list[Toolset]:
    """Read the toolsets. Tools are matched by name."""
    from tools_catalog.models import McpToolset

    made = []
    for row in McpToolset.objects.filter(enabled=True).prefetch_related("tools", "groups"):
        chosen, patterns = {tool.name for tool in row.tools.all()}, row.patterns.split()
        made.append(
            Toolset(
                row.slug,
                [tool for tool in tools if tool.name in chosen or matches(tool.name, patterns)],
                groups=frozenset(group.pk for group in row.groups.all()),
                searches=row.mode == McpToolset.Mode.SEARCH, words=row.description,
            )
        )  # fmt: skip
    return made


_GONE = "The upstream no longer offers it. Choose another."
_CHANGED = (
    "The upstream changed it since it was approved. The hub's operator can look at the difference and approve it."
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
                row.approved_digest, row.approved_schema_digest, connection.keeps_serving,
                connection.policy == McpConnection.Policy.TRUST,
            )  # fmt: skip
    return Upstreams(specs, frozenset(undiscovered), approvals, withheld)


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
