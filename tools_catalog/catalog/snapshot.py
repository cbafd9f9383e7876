"""The catalogue as calls see it: one immutable snapshot a process, replaced whole when the database moves.

Nothing here touches the database but `Catalog.load`. Lists are bytes made once per revision and audience, so
the cost of a call or a list does not grow with the catalogue.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, cast

from django.db.models import Prefetch

from sessions_app.kit.fields import readable_rows
from sessions_app.protocol import directions, envelope, schemas
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace, owner_of
from sessions_app.workspaces.models import read_workspaces
from tools_catalog import usage
from tools_catalog.backends.http.configuration import Service
from tools_catalog.call import base
from tools_catalog.catalog.listing import Audience
from tools_catalog.catalog.selection import Alias, Selection, Tool
from tools_catalog.catalog.toolsets import ReadChoice, Toolset, ToolsetNotFound, WorkspaceNotFound, matches
from tools_catalog.guardrails.guardrail import Guardrails
from tools_catalog.kinds.registry import KINDS, Basis, by_approval, kind_of
from tools_catalog.kinds.upstream import UpstreamKind, Upstreams
from tools_catalog.policy.rules import Policy
from tools_catalog.vault import read_secrets

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from tools_catalog.models import McpToolDefinition

logger = logging.getLogger(__name__)

__all__ = ["Catalog", "Tool"]


@dataclass(frozen=True, slots=True)
class _Compiled:
    definition: dict[str, Any]
    arguments: schemas.Validator
    result: schemas.Validator | None
    param_headers: tuple[envelope.ParamHeader, ...]
    backend: base.Backend


class Catalog(Selection):
    """All tools at one moment, and the selections of them."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        compiled: Mapping[str, _Compiled] | None = None,
        upstreams: Upstreams | None = None,
        toolsets: Iterable[Toolset] = (),
        aliases: Iterable[Alias] = (),
        policy: Policy | None = None,
        guardrails: Guardrails | None = None,
        workspaces: Mapping[int, Workspace] | None = None,
    ) -> None:
        super().__init__(tools, aliases=aliases)
        self.policy = policy or Policy()
        self.guardrails = guardrails or Guardrails()
        self.upstreams = upstreams or Upstreams()
        self.toolsets = {toolset.slug: toolset for toolset in toolsets}
        self.workspaces = {workspace.slug: workspace for workspace in (workspaces or {}).values()}
        self._compiled = dict(compiled or {})

    @property
    def reads(self) -> dict[str, ReadChoice]:
        """What toolsets choose of prompts and resources, by the name of the toolset."""
        return {slug: toolset.reads for slug, toolset in self.toolsets.items() if toolset.reads is not None}

    def toolset(self, slug: str, caller: Audience) -> Toolset:
        """Give the toolset of an address; raise ToolsetNotFound, also for one that the caller may not use."""
        found = self.toolsets.get(slug)
        if found is None or not (not found.groups or caller.sees_everything or found.groups & caller.groups):
            raise ToolsetNotFound
        if found.workspace is not None and not found.workspace.has(caller):
            raise ToolsetNotFound
        return found

    def workspace(self, slug: str, caller: Audience) -> Workspace:
        """Give the workspace of an address; raise WorkspaceNotFound, also where the caller does not belong to it."""
        found = self.workspaces.get(slug)
        if found is None or not found.has(caller):
            raise WorkspaceNotFound
        return found

    @classmethod
    def load_version(cls, name: str, version: str, caller: Audience) -> Tool:
        """Read one tool in one of its versions, under today's rules of who may call it and how often.

        Raises ToolNotFound and ToolDisabled as `find`; InvalidParams for a version that cannot be called.
        """
        from tools_catalog.models import McpToolDefinition, McpToolVersion

        grounds = _grounds()
        renamed = McpToolDefinition.objects.called(name)
        name = name if renamed is None else renamed.name
        tools = cls._read(McpToolDefinition.objects.filter(name=name), grounds, {})[0]
        policy, guardrails = read_policy(), _guardrails(grounds)
        if policy.rules or guardrails.guardrails:
            names = {toolset.slug: frozenset(toolset.tools) for toolset in _toolsets(tools, [], {})}
            policy.assign(tools, names)
            guardrails.assign(tools, names)
        now = cls(tools).find(name, caller)
        if version in ("", now.version):
            return now
        past = McpToolVersion.objects.filter(tool__name=name, version=version).first()
        if past is None:
            raise InvalidParams(f"The tool {name} has no version {version[:20]}. Its versions are listed over REST.")
        row = McpToolDefinition(**{**McpToolDefinition.UNSAID, **past.definition})
        if row.backend in by_approval() or now.connection is not None:
            raise InvalidParams(
                f"{name} belongs to an upstream, which has its newest version only. Choose version {now.version}."
            )
        try:
            basis = kind_of(row.backend).basis(row, grounds[row.backend])
            parts = _compile(row, basis)
        except Exception as error:
            logger.exception("Version %s of %s cannot be called", version, name)
            raise InvalidParams(f"Version {version} of {name} cannot be called any more. Choose another.") from error
        if basis.why_not:
            raise InvalidParams(f"Version {version} of {name} cannot be called. {basis.why_not}")
        return replace(
            now,
            version=past.version,
            digest=past.digest,
            read_only=now.read_only and row.read_only,
            timeout_seconds=row.timeout_seconds,
            task_support="forbidden",
            definition=parts.definition,
            arguments=parts.arguments,
            result=parts.result,
            param_headers=parts.param_headers,
            backend=parts.backend,
        )

    @classmethod
    def load(cls, before: Catalog | None = None) -> Catalog:
        """Read the catalogue; what did not change since `before` is not compiled again.

        A tool that cannot be compiled is left out and logged: one bad row never empties the list.
        """
        from tools_catalog.models import McpToolDefinition

        grounds = _grounds()
        known = before._compiled if before is not None else {}
        tools, compiled = cls._read(McpToolDefinition.objects.order_by("name"), grounds, known)
        aliases = _aliases()
        upstreams = cast("Upstreams", grounds[UpstreamKind.name])
        toolsets = _toolsets(tools, aliases, before.toolsets if before is not None else {})
        policy, guardrails = read_policy(), _guardrails(grounds)
        names = {toolset.slug: frozenset(toolset.tools) for toolset in toolsets}
        policy.assign(tools, names)
        guardrails.assign(tools, names)
        return cls(tools, compiled, upstreams, toolsets, aliases, policy, guardrails, read_workspaces())

    def with_toolsets(self) -> Catalog:
        """Give the same tools with the toolsets as they are now: who makes one need not wait for all tools."""
        if self.policy.names_toolsets or self.guardrails.names_toolsets:
            return self.load(self)
        now = copy(self)
        toolsets = _toolsets(self.tools.values(), _aliases(), self.toolsets)
        now.toolsets = {toolset.slug: toolset for toolset in toolsets}
        return now

    @classmethod
    def _read(
        cls, rows: QuerySet[McpToolDefinition], grounds: Mapping[str, object], known: Mapping[str, _Compiled]
    ) -> tuple[list[Tool], dict[str, _Compiled]]:
        """Give the tools of some rows, and what was compiled for them; of that, `known` is taken as it is."""
        read_secrets()
        workspaces = cache(read_workspaces)
        compiled: dict[str, _Compiled] = {}
        tools = []
        for row in readable_rows(rows.prefetch_related("groups")):
            # Of what is served, not of the version that should be: an edit behind the model's back is seen
            # and recorded as what it is.
            digest = row.digest()
            try:
                basis = kind_of(row.backend).basis(row, grounds[row.backend])
                key = f"{digest} {basis.key}"
                parts = known.get(key) or _compile(row, basis)
            except Exception:
                logger.exception("The tool %s cannot be served and is left out", row.name)
                continue
            compiled[key] = parts
            tools.append(
                Tool(
                    name=row.name,
                    version=row.version,
                    digest=digest,
                    enabled=row.enabled and not basis.why_not,
                    groups=frozenset(group.pk for group in row.groups.all()),
                    read_only=row.read_only,
                    retry_safe=row.retry_safe,
                    timeout_seconds=row.timeout_seconds,
                    calls_per_minute=row.calls_per_minute,
                    task_support=row.task_support,
                    definition=parts.definition,
                    connection=basis.connection,
                    upstream_name=basis.upstream_name,
                    arguments=parts.arguments,
                    result=parts.result,
                    param_headers=parts.param_headers,
                    backend=parts.backend,
                    why_not=basis.why_not if row.enabled else "",
                    sight=basis.sight,
                    workspace=owner_of(row.workspace_id, workspaces),
                )
            )
        return tools, compiled


