"""Which tools of the catalogue a model may call in a turn: those that the caller may call, and that the request or the
key's settings ask for.

An `mcp` tool of a request names a server. Its `server_url` is a label that is looked up; it is never dialled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from mcphub.features.chat.errors import ChatError, invalid
from mcphub.process import address
from sessions_app.caller import Caller
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Catalog, Tool
from tools_catalog.catalog.toolsets import Toolset, ToolsetNotFound

MOST_TOOLS = 128
"""OpenAI's bound on the functions of a request."""
HUB = "hub"
"""The label of the whole catalogue."""
_UNUSED = ("authorization", "headers", "server_description", "allowed_callers", "defer_loading")
"""Members that only the connecting side needs."""


@dataclass(frozen=True, slots=True)
class ToolMatcher:
    """A choice of tools: by name, by effect, or all."""

    names: frozenset[str] | None = None
    read_only: bool | None = None

    def fits(self, tool: Tool) -> bool:
        return (self.names is None or tool.name in self.names) and (
            self.read_only is None or tool.read_only == self.read_only
        )

    def renamed(self, real_name: Callable[[str], str]) -> ToolMatcher:
        """Return the same choice by the names that the tools have now."""
        return self if self.names is None else replace(self, names=frozenset(map(real_name, self.names)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestedServer:
    """One `mcp` tool of a request."""

    label: str
    """The client's own label, returned in the items."""
    target: str
    """The lookup name: `hub`, the name of a toolset or connection, or an address of one of them."""
    allowed: ToolMatcher = field(default_factory=ToolMatcher)
    always: tuple[ToolMatcher, ...] = ()
    """Calls that need an approval."""
    never: tuple[ToolMatcher, ...] = ()
    by_default: bool | None = None
    """Whether tools that no filter names need an approval; None if the request does not mention it."""

    def renamed(self, real_name: Callable[[str], str]) -> RequestedServer:
        """Return the same request with tools by the names that they have now."""
        return replace(
            self,
            allowed=self.allowed.renamed(real_name),
            always=tuple(each.renamed(real_name) for each in self.always),
            never=tuple(each.renamed(real_name) for each in self.never),
        )

    def needs_approval(self, tool: Tool, *, default: bool) -> bool:
        """`default`: the value if the request does not mention it. For Responses OpenAI's default is yes."""
        if any(each.fits(tool) for each in self.always):
            return True
        if any(each.fits(tool) for each in self.never):
            return False
        return default if self.by_default is None else self.by_default


def read_mcp_tool(tool: Mapping[str, Json], where: str) -> tuple[RequestedServer, list[str]]:
    """Return one `mcp` tool of a request and its members that are not used. `where`: its place in the request."""
    label = tool.get("server_label")
    if not isinstance(label, str) or not label:
        raise invalid(f"{where}.server_label", "An mcp tool needs server_label, a text.")
    for member in ("connector_id", "tunnel_id"):
        if tool.get(member) is not None:
            raise invalid(
                f"{where}.{member}",
                f'{member} is OpenAI\'s own. Name a server of the hub, or "{HUB}", in server_url.',
                openai_code="unsupported_parameter",
            )
    target = tool.get("server_url") or label
    if not isinstance(target, str):
        raise invalid(f"{where}.server_url", "server_url must be a text.")
    always, never, by_default = _approval(tool.get("require_approval"), f"{where}.require_approval")
    server = RequestedServer(
        label=label,
        target=target,
        allowed=_filter(tool.get("allowed_tools"), f"{where}.allowed_tools"),
        always=always,
        never=never,
        by_default=by_default,
    )
    return server, [f"{where}.{member}" for member in _UNUSED if tool.get(member) is not None]


def _filter(value: Json, where: str) -> ToolMatcher:
    if value is None:
        return ToolMatcher()
    if isinstance(value, list):
        value = {"tool_names": value}
    if not isinstance(value, dict):
        raise invalid(where, f"{where} must be a list of names or a filter.")
    names, read_only = value.get("tool_names"), value.get("read_only")
    if names is not None and not (isinstance(names, list) and all(isinstance(name, str) for name in names)):
        raise invalid(where, f"{where} must name tools by texts.")
    if read_only is not None and not isinstance(read_only, bool):
        raise invalid(where, f"{where}.read_only must be true or false.")
    return ToolMatcher(None if names is None else frozenset(names), read_only)


def _approval(value: Json, where: str) -> tuple[tuple[ToolMatcher, ...], tuple[ToolMatcher, ...], bool | None]:
    if value is None:
        return (), (), None
    if value == "always":
        return (), (), True
    if value == "never":
        return (), (), False
    if not isinstance(value, dict) or not value.keys() <= {"always", "never"}:
        raise invalid(where, f'{where} must be "always", "never", or an object of filters under these names.')
    filters = {name: (_filter(each, f"{where}.{name}"),) for name in ("always", "never") if (each := value.get(name))}
    return filters.get("always", ()), filters.get("never", ()), "never" in filters


# In the catalogue ---------------------------------------------------------------------------------


def tools_named(names: Iterable[str] | None) -> RequestedServer:
    """Return the selection of tools by name, or of all of them."""
    allowed = ToolMatcher() if names is None else ToolMatcher(frozenset(names))
    return RequestedServer(label="x_mcp.tools", target=HUB, allowed=allowed, by_default=False)


def usable(catalog: Catalog, caller: Caller) -> list[Tool]:
    """Return the tools that the caller's turns may use. One that is always a task lasts longer than a turn, and
    one that
    only views may call is none of the model's."""
    return [
        tool
        for tool in catalog.tools.values()
        if tool.enabled and tool.visible_to(caller) and tool.task_support != "required" and tool.is_for_models
    ]


@dataclass(slots=True)
class ChosenTools:
    """The tools available to a turn, by name, each with its first selector."""

    offered: dict[str, tuple[Tool, RequestedServer]] = field(default_factory=dict)
    """The tools in the model's list."""
    reached: dict[str, tuple[Tool, RequestedServer]] = field(default_factory=dict)
    """The tools it finds by searching, and calls by `call_tool`."""
    searched: Toolset | None = None
    """The toolset that it searches."""

    def needs_approval(self, tool: Tool, *, default: bool) -> bool:
        """Return whether the request demands approval for a tool's calls. To look for a tool needs no approval."""
        if self.searched is not None and self.searched.is_search(tool):
            return False
        found = self.offered.get(tool.name) or self.reached.get(tool.name)
        return found is not None and found[1].needs_approval(tool, default=default)

    def labels(self) -> dict[str, str]:
        """Return the label of the server of each tool."""
        return {name: server.label for name, (_, server) in {**self.reached, **self.offered}.items()}


def select(catalog: Catalog, caller: Caller, servers: Iterable[RequestedServer]) -> ChosenTools:
    """Return the tools that servers stand for; raise ChatError for missing ones, or too many.

    A toolset that is searched stands for its three tools, unless the request chooses among its tools.
    """
    servers = [server.renamed(catalog.real_name) for server in servers]
    found = ChosenTools()
    if not servers:
        return found
    if "tools:call" not in caller.scopes:
        raise ChatError("FORBIDDEN", "The key lacks the scope tools:call. Ask without tools.", param="tools")
    offered = usable(catalog, caller)
    labels: set[str] = set()
    for server in servers:
        if server.label in labels:
            raise invalid("tools", f"Two mcp tools have the label {server.label[:60]!r}.")
        labels.add(server.label)
        matching = {
            tool.name: tool for tool in _tools_of(server.target, offered, catalog, caller) if server.allowed.fits(tool)
        }
        missing = sorted((server.allowed.names or frozenset()) - matching.keys())
        if missing:
            where = "" if server.target == HUB else f" of {server.target[:100]}"
            raise ChatError(
                "TOOL_NOT_FOUND", f"There is no tool {missing[0][:100]!r}{where} for this key.", param="tools"
            )
        toolset = _searched(server, catalog, caller)
        for name, tool in matching.items():
            (found.offered if toolset is None else found.reached).setdefault(name, (tool, server))
        if toolset is not None:
            _offer_search(found, toolset, server, caller)
    check_count(len(found.offered))
    found.offered = dict(sorted(found.offered.items()))
    return found


def _searched(server: RequestedServer, catalog: Catalog, caller: Caller) -> Toolset | None:
    """Return the toolset that the model searches for a server; None if the tools themselves are listed."""
    if server.allowed != ToolMatcher() or server.target == HUB:
        return None
    try:
        toolset = catalog.toolset(_slug(server.target), caller)
    except ToolsetNotFound:
        return None
    return toolset if toolset.searching else None


def _offer_search(found: ChosenTools, toolset: Toolset, server: RequestedServer, caller: Caller) -> None:
    if found.searched is not None:
        raise invalid(
            "tools",
            f"The toolsets {found.searched.slug} and {toolset.slug} are searched, and a model can search one. Name one "
            "of them, or the tools that are needed in allowed_tools.",
        )
    found.searched = toolset
    for name in toolset.searching:
        if name in found.offered:
            raise invalid("tools", f"The hub has a tool {name}, and so has the toolset {toolset.slug}. Leave one out.")
        found.offered[name] = (toolset.find(name, caller), server)


def check_count(count: int) -> None:
    """Raise ChatError where these are more tools than a model takes."""
    if count > MOST_TOOLS:
        raise invalid(
            "tools", f"These are {count} tools, and a model takes {MOST_TOOLS} at most. Name those that are needed."
        )


def _tools_of(target: str, tools: list[Tool], catalog: Catalog, caller: Caller) -> list[Tool]:
    """Return those of the tools that a client may name by `target`: the hub, a toolset or a connection, by its name or
    address. Raise ChatError where nothing is known by it.

    A toolset precedes a connection of the same name: the operator created it for clients.
    """
    target = target.rstrip("/")
    if target == HUB:
        return tools
    if target in (address.endpoint(), address.public_url()):
        return tools
    # What exists but is hidden must look like what does not exist.
    slug = _slug(target)
    slugs = {slug for slug, spec in catalog.upstreams.specs.items() if target in (slug, spec.url.rstrip("/"))}
    found = _of_toolset(slug, tools, catalog, caller) or [tool for tool in tools if tool.connection in slugs]
    if not found:
        toolsets = [slug for slug in catalog.toolsets if _of_toolset(slug, tools, catalog, caller)]
        known = [HUB, *sorted({*toolsets, *(tool.connection for tool in tools if tool.connection)})]
        raise invalid(
            "tools",
            f"No server is known as {target[:100]!r}; the hub never connects to an address that a request brings. "
            f"Known: {', '.join(known)}.",
        )
    return found


def _slug(target: str) -> str:
    """Return the name of the toolset that a client may mean by its name or address."""
    return target.rstrip("/").removeprefix(f"{address.endpoint()}/s/")


def _of_toolset(slug: str, tools: list[Tool], catalog: Catalog, caller: Caller) -> list[Tool]:
    try:
        toolset = catalog.toolset(slug, caller)
    except ToolsetNotFound:
        return []
    return [tool for tool in tools if tool.name in toolset.tools]
