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
from sessions_app.protocol import envelope, json, schemas
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace, owner_of
from sessions_app.workspaces.models import read_workspaces
from tools_catalog import usage
from tools_catalog.call import base
from tools_catalog.catalog.additions import (
    Additions,
    Checks,
    additions_follow_toolsets,
    checks_of,
    read_additions,
    read_checks,
)
from tools_catalog.catalog.listing import Audience
from tools_catalog.catalog.selection import Alias, Selection, Tool
from tools_catalog.catalog.toolsets import ReadChoice, Toolset, ToolsetNotFound, WorkspaceNotFound, matches
from tools_catalog.kinds.registry import KINDS, Basis, by_approval, kind_of
from tools_catalog.kinds.upstream import UpstreamKind, Upstreams
from tools_catalog.models.ruled import definition_of, former_names
from tools_catalog.policy.scope import tags_of
from tools_catalog.vault import fingerprint_of, read_secrets

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
    unchanged: dict[str, Any] | None = None


class Catalog(Selection):
    """All tools at one moment, and the selections of them."""

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        compiled: Mapping[str, _Compiled] | None = None,
        upstreams: Upstreams | None = None,
        toolsets: Iterable[Toolset] = (),
        aliases: Iterable[Alias] = (),
        checks: Mapping[str, Checks] | None = None,
        workspaces: Mapping[int, Workspace] | None = None,
    ) -> None:
        super().__init__(tools, aliases=aliases)
        self.checks = checks or {}
        self.upstreams = upstreams or Upstreams()
        self.toolsets = {toolset.slug: toolset for toolset in toolsets}
        self.workspaces = {workspace.slug: workspace for workspace in (workspaces or {}).values()}
        self._compiled = dict(compiled or {})

    @property
    def reads(self) -> dict[str, ReadChoice]:
        """The toolsets' choices of prompts and resources, by the name of the toolset."""
        return {slug: toolset.reads for slug, toolset in self.toolsets.items() if toolset.reads is not None}

    def toolset(self, slug: str, caller: Audience) -> Toolset:
        """Return the toolset of an address; raise ToolsetNotFound, also for one that the caller may not use."""
        found = self.toolsets.get(slug)
        if found is None or not (not found.groups or caller.sees_everything or found.groups & caller.groups):
            raise ToolsetNotFound
        if found.workspace is not None and not found.workspace.has(caller):
            raise ToolsetNotFound
        return found

    def workspace(self, slug: str, caller: Audience) -> Workspace:
        """Return the workspace of an address; raise WorkspaceNotFound, also where the caller does not belong to it."""
        found = self.workspaces.get(slug)
        if found is None or not found.has(caller):
            raise WorkspaceNotFound
        return found

    @classmethod
    def load_version(cls, name: str, version: str, caller: Audience) -> Tool:
        """Read one tool in one of its versions, under today's rules of access and rate.

        Raises ToolNotFound and ToolDisabled as `find`; InvalidParams for a version that cannot be called.
        """
        from tools_catalog.models import McpToolDefinition, McpToolVersion

        grounds = _grounds()
        renamed = McpToolDefinition.objects.called(name)
        name = name if renamed is None else renamed.name
        tools = cls._read(McpToolDefinition.objects.filter(name=name), grounds, {})[0]
        checks, names = read_checks(), dict[str, frozenset[str]]()
        if checks:
            names = {toolset.slug: frozenset(toolset.tools) for toolset in _toolsets(tools, _aliases(), {})}
            for tool in tools:
                _assign(checks, tool, (tool,), names)
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
            parts = _compile(row, basis, now.additions)
        except Exception as error:
            logger.exception("Version %s of %s cannot be called", version, name)
            raise InvalidParams(f"Version {version} of {name} cannot be called any more. Choose another.") from error
        if basis.why_not:
            raise InvalidParams(f"Version {version} of {name} cannot be called. {basis.why_not}")
        then = replace(
            now,
            version=past.version,
            digest=past.digest,
            effect=_effect(row, past.digest, basis, parts.backend),
            read_only=now.read_only and row.read_only,
            timeout_seconds=row.timeout_seconds,
            task_support="forbidden",
            definition=_as_judged(parts.definition, now.definition),
            arguments=parts.arguments,
            result=parts.result,
            param_headers=parts.param_headers,
            backend=_added_to(parts.backend, now.additions),
            unchanged_definition=parts.unchanged,
        )
        both = (now, replace(then, definition=parts.definition))
        _assign(checks, then, both, names)
        return then

    @classmethod
    def effect_of(cls, name: str) -> str:
        """Return the digest of what a tool's call does and where, as the database has it now; empty for no tool."""
        from tools_catalog.models import McpToolDefinition

        tools = cls._read(McpToolDefinition.objects.filter(name=name), _grounds(), {})[0]
        return tools[0].effect if tools else ""

    @classmethod
    def load(cls, before: Catalog | None = None) -> Catalog:
        """Read the catalogue; entries unchanged since `before` are not compiled again.

        A tool that cannot be compiled is left out and logged: one bad row never empties the list.
        """
        from tools_catalog.models import McpToolDefinition
        from tools_catalog.models.allowed_hosts import read_allowed_hosts

        read_allowed_hosts()
        grounds = _grounds()
        known = before._compiled if before is not None else {}
        tools, compiled = cls._read(McpToolDefinition.objects.order_by("name"), grounds, known)
        aliases = _aliases()
        upstreams = cast("Upstreams", grounds[UpstreamKind.name])
        toolsets = _toolsets(tools, aliases, before.toolsets if before is not None else {})
        checks = read_checks()
        names = {toolset.slug: frozenset(toolset.tools) for toolset in toolsets}
        for tool in tools if checks else ():
            _assign(checks, tool, (tool,), names)
        return cls(tools, compiled, upstreams, toolsets, aliases, checks, read_workspaces())

    def with_toolsets(self) -> Catalog:
        """Return the same tools with the current toolsets: creating one need not wait for all tools."""
        if additions_follow_toolsets() or any(each.names_toolsets for each in self.checks.values()):
            return self.load(self)
        now = copy(self)
        toolsets = _toolsets(self.tools.values(), _aliases(), self.toolsets)
        now.toolsets = {toolset.slug: toolset for toolset in toolsets}
        return now

    @classmethod
    def _read(
        cls, rows: QuerySet[McpToolDefinition], grounds: Mapping[str, object], known: Mapping[str, _Compiled]
    ) -> tuple[list[Tool], dict[str, _Compiled]]:
        """Return the tools of some rows, and their compiled parts; those in `known` are reused."""
        read_secrets()
        workspaces, former, additions = cache(read_workspaces), former_names(), read_additions()
        compiled: dict[str, _Compiled] = {}
        tools = []
        for row in readable_rows(rows.prefetch_related("groups")):
            # Of what is served, not of the version that should be: an edit behind the model's back is seen
            # and recorded as what it is.
            digest = row.digest()
            try:
                basis = kind_of(row.backend).basis(row, grounds[row.backend])
                added = additions.get(row.pk, ())
                key = " ".join([digest, basis.key, *(each.key for each in added)])
                parts = known.get(key) or _compile(row, basis, added)
            except Exception:
                logger.exception("The tool %s cannot be served and is left out", row.name)
                continue
            compiled[key] = parts
            tools.append(
                Tool(
                    name=row.name,
                    version=row.version,
                    digest=digest,
                    effect=_effect(row, digest, basis, parts.backend),
                    enabled=row.enabled and not basis.why_not,
                    groups=frozenset(group.pk for group in row.groups.all()),
                    former=former.get(row.pk, ()),
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
                    backend=_added_to(parts.backend, added),
                    additions=added,
                    unchanged_definition=parts.unchanged,
                    why_not=basis.why_not if row.enabled else "",
                    sight=basis.sight,
                    workspace=owner_of(row.workspace_id, workspaces),
                )
            )
        return tools, compiled