def read_policy() -> Policy:
    """Read the rules about calls."""
    from django.contrib.auth.models import Group

    from tools_catalog.models.policy import read_rules

    rules = read_rules()
    return Policy(rules, dict(Group.objects.values_list("pk", "name")) if rules else None)


def _guardrails(grounds: Mapping[str, object]) -> Guardrails:
    """Read the guardrails, with the services that they may ask."""
    from tools_catalog.models.guardrails import read_guardrails

    return Guardrails(read_guardrails(cast("Mapping[str, Service]", grounds["http"])))


def ruled(row: McpToolDefinition) -> RuledRow:
    """Give what rules about calls read of a row, without compiling it."""
    connection = row.configuration.get("connection") if row.backend in by_approval() else None
    return RuledRow(row.name, row.version, connection, row.read_only, definition_of(row), row.workspace_id)


@dataclass(frozen=True, slots=True)
class RuledRow:
    """A tool as rules see it."""

    name: str
    version: str
    connection: str | None
    read_only: bool
    definition: dict[str, Any]
    owner: int | None = None


def definition_of(row: McpToolDefinition) -> dict[str, Json]:
    """Give the Tool object of a row, in the newest revision; raise ValueError where its configuration is broken."""
    definition: dict[str, Any] = {"name": row.name}
    if row.title:
        definition["title"] = row.title
    definition["description"] = row.description
    definition["inputSchema"] = row.input_schema
    if row.output_schema:
        definition["outputSchema"] = row.output_schema
    definition["annotations"] = {**({"title": row.title} if row.title else {}), **kind_of(row.backend).annotations(row)}
    if row.task_support != "forbidden":
        definition["execution"] = {"taskSupport": row.task_support}
    if row.meta:
        definition["_meta"] = row.meta
    return directions.plain_words(definition)


