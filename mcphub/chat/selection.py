"""Which tools of the catalogue a model may call in a turn: those that the caller may call, and that the request or the
key's settings ask for."""

from __future__ import annotations

from collections.abc import Iterable

from mcphub import address
from mcphub.chat import servers
from mcphub.chat.errors import ChatError
from mcphub.chat.servers import Filter, Server
from sessions_app.caller import Caller
from tools_catalog.catalog import Catalog, Tool
from tools_catalog.toolsets import ToolsetNotFound

MOST_TOOLS = 128
"""OpenAI's bound on the functions of a request."""


def named(names: Iterable[str] | None) -> Server:
    """Give the selection of tools by name, or of all of them."""
    allowed = Filter() if names is None else Filter(frozenset(names))
    return Server(label="x_mcp.tools", target=servers.WHOLE, allowed=allowed, by_default=False)


def usable(catalog: Catalog, caller: Caller) -> list[Tool]:
    """Give the tools that the caller's turns may use. One that is always a task lasts longer than a turn."""
    return [
        tool
        for tool in catalog.tools.values()
        if tool.enabled and tool.visible_to(caller) and tool.task_support != "required"
    ]


def select(catalog: Catalog, caller: Caller, wanted: Iterable[Server]) -> dict[str, tuple[Tool, Server]]:
    """Give the tools by name, each with what asked for it first; raise ChatError for what is not there, or too many."""
    wanted = list(wanted)
    if not wanted:
        return {}
    if "tools:call" not in caller.scopes:
        raise ChatError("FORBIDDEN", "The key lacks the scope tools:call. Ask without tools.", param="tools")
    known = _Known(catalog, caller)
    chosen: dict[str, tuple[Tool, Server]] = {}
    labels: set[str] = set()
    for server in wanted:
        if server.label in labels:
            raise ChatError("INVALID_QUERY", f"Two mcp tools have the label {server.label[:60]!r}.", param="tools")
        labels.add(server.label)
        meant = {tool.name: tool for tool in known.behind(server.target) if server.allowed.fits(tool)}
        missing = sorted((server.allowed.names or frozenset()) - meant.keys())
        if missing:
            where = "" if server.target == servers.WHOLE else f" of {server.target[:100]}"
            raise ChatError(
                "TOOL_NOT_FOUND", f"There is no tool {missing[0][:100]!r}{where} for this key.", param="tools"
            )
        for name, tool in meant.items():
            chosen.setdefault(name, (tool, server))
    need_few(len(chosen))
    return dict(sorted(chosen.items()))


def need_few(count: int) -> None:
    """Raise ChatError where these are more tools than a model takes."""
    if count > MOST_TOOLS:
        raise ChatError(
            "INVALID_QUERY",
            f"These are {count} tools, and a model takes {MOST_TOOLS} at most. Name those that are needed.",
            param="tools",
        )


class _Known:
    """What a caller may name as a server: the hub, its toolsets, its connections; each by name or address."""

    def __init__(self, catalog: Catalog, caller: Caller) -> None:
        self._catalog = catalog
        self._caller = caller
        self._tools = usable(catalog, caller)

    def behind(self, target: str) -> list[Tool]:
        """Give the tools; raise ChatError where nothing is known by this name or address.

        A toolset comes before a connection of the same name: it is what the operator made for clients.
        """
        target = target.rstrip("/")
        endpoint = address.endpoint()
        if target in (servers.WHOLE, endpoint, address.public_url()):
            return self._tools
        # What exists but is hidden must look like what does not exist.
        found = self._of_toolset(target.removeprefix(f"{endpoint}/s/")) or self._of_connections(target)
        if not found:
            raise ChatError(
                "INVALID_QUERY",
                f"No server is known as {target[:100]!r}; the hub never connects to an address that a request brings. "
                f"Known: {', '.join(self._names())}.",
                param="tools",
            )
        return found

    def _of_toolset(self, slug: str) -> list[Tool]:
        try:
            toolset = self._catalog.toolset(slug, self._caller)
        except ToolsetNotFound:
            return []
        return [tool for tool in self._tools if tool.name in toolset.tools]

    def _of_connections(self, target: str) -> list[Tool]:
        specs = self._catalog.upstreams.specs.items()
        slugs = {slug for slug, spec in specs if target in (slug, spec.url.rstrip("/"))}
        return [tool for tool in self._tools if tool.connection in slugs]

    def _names(self) -> list[str]:
        toolsets = [slug for slug in self._catalog.toolsets if self._of_toolset(slug)]
        return [servers.WHOLE, *sorted({*toolsets, *(tool.connection for tool in self._tools if tool.connection)})]
