"""The errors of the extension: JSON-RPC codes that SEP-3415 takes, each with typed `data`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, ClassVar, Final

from sessions_app.protocol.errors import INVALID_PARAMS, InvalidParams, InvalidRequest, ProtocolError, Refused
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from mcphub.server.exchange import Handler, McpExchange, Result

EXTENSION: Final = "io.modelcontextprotocol/events"
NOT_FOUND, FORBIDDEN, EXHAUSTED, UNSUPPORTED, CALLBACK = -32023, -32024, -32025, -32026, -32027
DRAFT_NOT_FOUND, DRAFT_UNSUPPORTED = -32011, -32014
"""Of upstreams written by the draft, as ChatGPT has it (November 2026); the other members are the same."""
_DRAFT: Final = {
    NOT_FOUND: DRAFT_NOT_FOUND,
    FORBIDDEN: -32012,
    EXHAUSTED: -32013,
    UNSUPPORTED: DRAFT_UNSUPPORTED,
    CALLBACK: -32015,
}
_OF_DRAFT: Final = "openai-mcp"
"""How ChatGPT names itself (November 2026). A client may, and need not, declare the extension; one that does reads the
codes of SEP-3415, whatever its name.
"""

LOST = "The access that the subscription was made with does not cover this event any more."


class EventError(ProtocolError):
    """`data` are the members that the extension puts at the top of the error's data."""

    code = InvalidParams.code
    jsonrpc_code = INVALID_PARAMS
    number: ClassVar[int]

    def __init__(self, sentence: str, /, **data: Json) -> None:
        super().__init__(sentence)
        self.wire_code = self.number
        self._data = data

    @property
    def spec_data(self) -> dict[str, Json]:
        return dict(self._data)

    def wire(self) -> dict[str, Json]:
        """Return it as the end of a subscription states it."""
        return {"code": self.number, "message": self.message, "data": self.spec_data}


class EventMissing(EventError):
    """`kind` in its data: `event` or `subscription`."""

    number = NOT_FOUND


class EventForbidden(EventError):
    code = "forbidden"
    number = FORBIDDEN


class EventExhausted(EventError):
    """`limit` and `max` in its data."""

    code = "rate_limited"
    number = EXHAUSTED


class EventUnsupported(EventError):
    """`feature` and `value` in its data."""

    number = UNSUPPORTED


class EventCallback(EventError):
    """`reason` in its data: a category of the extension."""

    code = "connection_failed"
    number = CALLBACK


def numbered(handler: Handler) -> Handler:
    """Return a handler whose errors have the codes that the client reads."""

    @functools.wraps(handler)
    async def answered(exchange: McpExchange, params: dict[str, Json]) -> Result:
        try:
            return await handler(exchange, params)
        except EventError as error:
            source = exchange.source
            extensions = source.client_capabilities.get("extensions")
            declares = isinstance(extensions, dict) and EXTENSION in extensions
            if source.client_name.startswith(_OF_DRAFT) and not declares:
                error.wire_code = _DRAFT[error.number]
            raise

    return answered


class CallbackMissing(InvalidRequest):
    """Also the answer where the event is not approved any more."""

    sentence = "There is no callback at this address."
    http_status = 404


class DeliveryUnsigned(Refused):
    """A delivery that the secret of the subscription did not sign, or that is too old."""

    code = "unauthorized"
    sentence = "The signature or its time is not valid. Sign each attempt by Standard Webhooks, with the time of now."
    http_status = 401
