"""Resources over MCP: lists, reading, and being told when one reads differently."""

from __future__ import annotations

from typing import Any

from channels.db import database_sync_to_async

from invocations.context import Suspended
from mcphub.server.answers import LIST_TTL_MS, bounded, hints, limited, listed, text
from mcphub.server.context import RequestContext, Result
from mcphub.server.functions import perform
from mcphub.server.listening import Filter, Streams
from sessions_app import bus, subscriptions
from sessions_app.protocol import shapes
from sessions_app.protocol.errors import InvalidParams, ResourceNotFound
from tools_catalog.offers import Resource, Resources

_LONGEST_URI = 2000
"""So much of a subscription's URI is kept."""
_MOST_AT_ONE = 1000
"""Resources of one upstream that the hub subscribes to."""


async def resources_list(context: RequestContext, params: dict[str, Any]) -> Result:
    return listed(context, context.hub.resources().listing, params)


async def resources_templates_list(context: RequestContext, params: dict[str, Any]) -> Result:
    return listed(context, context.hub.resources().templates, params)


async def resources_read(context: RequestContext, params: dict[str, Any]) -> Result:
    context.origin.caller.need("tools:call")
    uri = _uri(params)
    await limited(context, "resources/read")
    resource, values = _find(context, uri)
    source = resource.contents
    if source.is_static:
        contents = await source.read(uri, values, None)
    else:
        try:
            contents = await perform(
                context, f"The resource {resource.uri}", resource.timeout_seconds,
                lambda call: source.read(uri, values, call), asks=("resources/read", params),
            )  # fmt: skip
        except Suspended as suspended:
            return suspended.wire
    if not contents:
        raise ResourceNotFound(uri, context.revision.resource_not_found_code)
    # What a function reads may depend on who asks and when, so caches may not keep it.
    is_public = source.is_static and not resource.groups
    result = {"contents": contents, **hints(is_public=is_public, ttl_ms=LIST_TTL_MS if source.is_static else 0)}
    return bounded(shapes.read_result_for(context.revision, result))


async def resources_subscribe(context: RequestContext, params: dict[str, Any]) -> Result:
    """Keep it with the session, so that whichever process holds its stream tells it."""
    context.origin.caller.need("tools:call")
    uri = _uri(params)
    _find(context, uri)
    await database_sync_to_async(subscriptions.add)(context.origin.session_id, uri)
    await _tell_upstreams(context, uri)
    return {}


async def resources_unsubscribe(context: RequestContext, params: dict[str, Any]) -> Result:
    uri = _uri(params)
    await database_sync_to_async(subscriptions.remove)(context.origin.session_id, uri)
    await _tell_upstreams(context, uri)
    return {}


def filter_of(context: RequestContext, asked: Any) -> Filter:
    """Give what the hub tells of the `notifications` of subscriptions/listen; what cannot be read is left out."""
    if not isinstance(asked, dict):
        raise InvalidParams("subscriptions/listen needs notifications, an object that says what to tell of.")
    uris = asked.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise InvalidParams("resourceSubscriptions must be a list of URIs.")
    subscriptions.check_count(len(uris))
    caller, resources = context.origin.caller, context.hub.resources()
    return Filter(
        tools=asked.get("toolsListChanged") is True,
        prompts=asked.get("promptsListChanged") is True,
        resources=asked.get("resourcesListChanged") is True,
        uris=frozenset(uri for uri in uris if resources.find(uri, caller) is not None),
    )


async def tell_updated(streams: Streams, changed: list[Resource], announced: set[str]) -> None:
    """Tell the subscribers that this process holds: of rows that changed, and of URIs that a function announced."""
    if not len(streams) or not (changed or announced):
        return
    templates = [resource.template for resource in changed if resource.template is not None]
    plain = announced | {resource.uri for resource in changed}

    def concerns(uri: str) -> bool:
        return uri in plain or any(template.match(uri) is not None for template in templates)

    subscribed = await database_sync_to_async(subscriptions.of)(None if templates else plain)
    streams.tell_updated([(session_id, uri) for session_id, uri in subscribed if concerns(uri)], concerns)


async def wanted_of_upstreams(streams: Streams, snapshot: Resources) -> dict[str, frozenset[str]]:
    """Give which resources of upstreams somebody wants to hear of, by the name of their connection.

    Sessions of all processes count: whichever holds such a stream hears of it by itself.
    """
    if not snapshot.has_upstreams:
        return {}
    subscribed = await database_sync_to_async(subscriptions.of)(None)
    found: dict[str, set[str]] = {}
    for uri in {uri for _, uri in subscribed} | streams.uris():
        if (slug := snapshot.upstream_of(uri)) is not None:
            found.setdefault(slug, set()).add(uri)
    return {slug: frozenset(sorted(uris)[:_MOST_AT_ONE]) for slug, uris in found.items()}


async def _tell_upstreams(context: RequestContext, uri: str) -> None:
    if context.hub.resources().upstream_of(uri) is not None:
        await database_sync_to_async(bus.publish)(bus.SUBSCRIPTIONS_CHANGED)


def _uri(params: dict[str, Any]) -> str:
    uri = text(params, "uri", "the URI of a resource")
    if len(uri) > _LONGEST_URI or "\x00" in uri:
        raise InvalidParams(f"uri must be a URI of at most {_LONGEST_URI} characters.")
    return uri


def _find(context: RequestContext, uri: str) -> tuple[Resource, dict[str, str]]:
    found = context.hub.resources().find(uri, context.origin.caller)
    if found is None:
        raise ResourceNotFound(uri, context.revision.resource_not_found_code)
    return found
