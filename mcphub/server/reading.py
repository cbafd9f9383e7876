"""How `resources/read`, `prompts/get` and `completion/complete` reach what they read: by way of the audit, once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from invocations.reading import Reading, ReadRequest
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from mcphub.server.exchange import McpExchange, Result


async def read(
    exchange: McpExchange,
    params: dict[str, Json],
    find: Callable[[], Reading],
    *,
    asked: object,
    arguments: Json,
    scope: str = "tools:call",
    may_ask: bool = True,
) -> Result:
    """Give the answer to the request that the exchange is of.

    `asked` is the name of what it reads, and `arguments` what is recorded of it, both as they came. `may_ask`: what
    is read may ask the client. Raises what `find` raises, and InvalidParams for a `requestState` of another request.
    """
    method = exchange.request.method
    rounds = exchange.resumed(method, params) if may_ask else None

    def found() -> Reading:
        reading = find()
        if rounds is not None and not reading.is_static:
            rounds.check()
        return reading

    request = ReadRequest(
        method=method,
        scope=scope,
        asked=asked,
        arguments=arguments,
        find=found,
        request_id=exchange.request.id,
        meta=params.get("_meta"),
        make_requester=(lambda: rounds or exchange.requester(method, params)) if may_ask else None,
    )
    if rounds is not None and rounds.continues:
        exchange = exchange.going_on(rounds.continues)
    return await exchange.hub.reads.read(request, exchange)
