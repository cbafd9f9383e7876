"""Resources and prompts as requests see them: immutable snapshots, each replaced whole when the database moves.

Like `catalog.Catalog` for tools. Nothing here touches the database but the two `load`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeVar

from sessions_app.kit.fields import readable_rows
from sessions_app.protocol import directions, json, shapes, uritemplate
from sessions_app.protocol.errors import PromptNotFound
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace, owner_of
from sessions_app.workspaces.models import read_workspaces
from tools_catalog.backends import sources
from tools_catalog.backends.upstream_content import Source, UpstreamCompletion, UpstreamContents, UpstreamMessages
from tools_catalog.catalog.additions import read_prompts, read_resources
from tools_catalog.catalog.listing import Audience, Listing, is_visible
from tools_catalog.catalog.selection import Alias
from tools_catalog.models.shown import read_sights
from tools_catalog.upstream import pool
from tools_catalog.upstream.sights import Sight, Sights

if TYPE_CHECKING:
    from django.db.models import Model, QuerySet

    from tools_catalog.models import McpPrompt, McpResource

logger = logging.getLogger(__name__)

_Row = TypeVar("_Row", bound="Model")
_Made = TypeVar("_Made")
_ReadSights = Callable[[], dict[int, Sights]]
_ReadWorkspaces = Callable[[], Mapping[int, Workspace]]


@dataclass(frozen=True, slots=True, kw_only=True)
class OfferedResource:
    """One resource, or all that one template names."""

    uri: str
    template: uritemplate.UriTemplate | None
    digest: str
    enabled: bool
    groups: frozenset[int]
    timeout_seconds: float
    definition: dict[str, Any]
    """The Resource or ResourceTemplate object in its newest form."""
    contents: sources.Contents
    completions: Mapping[str, sources.Completion]
    connection: str | None = None
    """The upstream that it is read at."""
    sight: Sight | None = None
    workspace: Workspace | None = None
    is_listed: bool = True
    """Whether lists include it. A read finds it either way."""
    part_of: str = ""
    """The URI of the resource that toolsets choose it with; empty: its own."""
    toolsets: frozenset[str] = frozenset()
    """Toolsets with a choice of their own that have it, besides those that choose it."""

    def is_chosen(self, choice: Callable[[str], bool], toolset: str) -> bool:
        return toolset in self.toolsets or choice(self.part_of or self.uri)


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    name: str
    digest: str
    enabled: bool
    groups: frozenset[int]
    timeout_seconds: float
    definition: dict[str, Any]
    messages: sources.Messages
    completions: Mapping[str, sources.Completion]
    connection: str | None = None
    sight: Sight | None = None
    workspace: Workspace | None = None
    toolsets: frozenset[str] = frozenset()
    """Toolsets with a choice of their own that have it, besides those that choose it."""


class Resources:
    """All resources and templates at one moment."""

    def __init__(self, resources: Iterable[OfferedResource] = (), scope: str = "") -> None:
        """`scope` keeps cursors of one choice apart from those of another."""
        self._all = {resource.uri: resource for resource in resources}
        self.has_upstreams = any(isinstance(one.contents, UpstreamContents) for one in self._all.values())
        self.states = {
            uri: (one.digest, one.enabled, one.groups, one.sight, one.workspace, one.toolsets)
            for uri, one in self._all.items()
        }
        """The facts that a list of them depends on."""
        self.listing = Listing(
            "resources",
            {uri: one for uri, one in self._all.items() if one.template is None and one.is_listed},
            shapes.resource_for,
            scope,
        )
        templates = {uri: one for uri, one in self._all.items() if one.template is not None}
        self.templates = Listing("resourceTemplates", templates, shapes.template_for, scope)
        # Where several templates match, the one that says most literally has the say.
        self._templates = sorted(templates.values(), key=_by_say)

    def chosen(self, choice: Callable[[str], bool], scope: str) -> Resources:
        """Return those with a URI, or template, in a choice of a toolset."""
        return Resources((one for one in self._all.values() if one.is_chosen(choice, scope)), scope)

    def entries(self) -> Iterable[OfferedResource]:
        """Return all, for any caller: also disabled ones."""
        return self._all.values()

    def find(self, uri: str, caller: Audience) -> tuple[OfferedResource, dict[str, str]] | None:
        """Return the resource of a URI, with the values of its template's variables; None also for hidden ones."""
        exact = self._all.get(uri)
        if exact is not None and exact.template is None:
            return (exact, {}) if exact.enabled and is_visible(exact, caller) else None
        for resource in self._templates:
            if resource.enabled and is_visible(resource, caller):
                assert resource.template is not None
                values = resource.template.match(uri)
                if values is not None:
                    return resource, values
        return None

    def upstream_of(self, uri: str) -> str | None:
        """Return the name of the connection with the resource of the URI, regardless of visibility; None for the
        hub's own.
        """
        found = self._all.get(uri)
        if found is None or found.template is not None:
            matching = (
                one for one in self._templates if one.template is not None and one.template.match(uri) is not None
            )
            found = next(matching, None)
        contents = found.contents if found is not None and found.enabled else None
        return contents.source.connection if isinstance(contents, UpstreamContents) else None

    def template(self, text: str, caller: Audience) -> OfferedResource | None:
        """Return the resource or template that has this very text as its URI."""
        found = self._all.get(text)
        return found if found is not None and found.enabled and is_visible(found, caller) else None

    def changed_since(self, before: Resources) -> list[OfferedResource]:
        """Return the resources with possibly changed content: added, removed, switched or edited ones."""

        if self is before:
            return []

        def states(one: Resources) -> dict[str, object]:
            return {uri: (resource.digest, resource.enabled) for uri, resource in one._all.items()}

        was, now = states(before), states(self)
        changed = [uri for uri in was.keys() | now.keys() if was.get(uri) != now.get(uri)]
        return [self._all.get(uri) or before._all[uri] for uri in sorted(changed)]

    @classmethod
    def load(cls) -> Resources:
        """Read the resources. One that cannot be served is left out and logged."""
        from tools_catalog.models import McpResource

        sights, workspaces = cache(read_sights), cache(read_workspaces)
        rows = _made(_rows(McpResource).order_by("uri"), lambda row: _resource(row, sights, workspaces))
        return cls([*rows, *read_resources()])