def _grounds() -> dict[str, object]:
    """Read what the tools of each kind stand on, by the kind's name."""
    return {kind.name: kind.read() for kind in KINDS.values()}


def _compile(row: McpToolDefinition, basis: Basis) -> _Compiled:
    return _Compiled(
        definition_of(row),
        schemas.compile(row.input_schema),
        schemas.compile(row.output_schema) if row.output_schema else None,
        envelope.param_headers(row.input_schema),
        basis.make(),
    )


def _aliases() -> list[Alias]:
    """Read the former names that lead to tools."""
    from tools_catalog.models import McpAlias

    rows = McpAlias.objects.live().filter(tool__isnull=False)
    return [Alias(*row) for row in rows.values_list("name", "tool__name", "expires_at")]


def _toolsets(tools: Iterable[Tool], aliases: Iterable[Alias], before: Mapping[str, Toolset]) -> list[Toolset]:
    """Read the toolsets. Tools are matched by name, the present or a former one. `before`: of the last snapshot."""
    from tools_catalog.models import McpToolset

    formerly: dict[str, list[str]] = {}
    for alias in aliases:
        formerly.setdefault(alias.leads_to, []).append(alias.name)
    made, workspaces = [], cache(read_workspaces)
    enabled = McpToolset.objects.filter(enabled=True)
    rows = list(
        enabled.prefetch_related(_only("tools", "name"), "groups", _only("prompts", "name"), _only("resources", "uri"))
    )
    calls = usage.totals() if any(row.mode == McpToolset.Mode.SEARCH for row in rows) else {}
    for row in rows:
        chosen, patterns = {tool.name for tool in row.tools.all()}, row.patterns.split()
        made.append(
            Toolset(
                row.slug,
                [
                    tool
                    for tool in tools
                    if tool.name in chosen
                    or matches(tool.name, patterns)
                    or any(matches(name, patterns) for name in formerly.get(tool.name, ()))
                ],
                aliases=aliases,
                groups=frozenset(group.pk for group in row.groups.all()),
                workspace=owner_of(row.workspace_id, workspaces),
                searches=row.mode == McpToolset.Mode.SEARCH,
                words=row.description,
                reads=_reads(row),
                calls=calls,
                before=before.get(row.slug),
            )
        )
    return made


def _reads(row: Any) -> ReadChoice | None:
    if row.reads != row.Reads.CHOSEN:
        return None
    return ReadChoice(
        frozenset(prompt.name for prompt in row.prompts.all()),
        frozenset(resource.uri for resource in row.resources.all()),
        tuple(row.read_patterns.split()),
    )


def _only(relation: str, column: str) -> Prefetch[str, Any, Any]:
    """Read what a toolset is linked to without its content."""
    from tools_catalog.models import McpToolset

    model: Any = McpToolset._meta.get_field(relation).related_model
    return Prefetch(relation, model.objects.only(column))
