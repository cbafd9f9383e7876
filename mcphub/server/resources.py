"""Resources over MCP: lists, reading, and notifications of changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from channels.db import database_sync_to_async

from invocations.call.context import CallContext
from invocations.reading import Reading
from invocations.subject import RESOURCES_READ, RowSubject
from mcphub.parts import ResourceReader
from mcphub.server.listening import Filter, Streams
from mcphub.server.reading import read
from mcphub.server.results import IDENTITY, LIST_TTL_MS, bounded, hints, listed, text
from sessions_app import bus, subscriptions
from sessions_app.kit.features import declared, loaded
from sessions_app.protocol import shapes
from sessions_app.protocol.errors import InvalidParams, ResourceNotFound
from sessions_app.protocol.json import Json
from tools_catalog.catalog.offers import OfferedResource, Resources

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange, Result

_LONGEST_URI = 2000
"""So much of a subscription's URI is kept."""
_MOST_AT_ONE = 1000
"""Resources of one upstream that the hub subscribes to."""


async def resources_list(exchange: McpExchange, params: dict[str, Json]) -> Result:
    return listed(exchange, exchange.resources().listing, params)


async def resources_templates_list(exchange: McpExchange, params: dict[str, Json]) -> Result:
    return listed(exchange, exchange.resources().templates, params)


async def resources_read(exchange: McpExchange, params: dict[str, Json]) -> Result:
    uri = params.get("uri")
    arguments = {"uri": uri} if "uri" in params else {}
    return await read(exchange, params, lambda: _reading(exchange, params), asked=uri, arguments=arguments)


async def resources_subscribe(exchange: McpExchange, params: dict[str, Json]) -> Result:
    """Store it with the session, so that the process with its stream sends the notifications."""
    exchange.source.caller.need("tools:call")
    uri = _uri(params)
    _find(exchange, uri)
    await database_sync_to_async(subscriptions.add)(exchange.source.session_id, uri)
    await _tell_upstreams(exchange, uri)
    return {}


async def resources_unsubscribe(exchange: McpExchange, params: dict[str, Json]) -> Result:
    uri = _uri(params)
    await database_sync_to_async(subscriptions.remove)(exchange.source.session_id, uri)
    await _tell_upstreams(exchange, uri)
    return {}


def filter_of(exchange: McpExchange, asked: Json) -> Filter:
    """Return the supported part of the `notifications` of subscriptions/listen; unreadable parts are omitted."""
    if not isinstance(asked, dict):
        raise InvalidParams("subscriptions/listen needs notifications, an object that says what to tell of.")
    uris = asked.get("resourceSubscriptions", [])
    if not isinstance(uris, list) or not all(isinstance(uri, str) for uri in uris):
        raise InvalidParams("resourceSubscriptions must be a list of URIs.")
    subscriptions.check_count(len(uris))
    caller, resources = exchange.source.caller, exchange.resources()
    return Filter(
        tools=asked.get("toolsListChanged") is True,
        prompts=asked.get("promptsListChanged") is True,
        resources=asked.get("resourcesListChanged") is True,
        uris=frozenset(uri for uri in uris if resources.find(uri, caller) is not None),
    )


async def tell_updated(streams: Streams, changed: list[OfferedResource], announced: set[str]) -> None:
    """Notify the subscribers in this process: of changed rows, and of URIs that a function announced."""
    if not len(streams) or not (changed or announced):
        return
    templates = [resource.template for resource in changed if resource.template is not None]
    plain = announced | {resource.uri for resource in changed}

    def concerns(uri: str) -> bool:
        return uri in plain or any(template.match(uri) is not None for template in templates)

    subscribed = await database_sync_to_async(subscriptions.of)(None if templates else plain)
    streams.tell_updated([(session_id, uri) for session_id, uri in subscribed if concerns(uri)], concerns)


async def wanted_of_upstreams(streams: Streams, snapshot: Resources) -> dict[str, frozenset[str]]:
    """Return the followed resources of upstreams, by connection name.

    Sessions of all processes count: the process with such a stream receives the notification itself.
    """
    if not snapshot.has_upstreams:
        return {}
    subscribed = await database_sync_to_async(subscriptions.of)(None)
    found: dict[str, set[str]] = {}
    for uri in {uri for _, uri in subscribed} | streams.uris():
        if (slug := snapshot.upstream_of(uri)) is not None:
            found.setdefault(slug, set()).add(uri)
    return {slug: frozenset(sorted(uris)[:_MOST_AT_ONE]) for slug, uris in found.items()}


async def _tell_upstreams(exchange: McpExchange, uri: str) -> None:
    if exchange.resources().upstream_of(uri) is not None:
        await bus.announce(bus.SUBSCRIPTIONS_CHANGED)


def _reading(exchange: McpExchange, params: dict[str, Json]) -> Reading:
    uri = _uri(params)
    for part in declared(ResourceReader):
        if uri.startswith(part.prefix):
            reading: Reading = loaded(part.reading)(exchange, uri)
            return reading
    resource, values = _find(exchange, uri)
    source = resource.contents

    async def contents(call: CallContext) -> dict[str, Json]:
        found = await source.read(uri, values, call)
        if not found["contents"]:
            raise ResourceNotFound(uri, exchange.revision.resource_not_found_code)
        return found

    def answer(result: dict[str, Json]) -> Result:
        # What a function reads may depend on who asks and when, so caches may not keep it.
        is_public = source.is_static and not resource.groups and resource.workspace is None
        told = {**result, **hints(is_public=is_public, ttl_ms=LIST_TTL_MS if source.is_static else 0)}
        told["_meta"] = {**result.get("_meta", {}), **IDENTITY}
        return bounded(shapes.read_result_for(exchange.revision, told))

    subject = RowSubject(
        method=RESOURCES_READ,
        target=resource.uri,
        digest=resource.digest,
        connection=resource.connection,
        definition=resource.definition,
        workspace=resource.workspace,
    )
    return Reading(
        subject=subject,
        label=f"The resource {resource.uri}",
        seconds=resource.timeout_seconds,
        is_static=source.is_static,
        work=contents,
        answer=answer,
    )


def _uri(params: dict[str, Json]) -> str:
    uri = text(params, "uri", "the URI of a resource")
    if len(uri) > _LONGEST_URI or "\x00" in uri:
        raise InvalidParams(f"uri must be a URI of at most {_LONGEST_URI} characters.")
    return uri


def _find(exchange: McpExchange, uri: str) -> tuple[OfferedResource, dict[str, str]]:
    found = exchange.resources().find(uri, exchange.source.caller)
    if found is None:
        raise ResourceNotFound(uri, exchange.revision.resource_not_found_code)
    return found