class Prompts:
    """All prompts at one moment."""

    def __init__(self, prompts: Iterable[Prompt] = (), aliases: Iterable[Alias] = (), scope: str = "") -> None:
        self._all = {prompt.name: prompt for prompt in prompts}
        self._aliases = {alias.name: alias for alias in aliases}
        self.states = {
            name: (prompt.digest, prompt.enabled, prompt.groups, prompt.sight, prompt.workspace, prompt.toolsets)
            for name, prompt in self._all.items()
        }
        """The facts that a list of them depends on."""
        self.listing = Listing("prompts", self._all, shapes.prompt_for, scope)

    def chosen(self, choice: Callable[[str], bool], scope: str) -> Prompts:
        """Return those with a name in a choice of a toolset."""
        chosen = (one for name, one in self._all.items() if scope in one.toolsets or choice(name))
        return Prompts(chosen, self._aliases.values(), scope)

    def find(self, name: str, caller: Audience) -> Prompt:
        """Return the prompt of the name, or of the former name; raise PromptNotFound, for hidden ones too."""
        found = self._all.get(name)
        if found is None and (alias := self._aliases.get(name)) is not None and alias.is_live:
            found = self._all.get(alias.leads_to)
        if found is None or not found.enabled or not is_visible(found, caller):
            raise PromptNotFound(
                f"There is no prompt named {json.dumps(name[:100]).decode()}. Ask prompts/list for the names.",
                prompt=name[:100],
            )
        return found

    @classmethod
    def load(cls) -> Prompts:
        """Read the prompts. One that cannot be served is left out and logged."""
        from tools_catalog.models import McpAlias, McpPrompt

        former = McpAlias.objects.live().filter(prompt__isnull=False)
        aliases = [Alias(*row) for row in former.values_list("name", "prompt__name", "expires_at")]
        sights, workspaces = cache(read_sights), cache(read_workspaces)
        rows = _made(_rows(McpPrompt).order_by("name"), lambda row: _prompt(row, sights, workspaces))
        return cls([*read_prompts(), *rows], aliases)


def _by_say(resource: OfferedResource) -> tuple[int, str]:
    assert resource.template is not None
    return -resource.template.fixed_characters, resource.uri


def _rows(model: type[_Row]) -> QuerySet[_Row]:
    return model._default_manager.prefetch_related("groups").select_related("upstream_offer__connection")


def _made(rows: QuerySet[_Row], make: Callable[[_Row], _Made]) -> list[_Made]:
    made = []
    for row in readable_rows(rows):
        try:
            made.append(make(row))
        except Exception:
            logger.exception("%s %s cannot be served and is left out", type(row).__name__, row)
    return made


