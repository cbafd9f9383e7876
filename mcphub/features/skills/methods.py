"""`skills/list`, `skills/get` and `resources/directory/read` (MCP, io.modelcontextprotocol/skills)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from mcphub.features.skills.offered import OF_SKILLS, skills_of
from mcphub.server.results import hints, list_tail, listed, text
from sessions_app.protocol import json, revisions, shapes
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json
from sessions_app.workspaces.belonging import Workspace
from tools_catalog.catalog.listing import Listing, is_visible
from tools_catalog.catalog.offers import Resources
from tools_catalog.upstream.sights import Sight

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange, Result

DIRECTORY = "inode/directory"
_LONGEST_SHOWN = 200

_listings: WeakKeyDictionary[Resources, Listing] = WeakKeyDictionary()


async def skills_list(exchange: McpExchange, params: dict[str, Json]) -> Result:
    resources = exchange.resources()
    listing = _listings.get(resources)
    if listing is None:
        entries = {skill.uri: skill for skill in skills_of(resources)}
        listing = _listings[resources] = Listing("skills", entries, _whole, exchange.toolset)
    return listed(exchange, listing, params)


async def skills_get(exchange: McpExchange, params: dict[str, Json]) -> Result:
    caller = exchange.source.caller
    caller.need("tools:list")
    uri = text(params, "uri", "the URI of a skill's SKILL.md")
    found = exchange.resources().find(uri, caller)
    contents = None if found is None else found[0].contents
    if not isinstance(contents, OF_SKILLS) or contents.skill is None:
        raise InvalidParams(f"No skill is served at {uri[:_LONGEST_SHOWN]}. Ask skills/list for those that are.")
    skill = contents.skill
    is_public = not exchange.toolset and not skill.groups and skill.workspace is None and skill.sight is None
    return {"skill": skill.definition, **(hints(is_public=is_public) if exchange.revision.cache_hints else {})}


async def directory_read(exchange: McpExchange, params: dict[str, Json]) -> Result:
    """Return what one directory holds for the caller."""
    caller = exchange.source.caller
    caller.need("tools:list")
    uri = text(params, "uri", "the URI of a directory")
    resources = exchange.resources()
    children: dict[str, _Child] = {}
    for resource in resources.entries():
        is_file = isinstance(resource.contents, OF_SKILLS) and resource.template is None
        if not is_file or not resource.uri.startswith(f"{uri}/"):
            continue
        if resource.enabled and is_visible(resource, caller):
            name, is_deeper, _ = resource.uri.removeprefix(f"{uri}/").partition("/")
            at = f"{uri}/{name}"
            children[at] = _Child(_directory(at, name) if is_deeper else resource.definition)
    if not children:
        raise InvalidParams(f"{uri[:_LONGEST_SHOWN]} is no directory here. Ask for one without a slash at its end.")
    # The children are those that this caller sees, so another caller's cursor is not of this list.
    scope = json.digest(json.canonical([exchange.toolset, caller.principal, uri]))
    listing = Listing("resources", children, shapes.resource_for, f"directory {scope}")
    return listing.page(caller, exchange.revision.version, list_tail(exchange.revision, False), params.get("cursor"))


@dataclass(frozen=True, slots=True)
class _Child:
    """One member of a directory that its caller sees."""

    definition: dict[str, Json]
    enabled: bool = True
    groups: frozenset[int] = frozenset()
    sight: Sight | None = None
    workspace: Workspace | None = None


def _directory(uri: str, name: str) -> dict[str, Json]:
    return {"uri": uri, "name": name, "mimeType": DIRECTORY}


def _whole(revision: revisions.Revision, definition: Mapping[str, Json]) -> dict[str, Json]:
    """Return an entry as it is: revisions do not differ in it."""
    return dict(definition)
