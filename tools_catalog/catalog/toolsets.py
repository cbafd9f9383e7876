"""Toolsets as calls see them. A large one shows three tools that search, describe and call its others.

What `call_tool` wraps is taken out before the call is made, so limits, validation and audit are those of the real
tool. Search and description are calls like any other, with a row each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any
from weakref import WeakKeyDictionary

from sessions_app.protocol import json, mcp_apps, schemas
from sessions_app.protocol.errors import ExecutionError, InvalidRequest
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace
from tools_catalog.call.base import ToolResult
from tools_catalog.call.content import text_block
from tools_catalog.call.context import ToolContext
from tools_catalog.catalog.listing import Audience
from tools_catalog.catalog.offers import Prompts, Resources
from tools_catalog.catalog.searching import Index
from tools_catalog.catalog.selection import Alias, Selection, Tool

SEARCH, DESCRIBE, CALL = "search_tools", "describe_tool", "call_tool"
DEFAULT_FOUND, MOST_FOUND = 10, 25
_LONGEST_DESCRIPTION = 300
"""Characters of each description among what was found; the whole is described on demand."""

_DEFINITIONS: dict[str, dict[str, Any]] = {
    SEARCH: {
        "name": SEARCH,
        "title": "Search tools",
        "description": (
            "Find tools by what they do. There are more tools than are listed: search before you say that something "
            "cannot be done. Then describe_tool tells the arguments of one, and call_tool calls it."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "query": {
                    "type": "string",
                    "minLength": 1,
                    "maxLength": 500,
                    "description": "A few words for what is to be done, such as: merge pull request.",
                },
                "limit": {
                    "type": "integer",
                    "minimum": 1,
                    "maximum": MOST_FOUND,
                    "default": DEFAULT_FOUND,
                    "description": "How many tools to give.",
                },
            },
            "required": ["query"],
            "additionalProperties": False,
        },
        "outputSchema": {
            "type": "object",
            "properties": {
                "tools": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string"},
                            "title": {"type": "string"},
                            "description": {"type": "string"},
                            "readOnly": {"type": "boolean"},
                        },
                        "required": ["name", "description"],
                    },
                },
                "found": {"type": "integer", "description": "How many tools match in all."},
            },
            "required": ["tools", "found"],
        },
    },
    DESCRIBE: {
        "name": DESCRIBE,
        "title": "Describe a tool",
        "description": "Tell all of one tool that search_tools found: what it does, and the schema of its arguments.",
        "inputSchema": {
            "type": "object",
            "properties": {"name": {"type": "string", "maxLength": 128, "description": "The tool's name, as found."}},
            "required": ["name"],
            "additionalProperties": False,
        },
    },
    CALL: {
        "name": CALL,
        "title": "Call a tool",
        "description": "Call a tool that search_tools found, with arguments by the schema that describe_tool gives.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "maxLength": 128, "description": "The tool's name, as found."},
                "arguments": {"type": "object", "description": "Its arguments.", "default": {}},
            },
            "required": ["name"],
            "additionalProperties": False,
        },
    },
}
_WHERE_NAMES_ARE = f"Find the names with {SEARCH}."
_READS = {"readOnlyHint": True, "destructiveHint": False, "idempotentHint": True, "openWorldHint": False}
_WRITES = {"readOnlyHint": False, "destructiveHint": True, "idempotentHint": False, "openWorldHint": True}


class ToolsetNotFound(InvalidRequest):
    """Also what a caller hears of a toolset that is hidden from it or switched off."""

    sentence = "There is no toolset at this address. Ask the hub's operator for the address, or use /mcp."
    http_status = 404


class WorkspaceNotFound(InvalidRequest):
    """Also what a caller hears of a workspace that it does not belong to."""

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
        reads: ReadChoice | None = None,
        calls: Mapping[str, int] | None = None,
        before: Toolset | None = None,
    ) -> None:
        """`reads`: which prompts and resources are in it; None: all of the hub. `calls`: of each tool lately.

        `before`: what it was in the snapshot before, whose index serves on if no tool has changed.
        """
        self._calls = calls or {}
        self.reads = reads
        self._prompts: WeakKeyDictionary[Prompts, Prompts] = WeakKeyDictionary()
        self._resources: WeakKeyDictionary[Resources, Resources] = WeakKeyDictionary()
        self.slug = slug
        self.groups = groups
        self.workspace = workspace
        self.instructions = words
        if searches:
            self.where_names_are = _WHERE_NAMES_ARE
        self._meta = {name: _meta_tool(definition) for name, definition in _DEFINITIONS.items()} if searches else {}
        super().__init__(tools, aliases=aliases, listed=self._meta if searches else None, scope=slug)
        definitions = {name: tool.definition for name, tool in self.tools.items()}
        self._views = {mcp_apps.view_of(definition.get("_meta")) for definition in definitions.values()} - {""}
        self._index: Index | None = None
        if searches:
            known = before._index if before is not None else None
            self._index = known if known is not None and known.is_of(definitions) else Index(definitions)

    def prompts_of(self, snapshot: Prompts) -> Prompts:
        """Give the prompts of the hub that are in it."""
        if self.reads is None:
            return snapshot
        found = self._prompts.get(snapshot)
        if found is None:
            found = self._prompts[snapshot] = snapshot.chosen(self.reads.has_prompt, self.slug)
        return found

    def resources_of(self, snapshot: Resources) -> Resources:
        """Give the resources of the hub that are in it."""
        if self.reads is None:
            return snapshot
        found = self._resources.get(snapshot)
        if found is None:
            found = self._resources[snapshot] = snapshot.chosen(self._has_resource, self.slug)
        return found

    def _has_resource(self, uri: str) -> bool:
        """Whether it was chosen, or is the view of a tool that was."""
        return self.reads is None or self.reads.has_resource(uri) or uri in self._views

    @property
    def searching(self) -> tuple[str, ...]:
        """Names of the tools that search, describe and call the others; empty where these are listed."""
        return tuple(self._meta)

    def is_search(self, tool: Tool) -> bool:
        """Whether a tool only looks for others, or tells of one."""
        return tool.name in (SEARCH, DESCRIBE) and isinstance(tool.backend, _Finder)

    def meant(self, arguments: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """Give name and arguments of the call that `call_tool` wraps in these; None where they are not well-formed."""
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

    def offered(self, caller: Audience) -> Mapping[str, Tool]:
        """Give the tools that the caller's model may call."""
        return {
            name: tool
            for name, tool in self.tools.items()
            if tool.enabled and tool.is_for_models and tool.visible_to(caller)
        }

    def search(self, query: str, limit: int, caller: Audience) -> dict[str, Json]:
        assert self._index is not None
        offered = self.offered(caller)
        found = [offered[name] for name in self._index.rank(query, self._calls) if name in offered]
        return {"tools": [_brief(tool) for tool in found[:limit]], "found": len(found)}

    def describe(self, name: str, caller: Audience) -> dict[str, Json]:
        tool = self.offered(caller).get(self.real_name(name))
        if tool is None:
            shown = json.dumps(name).decode()
            raise ExecutionError(f"There is no tool named {shown}. {_WHERE_NAMES_ARE}", tool=name)
        return tool.definition


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
            found = self._toolset.search(arguments["query"], limit, self._caller)
        else:
            found = self._toolset.describe(arguments["name"], self._caller)
        return ToolResult(content=[text_block(json.dumps(found).decode())], structured=found)

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
