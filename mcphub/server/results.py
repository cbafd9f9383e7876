"""Common parts of several methods' results: server identity, cache lifetime, bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from sessions_app.protocol import json, revisions
from sessions_app.protocol.errors import InvalidParams, ResultInvalid
from sessions_app.protocol.json import Json
from tools_catalog.catalog.listing import Listing

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange

SERVER_INFO = {"name": "mcphub", "title": "MCP Hub", "version": settings.MCPHUB_VERSION}
IDENTITY = {"io.modelcontextprotocol/serverInfo": SERVER_INFO}
LIST_TTL_MS = 60_000


def hints(*, is_public: bool, ttl_ms: int = LIST_TTL_MS) -> dict[str, Json]:
    """Return the caching members of a complete result (MCP 2026-07-28, Caching)."""
    return {
        "resultType": "complete",
        "ttlMs": ttl_ms,
        "cacheScope": "public" if is_public else "private",
        "_meta": IDENTITY,
    }


def list_tail(revision: revisions.Revision, is_public: bool) -> bytes:
    """The same for a list's bytes."""
    return b"," + json.dumps(hints(is_public=is_public))[1:-1] if revision.cache_hints else b""


def listed(exchange: McpExchange, listing: Listing, params: dict[str, Json], *, varies: bool = False) -> bytes:
    """Answer one of the four list methods. `varies`: other callers may get another listing."""
    exchange.source.caller.need("tools:list")
    if exchange.configuration.catalog.upstreams.sights:
        exchange.hub.upstreams.list_for(exchange.source.caller.principal)
    tail = list_tail(exchange.revision, listing.is_public and not varies)
    return listing.page(exchange.source.caller, exchange.revision.version, tail, params.get("cursor"))


def bounded(result: dict[str, Json]) -> bytes:
    """Encode a possible result of a function; raise ResultInvalid for invalid JSON or too much of it."""
    try:
        encoded = json.dumps(result)
    except ValueError as error:
        raise ResultInvalid(f"The answer cannot be sent as JSON: {error}") from error
    limit = settings.MCPHUB_MAX_RESOURCE_BYTES
    if len(encoded) > limit + 10_000:  # what surrounds the content
        raise ResultInvalid(f"The answer is longer than {limit} bytes, more than the hub sends. Tell the operator.")
    return encoded


def text(params: dict[str, Json], name: str, what: str) -> str:
    """Read a parameter that must be a text; raise InvalidParams."""
    value = params.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidParams(f"{name} is missing: it must be {what}.")
    return value
