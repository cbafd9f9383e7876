"""The methods of `io.modelcontextprotocol/events` (SEP-3415)."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async
from django.utils import translation

from mcphub.features.events import reading
from mcphub.features.events.access import Receiver
from mcphub.features.events.errors import EventForbidden, EventMissing, numbered
from mcphub.features.events.models import UpstreamEvent
from mcphub.features.events.reading import EventFilter, EventPage
from mcphub.features.notifications.catalogue import KINDS
from mcphub.parts import NoticeKind
from mcphub.server.results import hints, text
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange, Result

NEXT_POLL_MS = 5000
"""Notices are looked for every few seconds."""
_STATES = ("began", "ended")
_LONGEST_MS = 366 * 86_400_000
DELIVERY = ("poll", "push")


@numbered
async def events_list(exchange: McpExchange, params: dict[str, Json]) -> Result:
    receiver = await receiver_of(exchange)
    if params.get("cursor") is not None:
        raise InvalidParams("The list has one page. Ask again without a cursor.")
    is_known = receiver.caller.principal.startswith(("key:", "user:"))
    delivery = (*DELIVERY, "webhook") if is_known else DELIVERY
    shown: list[Json] = [described(kind, delivery) for kind in sorted(receiver.names(), key=lambda kind: kind.name)]
    shown += await database_sync_to_async(_relayed)(receiver.relayed_names(), delivery)
    return {"events": shown, **complete(exchange)}


@numbered
async def events_poll(exchange: McpExchange, params: dict[str, Json]) -> Result:
    receiver = await receiver_of(exchange)
    wanted = wanted_of(receiver, params)
    after, max_age = reading.position_of(params.get("cursor")), age_of(params)
    most = _whole(params, "maxEvents", reading.MOST_EVENTS, 10**9)
    page = await database_sync_to_async(_polled)(receiver, wanted, after, max_age, min(most, reading.MOST_EVENTS))
    return {
        "events": [each.wire for each in page.found],
        "cursor": reading.cursor_of(page.position),
        "truncated": page.is_truncated,
        "hasMore": page.has_more,
        "nextPollMs": NEXT_POLL_MS,
        **complete(exchange),
    }


def _polled(
    receiver: Receiver, wanted: EventFilter, after: int | None, max_age: timedelta | None, most: int
) -> EventPage:
    start = reading.begin(wanted, after, max_age)
    if after is None:
        return start
    page = reading.page(receiver, wanted, start.position, most)
    is_truncated = start.is_truncated or page.is_truncated
    return EventPage(page.found, page.position, page.has_more, is_truncated)


async def receiver_of(exchange: McpExchange) -> Receiver:
    """Return the caller of a request with its rights; raise Forbidden, ToolsetNotFound."""
    caller = exchange.source.caller
    caller.need("tools:list")
    return await database_sync_to_async(Receiver.of)(caller, exchange.catalog())


def wanted_of(receiver: Receiver, params: dict[str, Json], *, needs_right: bool = True) -> EventFilter:
    """Read the event and its arguments; raise InvalidParams, EventMissing, EventForbidden."""
    name = text(params, "name", "the name of an event, as events/list has it")
    kind = KINDS.get(name)
    if needs_right and kind is not None and receiver.knows(name) and not receiver.may_get(name):
        words = f"Your access does not cover {name}. Ask the operator for a key with the scope audit:read."
        raise EventForbidden(words, reason="not permitted")
    # The names of an upstream's events are for who sees its tools: to others it looks as if there were none.
    if needs_right and not receiver.may_get(name):
        raise EventMissing(f"There is no event {name[:100]!r}. Ask events/list for the names.", kind="event")
    arguments = params.get("arguments")
    if arguments is None:
        arguments = {}
    if kind is None:
        if arguments != {}:
            raise InvalidParams("An event of an upstream has no arguments here: send an empty object, or none.")
        return EventFilter(name)
    if not isinstance(arguments, dict) or arguments.keys() - {"state", "mine"}:
        raise InvalidParams("arguments must be an object with no other members than state and mine.")
    state, mine = arguments.get("state", ""), arguments.get("mine", False)
    if state not in (*_STATES, "") or (state and not kind.ends):
        words = f"arguments.state must be one of {', '.join(_STATES)}." if kind.ends else "It has no argument state."
        raise InvalidParams(words)
    if not isinstance(mine, bool):
        raise InvalidParams("arguments.mine must be true or false.")
    return EventFilter(name, str(state), mine)


def age_of(params: dict[str, Json]) -> timedelta | None:
    """Read how old an event may be; raise InvalidParams."""
    if params.get("maxAgeMs") is None:
        return None
    return timedelta(milliseconds=min(_whole(params, "maxAgeMs", 0, 10**18), _LONGEST_MS))


def _whole(params: dict[str, Json], name: str, default: int, most: int) -> int:
    value = params.get(name)
    if value is None:
        return default
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= most:
        raise InvalidParams(f"{name} must be a whole number above 0.")
    return value


def described(kind: NoticeKind, delivery: tuple[str, ...]) -> dict[str, Json]:
    """Return an entry of the list."""
    arguments: dict[str, Json] = {
        "mine": {"type": "boolean", "default": False, "description": "Only events about the caller itself."}
    }
    states: list[Json] = ["happened"]
    if kind.ends:
        states = list(_STATES)
        arguments["state"] = {
            "type": "string",
            "enum": states,
            "description": "Only events that report that it began, or that it ended.",
        }
    with translation.override("en"):
        title = str(kind.title)
    return {
        "name": kind.name,
        "description": f"{title}. {'An event when it begins and one when it ends.' if kind.ends else ''}".strip(),
        "delivery": list[Json](delivery),
        "inputSchema": {"type": "object", "properties": arguments, "additionalProperties": False},
        "payloadSchema": _payload(states),
    }


def _relayed(names: list[str], delivery: tuple[str, ...]) -> list[Json]:
    """Return the entries of events of upstreams, by their approved definitions. Asks the database."""
    rows = UpstreamEvent.objects.served().filter(name__in=names).order_by("name")
    return [
        {
            "name": row.name,
            "description": row.approved["description"],
            "delivery": list[Json](delivery),
            "inputSchema": {"type": "object", "additionalProperties": False},
            "payloadSchema": row.approved["payloadSchema"],
        }
        for row in rows
    ]


def _payload(states: list[Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": {
            "state": {"type": "string", "enum": states},
            "title": {"type": "string"},
            "text": {"type": "string", "description": "One sentence. Only for callers that get all facts."},
            "subject": {"type": "string", "description": "Equal in the events of one matter."},
            "alarm": {"type": "boolean"},
            "facts": {"type": "object"},
        },
        "required": ["state", "title", "subject", "alarm", "facts"],
    }


def complete(exchange: McpExchange) -> dict[str, Json]:
    """Return the members of every complete result that caches must not keep."""
    return hints(is_public=False, ttl_ms=0) if exchange.revision.cache_hints else {}
