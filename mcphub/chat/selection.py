"""Which tools of the catalogue a model may call in a turn of chat completions: those that the caller may call, and
that the request or the key's settings ask for."""

from __future__ import annotations

from collections.abc import Iterable

from mcphub import address
from mcphub.chat.errors import ChatError
from mcphub.chat.responses import servers
from mcphub.chat.responses.servers import Filter, Server
from sessions_app.caller import Caller
from tools_catalog.catalog import Catalog, Tool

MOST_TOOLS = 128
"""OpenAI's bound on the functions of a request."""


def named(names: Iterable[str] | None) -> Server:
    """Give the selection of tools by name, or of all of them."""
    allowed = Filter() if names is None else Filter(frozenset(names))
    return Server(label=servers.WHOLE, target=servers.WHOLE, allowed=allowed, by_default=False)


def select(catalog: Catalog, caller: Caller, wanted: Iterable[Server]) -> dict[str, tuple[Tool, Server]]:
    """Give the tools by name, each with what asked for it; raise ChatError for what is not there, or too many."""
    wanted = list(wanted)
    if not wanted:
        return {}
    if "tools:call" not in caller.scopes:
        raise ChatError("FORBIDDEN", "The key lacks the scope tools:call. Ask without tools.", param="tools")
    # A tool that is always a task lasts longer than a turn.
    usable = [tool for tool in catalog.tools.values() if tool.visible_to(caller) and tool.task_support != "required"]
    connections = {slug: spec.url for slug, spec in catalog.upstreams.specs.items()}
    chosen = servers.choose(wanted, usable, connections, [address.endpoint(), address.public_url()])
    for server in wanted:
        missing = sorted((server.allowed.names or frozenset()) - chosen.keys())
        if missing:
            raise ChatError("TOOL_NOT_FOUND", f"There is no tool {missing[0][:100]!r} for this key.", param="tools")
    if len(chosen) > MOST_TOOLS:
        raise ChatError(
            "INVALID_QUERY",
            f"These are {len(chosen)} tools, and a model takes {MOST_TOOLS} at most. Name those that are needed in "
            "allowed_tools.",
            param="tools",
        )
    return dict(sorted(chosen.items()))
