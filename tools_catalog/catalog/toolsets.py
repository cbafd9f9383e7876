"""Toolsets as calls see them. A large one shows three tools that search, describe and call its others.

`call_tool` is unwrapped before the call is made, so limits, validation and audit are those of the real tool. Search
and description are calls like any other, with a row each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakKeyDictionary

from sessions_app.protocol import json, mcp_apps, schemas, shapes
from sessions_app.protocol.errors import (
    ArgumentsInvalid,
    ExecutionError,
    HubError,
    InvalidRequest,
    ToolDisabled,
    ToolNotFound,
)
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace
from tools_catalog.call.base import ToolResult
from tools_catalog.call.content import text_block
from tools_catalog.call.context import ToolContext
from tools_catalog.catalog.closeness import closest, fused
from tools_catalog.catalog.listing import Audience, Listing
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.catalog.overview import overview
from tools_catalog.catalog.search_definitions import CALL, DEFAULT_FOUND, DEFINITIONS, DESCRIBE, MOST_CHECKED, SEARCH
from tools_catalog.catalog.searching import EXAMPLES, Index
from tools_catalog.catalog.selection import Alias, Selection, Tool

_MOST_LISTS = 100
_LONGEST_DESCRIPTION = 300
"""Characters of each description in search results; the whole is available on demand."""

_WHERE_NAMES_ARE = f"Find the names with {SEARCH}."
_READS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_WRITES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


def _searched(tool: Tool) -> Mapping[str, Any]:
    """Return a tool's definition as the search reads it: with the examples that features add."""
    added = [example for addition in tool.additions for example in addition.examples]
    if not added:
        return tool.definition
    meta = tool.definition.get("_meta", {})
    own = meta.get(EXAMPLES)
    return {**tool.definition, "_meta": {**meta, EXAMPLES: [*(own if isinstance(own, list) else ()), *added]}}


class ToolsetNotFound(InvalidRequest):
    """Also the answer for a toolset that is hidden or disabled."""

    sentence = "There is no toolset at this address. Ask the hub's operator for the address, or use /mcp."
    http_status = 404


class WorkspaceNotFound(InvalidRequest):
    """Also the answer for a workspace that the caller does not belong to."""

    sentence = (
        "There is no workspace at this address, or you do not belong to it. Ask the hub's operator for the address, or "
        "use /mcp."
    )
    http_status = 404


@dataclass(frozen=True, slots=True)
class ReadChoice:
    """Which prompts and resources a toolset has: those named, and those that match."""

    prompts: frozenset[str] = frozenset()
    resources: frozenset[str] = frozenset()
    patterns: tuple[str, ...] = ()

    def has_prompt(self, name: str) -> bool:
        return name in self.prompts or matches(name, self.patterns)

    def has_resource(self, uri: str) -> bool:
        return uri in self.resources or matches(uri, self.patterns)


