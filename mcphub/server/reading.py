"""The way of `resources/read`, `prompts/get` and `completion/complete` to their targets: through the audit, once."""

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
    """Return the answer to the request that the exchange is of.

    `asked` is the name of its target, and `arguments` their recorded form, both as received. `may_ask`: the target
    may ask the client. Raises the errors of `find`, and InvalidParams for a `requestState` of another request.
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