def _resource(row: McpResource, sights: _ReadSights, workspaces: _ReadWorkspaces) -> OfferedResource:
    template = uritemplate.parse(row.uri) if row.is_template else None
    static = row.backend not in ("python", "upstream")
    source = _source(row) if row.backend == "upstream" else None
    definition: dict[str, Any] = {"uriTemplate" if template else "uri": row.uri, **_words(row)}
    definition["name"] = directions.plain(row.name)  # clients show it where there is no title
    if row.mime_type:
        definition["mimeType"] = row.mime_type
    if row.annotations:
        definition["annotations"] = row.annotations
    if static and template is None:
        definition["size"] = _size(row)
    contents: sources.Contents
    if static:
        contents = sources.StaticContents(
            row.content, row.mime_type, is_blob=row.backend == "blob", variables=template.names if template else ()
        )
    elif source is not None:
        contents = UpstreamContents(source, is_apart=row.uri != row.upstream_offer.upstream_name)
    else:
        contents = sources.FunctionContents(row.function, row.mime_type)
    variables = template.names if template is not None else ()
    return OfferedResource(
        uri=row.uri,
        template=template,
        definition=directions.plain_words(definition),
        contents=contents,
        **_shared(row, source, variables, sights, workspaces),
    )


def _prompt(row: McpPrompt, sights: _ReadSights, workspaces: _ReadWorkspaces) -> Prompt:
    definition = _words(row)
    if row.arguments:
        definition["arguments"] = row.arguments
    messages: sources.Messages
    source = _source(row) if row.backend == "upstream" else None
    if source is not None:
        messages = UpstreamMessages(source)
    elif row.backend == "python":
        messages = sources.FunctionMessages(row.function)
    else:
        messages = sources.StaticMessages(row.messages, frozenset(argument["name"] for argument in row.arguments))
    names = [argument["name"] for argument in row.arguments]
    return Prompt(
        name=row.name,
        definition=directions.plain_words(definition),
        messages=messages,
        **_shared(row, source, names, sights, workspaces),
    )


def _words(row: McpResource | McpPrompt) -> dict[str, Json]:
    words = {
        "name": row.name,
        "title": row.title,
        "description": row.description,
        "icons": row.icons,
        "_meta": row.meta,
    }
    return {name: value for name, value in words.items() if value}


def _shared(
    row: McpResource | McpPrompt,
    source: Source | None,
    variables: Iterable[str],
    sights: _ReadSights,
    workspaces: _ReadWorkspaces,
) -> dict[str, Any]:
    completions = sources.completions_of(row.completions)
    enabled = row.enabled
    if source is not None:
        completions = {name: UpstreamCompletion(source, name) for name in variables} | completions
        connection = row.upstream_offer.connection
        enabled = enabled and connection.enabled and not row.upstream_offer.is_withheld(connection)
    return {
        "digest": row.digest(),
        "enabled": enabled,
        "groups": frozenset(group.pk for group in row.groups.all()),
        "timeout_seconds": row.timeout_seconds,
        "completions": completions,
        "connection": source.connection if source is not None else None,
        "sight": _sight(row, source, sights) if source is not None else None,
        "workspace": owner_of(row.workspace_id, workspaces),
    }


def _sight(row: McpResource | McpPrompt, source: Source, sights: _ReadSights) -> Sight | None:
    """Return the callers that the upstream shows it to; None if it is the same for everybody."""
    connection = row.upstream_offer.connection
    if not connection.lists_differ:
        return None
    offer = source.offer
    return Sight(sights().get(connection.pk, {}), offer.kind, offer.name, offer.approval)


def _source(row: McpResource | McpPrompt) -> Source:
    """Return where an upstream's row is read; raises where it was never approved."""
    offer, connection = row.upstream_offer, row.upstream_offer.connection
    approval = pool.Approval(
        offer.approved_digest,
        offer.approved_schema_digest,
        connection.keeps_serving,
        connection.policy == connection.Policy.TRUST,
    )
    return Source(connection.slug, pool.Offer(offer.kind, offer.upstream_name, approval), pool.here)


def _size(row: McpResource) -> int:
    """Bytes of the content before base64 (MCP, Resources, size)."""
    if row.backend == "blob":
        return int(len(row.content) * 3 // 4 - row.content[-2:].count("="))
    return len(str(row.content).encode())
