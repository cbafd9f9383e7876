"""Examples of events for the OpenAPI document, as people would send and get them."""

from __future__ import annotations

from collections.abc import Mapping

from sessions_app.protocol.json import Json

_ID = "sub_5f1c9a2e7b3d"
_CALLBACK = "https://app.example/hooks/mcp"
REQUESTS: Mapping[str, Json] = {
    "CallbackWishRequest": {
        "event": "connection.down",
        "arguments": {},
        "url": _CALLBACK,
        "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "ttl_ms": 604_800_000,
    }
}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "EventSubscription": {
        "id": _ID,
        "event": "connection.down",
        "caller": "ada",
        "callback": "app.example",
        "last_error": "",
    },
    "UpstreamEvent": {
        "name": "tickets/ticket.opened",
        "problem": "",
        "offered": {"name": "ticket.opened", "delivery": ["push", "poll"]},
        "approved": {"name": "ticket.opened", "delivery": ["push", "poll"]},
        "last_refusal": "",
    },
}
OPERATIONS: Mapping[str, Mapping[str, Json]] = {
    "event_subscriptions_retrieve": {"id": _ID},
    "event_subscriptions_destroy": {"id": _ID},
}