def _assign(
    checks: Mapping[str, Checks], tool: Tool, views: Iterable[Tool], toolsets: Mapping[str, frozenset[str]]
) -> None:
    """Set on a tool the checks that concern one of these views of it, before anybody calls it."""
    found = checks_of(views, checks, toolsets)
    object.__setattr__(tool, "checks", found)
    object.__setattr__(tool, "hiding", tuple(check for check in found.values() if check.may_hide))


def _grounds() -> dict[str, object]:
    """Read the dependencies of each kind's tools, by the kind's name."""
    return {kind.name: kind.read() for kind in KINDS.values()}


def _compile(row: McpToolDefinition, basis: Basis, additions: Additions) -> _Compiled:
    definition = unchanged = definition_of(row)
    for each in additions:
        definition = each.definition(definition)
    return _Compiled(
        definition,
        schemas.compile(definition["inputSchema"] if additions else row.input_schema),
        schemas.compile(row.output_schema) if row.output_schema else None,
        envelope.param_headers(row.input_schema),
        basis.make(),
        unchanged if additions else None,
    )


def _added_to(backend: base.Backend, additions: Additions) -> base.Backend:
    for each in additions:
        backend = each.backend(backend)
    return backend


def _as_judged(past: dict[str, Any], now: dict[str, Any]) -> dict[str, Any]:
    """Return a past definition with the effects and tags by which rules of now judge: the graver of both."""
    was, is_now = past["annotations"], now["annotations"]
    milder = {name: was.get(name) is True and is_now.get(name) is True for name in ("readOnlyHint", "idempotentHint")}
    graver = {name: True in (was.get(name), is_now.get(name)) for name in ("destructiveHint", "openWorldHint")}
    seen = {**past, "annotations": {**was, **milder, **graver}}
    if tags := list(dict.fromkeys([*tags_of(now), *tags_of(past)])):
        seen["_meta"] = {**past.get("_meta", {}), "tags": tags}
    return seen


def _effect(row: McpToolDefinition, digest: str, basis: Basis, backend: base.Backend) -> str:
    sent: list[Json] = [[name, fingerprint_of(name)] for name in sorted(basis.secrets(backend))]
    return json.digest(json.canonical([digest, row.retry_safe, row.workspace_id, basis.place, sent]))


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
                title=row.title,
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
    """Read a toolset's linked rows without their content."""
    from tools_catalog.models import McpToolset

    model: Any = McpToolset._meta.get_field(relation).related_model
    return Prefetch(relation, model.objects.only(column))
