"""`/mcp/callbacks/…`: where upstreams deliver events that they send by webhook alone. Read by routing.py."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from channels.db import database_sync_to_async

from mcphub.features.events import incoming
from mcphub.features.events.errors import CallbackMissing, DeliveryUnsigned
from mcphub.features.events.hub import EventsService
from mcphub.features.events.taking import LeaseLost
from mcphub.transports.base import HubConsumer
from sessions_app.protocol import json

Application = Callable[[Any, Any, Any], Awaitable[None]]


class CallbackEndpoint(HubConsumer):
    """One delivery. The cheap checks come first: nobody but the upstream has a signature."""

    needs_caller = False

    async def handle(self) -> None:
        sent = self.scope["headers"]
        event_id = incoming.event_of(self.scope["path"].removeprefix(incoming.PREFIX).removesuffix("/"))
        headers = incoming.headers_of(sent)
        incoming.check_length(sent)
        target = await database_sync_to_async(incoming.target)(event_id)
        body = await self.read_body()
        incoming.check_size(len(body))
        if not headers.signs(body, target.secret):
            raise DeliveryUnsigned
        message = incoming.message_of(headers, body)
        try:
            answer = await EventsService.within(self.hub).relay.deliver(target, headers.id, message)
        except LeaseLost as error:
            raise CallbackMissing from error
        await self.respond(200, json.dumps(answer))


CONSUMERS: dict[str, Application] = {}
PREFIXES: tuple[tuple[str, Application], ...] = ((incoming.PREFIX, CallbackEndpoint.as_asgi()),)
ROOTS: tuple[str, ...] = (incoming.PREFIX,)