class Toolset(Selection):
    """One toolset at one moment."""

    def __init__(
        self,
        slug: str,
        tools: Iterable[Tool],
        *,
        aliases: Iterable[Alias] = (),
        groups: frozenset[int],
        workspace: Workspace | None = None,
        searches: bool,
        words: str,
        title: str = "",
        reads: ReadChoice | None = None,
        calls: Mapping[str, int] | None = None,
        before: Toolset | None = None,
    ) -> None:
        """`reads`: which prompts and resources are in it; None: all of the hub. `calls`: of each tool lately.

        `before`: the previous snapshot's, whose index is reused if no tool has changed.
        """
        self._calls = calls or {}
        self.reads = reads
        self._prompts: WeakKeyDictionary[Prompts, Prompts] = WeakKeyDictionary()
        self._resources: WeakKeyDictionary[Resources, Resources] = WeakKeyDictionary()
        self.slug = slug
        self.groups = groups
        self.workspace = workspace
        self.instructions = words
        self.title = title
        if searches:
            self.where_names_are = _WHERE_NAMES_ARE
        self._lists: dict[str, Listing] = {}
        """The list with each overview that a caller was shown."""
        self._meta = {name: _meta_tool(definition) for name, definition in DEFINITIONS.items()} if searches else {}
        super().__init__(tools, aliases=aliases, listed=self._meta if searches else None, scope=slug)
        definitions = {name: tool.definition for name, tool in self.tools.items()}
        self._views = {mcp_apps.view_of(definition.get("_meta")) for definition in definitions.values()} - {""}
        self._index: Index | None = None
        if searches:
            known = before._index if before is not None else None
            searched = {name: _searched(tool) for name, tool in self.tools.items()}
            self._index = known if known is not None and known.is_of(searched) else Index(searched)

    def listing(self, caller: Audience, *, shows_views: bool) -> Listing:
        if not self._meta:
            return super().listing(caller, shows_views=shows_views)
        words = self.overview(caller)
        found = self._lists.get(words)
        if found is None:
            if len(self._lists) >= _MOST_LISTS:
                self._lists.clear()
            search = self._meta[SEARCH]
            described = {**search.definition, "description": f"{search.definition['description']} {words}".strip()}
            entries = {**self._meta, SEARCH: replace(search, definition=described)}
            found = Listing("tools", entries, shapes.tool_for, self.slug, varies=self._varies)
            self._lists[words] = found
        return found

    def instructions_for(self, caller: Audience) -> str:
        return f"{self.instructions}\n\n{self.overview(caller)}".strip() if self._meta else self.instructions

    def overview(self, caller: Audience) -> str:
        """Return a short overview of the tools that the caller's model may call, and of no others."""
        return overview(self.offered(caller), self._calls)

    @property
    def _varies(self) -> bool:
        """Whether callers may see different tools."""
        return any(tool.groups or tool.hiding or tool.sight or tool.workspace for tool in self.tools.values())

    def prompts_of(self, snapshot: Prompts) -> Prompts:
        """Return the prompts of the hub that are in it."""
        if self.reads is None:
            return snapshot
        found = self._prompts.get(snapshot)
        if found is None:
            found = self._prompts[snapshot] = snapshot.chosen(self.reads.has_prompt, self.slug)
        return found

    def resources_of(self, snapshot: Resources) -> Resources:
        """Return the resources of the hub that are in it."""
        if self.reads is None:
            return snapshot
        found = self._resources.get(snapshot)
        if found is None:
            found = self._resources[snapshot] = snapshot.chosen(self._has_resource, self.slug)
        return found

    def _has_resource(self, uri: str) -> bool:
        """Return whether it was chosen, or is the view of a tool that was."""
        return self.reads is None or self.reads.has_resource(uri) or uri in self._views

    @property
    def searching(self) -> tuple[str, ...]:
        """Names of the tools that search, describe and call the others; empty where these are listed."""
        return tuple(self._meta)

    def is_search(self, tool: Tool) -> bool:
        """Return whether a tool only searches for others, or describes one."""
        return tool.name in (SEARCH, DESCRIBE) and isinstance(tool.backend, _Finder)

    def meant(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Return name and arguments of the call that `call_tool` wraps in these; None where they are not
        well-formed.
        """
        if not self._meta or not self._meta[CALL].arguments.is_valid(arguments):
            return None
        return self.real_name(arguments["name"]), arguments.get("arguments", {})

    def find(self, name: str, caller: Audience) -> Tool:
        meta = self._meta.get(name)
        if meta is None:
            return super().find(name, caller)
        return replace(meta, backend=_Finder(self, name, caller))

    def unwrapped_call(self, params: dict[str, Json]) -> dict[str, Json]:
        if params.get("name") != CALL or not self._meta:
            return params
        wrapped = params.get("arguments")
        # What is not well-formed stays a call of `call_tool`, whose schema says what is wrong.
        if not isinstance(wrapped, dict) or not self._meta[CALL].arguments.is_valid(wrapped):
            return params
        return {**params, "name": wrapped["name"], "arguments": wrapped.get("arguments", {})}

    async def searched(self, query: str, limit: int, caller: Audience) -> dict[str, Json]:
        """Return the tools that a search finds by words and by the orders of features, which a tool's own name needs
        not."""
        offered = self.offered(caller)
        orders = [] if query.strip() in offered else await closest(query, self, offered, caller)
        return self.search(query, limit, caller, orders)

    def search(self, query: str, limit: int, caller: Audience, orders: Sequence[Sequence[str]] = ()) -> dict[str, Json]:
        """Return the tools that a search finds, the best first. `orders`: names in further orders, to be fused."""
        assert self._index is not None
        offered = self.offered(caller)
        found = [offered[name] for name in fused(self._index.rank(query, self._calls), orders) if name in offered]
        unmatched = self._index.unmatched(query, offered)
        return {
            "tools": [_brief(tool) for tool in found[:limit]],
            "found": len(found),
            **({"unmatched": unmatched} if unmatched else {}),
        }

    def described(self, name: str, caller: Audience) -> Tool:
        """Return the tool that a caller's model asks about; raise ExecutionError for one that is not there."""
        tool = self.offered(caller).get(self.real_name(name))
        if tool is None:
            shown = json.dumps(name).decode()
            raise ExecutionError(f"There is no tool named {shown}. {_WHERE_NAMES_ARE}", tool=name)
        return tool

    async def check(self, names: Iterable[str], caller: Audience, context: ToolContext) -> list[dict[str, Json]]:
        """Return for each name whether the caller may call the tool now. A hidden tool is one that is not there."""
        found: dict[str, Tool | HubError] = {}
        for name in names:
            try:
                tool = found[name] = super().find(name, caller)
                if not tool.is_for_models:
                    found[name] = self._missing(name, None)
            except (ToolNotFound, ToolDisabled) as error:
                found[name] = error.parted()
        tools = [tool for tool in found.values() if isinstance(tool, Tool)]
        verdicts = iter(await context.permissions.of(tools))
        return [
            {"name": name, **(next(verdicts) if isinstance(each, Tool) else refused(each))}
            for name, each in found.items()
        ]


def refused(error: HubError) -> dict[str, Json]:
    """Return the verdict on a tool whose call would end with this error now."""
    return {"verdict": "no", "code": error.code, "why": error.message}


class _Finder:
    """Carries out one of the three for one caller."""

    def __init__(self, toolset: Toolset, name: str, caller: Audience) -> None:
        self._toolset = toolset
        self._name = name
        self._caller = caller

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        if self._name == CALL:
            raise ExecutionError(f"{CALL} does not call itself. Give it the name of a tool that {SEARCH} found.")
        if self._name == SEARCH:
            limit = int(arguments.get("limit", DEFAULT_FOUND))
            found = await self._toolset.searched(arguments["query"], limit, self._caller)
        else:
            found = await self._described(arguments, context)
        return ToolResult(content=[text_block(json.dumps(found).decode())], structured=found)

    async def _described(self, arguments: dict[str, Json], context: ToolContext) -> dict[str, Json]:
        name, names = arguments.get("name"), arguments.get("check")
        if name is None and not names:
            raise ArgumentsInvalid(f"{DESCRIBE} needs name, or check with names of up to {MOST_CHECKED} tools.")
        found = {} if name is None else context.permissions.shown(self._toolset.described(name, self._caller))
        return {**found, "checked": await self._toolset.check(names, self._caller, context)} if names else found

    async def aclose(self) -> None:
        pass


def _brief(tool: Tool) -> dict[str, Json]:
    definition = tool.definition
    words = definition["description"]
    if len(words) > _LONGEST_DESCRIPTION:
        words = words[:_LONGEST_DESCRIPTION] + "…"
    title = {"title": definition["title"]} if definition.get("title") else {}
    return {"name": tool.name, **title, "description": words, "readOnly": tool.read_only}


def _meta_tool(definition: dict[str, Json]) -> Tool:
    reads = definition["name"] != CALL
    definition = {**definition, "annotations": {"title": definition["title"], **(_READS if reads else _WRITES)}}
    output = definition.get("outputSchema")
    return Tool(
        name=definition["name"],
        version="1",
        digest=json.digest(json.canonical(definition)),
        enabled=True,
        groups=frozenset(),
        read_only=True,
        retry_safe=True,
        timeout_seconds=30.0,
        calls_per_minute=None,
        definition=definition,
        arguments=schemas.compile(definition["inputSchema"]),
        result=schemas.compile(output) if output else None,
        param_headers=(),
        backend=_NOWHERE,
    )


class _Nowhere:
    """Stands in a tool that is bound to its caller when it is found."""

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        raise NotImplementedError

    async def aclose(self) -> None:
        pass


_NOWHERE = _Nowhere()


def matches(name: str, patterns: Iterable[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)
