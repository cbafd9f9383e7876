"""An upstream on loopback that offers events by webhook alone, as servers for ChatGPT do.

It declares `events` among its capabilities, numbers errors by the draft, verifies callbacks, and signs deliveries by
Standard Webhooks.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import httpx2

from tests.features.events.upstream import EventUpstream, log_name
from tests.waiting import PATIENCE_SECONDS


def signed(secret: str, id_: str, body: bytes, seconds: int | None = None) -> dict[str, str]:
    """Return the headers of a delivery."""
    moment = str(int(time.time()) if seconds is None else seconds)
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id_}.{moment}.".encode() + body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": id_,
        "webhook-timestamp": moment,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
        "x-mcp-subscription-id": "sub_1",
    }


@dataclass
class WebhookUpstream(EventUpstream):
    """`hub` is where the host of callbacks is reached, as by a tunnel."""

    hub: str = ""
    ttl_seconds: float = 3600
    subscriptions: dict[str, dict[str, str]] = field(default_factory=dict)
    """By the name of the event, and its arguments where it has some, `delivery` as the hub sent it."""
    subscribed: list[Any] = field(default_factory=list)
    """Parameters of each `events/subscribe`, renewals among them."""

    def answer(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "events/subscribe":
            return self.subscribe(params)
        if method == "events/unsubscribe":
            name = log_name(params["name"], params["arguments"])
            found = self.subscriptions.get(name)
            if found is None or found["url"] != params["delivery"]["url"]:
                return {"error": {"code": -32011, "message": "No such subscription.", "data": {"kind": "subscription"}}}
            del self.subscriptions[name]
            return {"result": {"resultType": "complete"}}
        answer = super().answer(method, params)
        if method == "server/discover":
            answer["result"]["capabilities"] = {"tools": {}, "events": {}}
        return answer

    def subscribe(self, params: dict[str, Any]) -> dict[str, Any]:
        if refusal := self.refusal(params):
            return refusal
        self.subscribed.append(params)
        delivery, name = params["delivery"], log_name(params["name"], params["arguments"])
        if self.subscriptions.get(name) != delivery:
            challenge = "nonce-of-this-upstream"
            body = json.dumps({"type": "verification", "challenge": challenge}).encode()
            answer = self.post(delivery["url"], body, signed(delivery["secret"], "msg_verification_1", body))
            if answer.json().get("challenge") != challenge:
                data = {"reason": "challenge_failed"}
                return {"error": {"code": -32015, "message": "The callback is not verified.", "data": data}}
            self.subscriptions[name] = delivery
        ends = datetime.now(UTC) + timedelta(seconds=self.ttl_seconds)
        grant = {"id": "sub_1", "refreshBefore": ends.isoformat(), "cursor": None, "truncated": False}
        return {"result": {"resultType": "complete", **grant}}

    def post(self, url: str, body: bytes, headers: dict[str, str]) -> httpx2.Response:
        parts = urlsplit(url)
        sent = {**headers, "host": parts.netloc}
        return httpx2.post(f"{self.hub}{parts.path}", content=body, headers=sent, timeout=PATIENCE_SECONDS)

    def deliver(self, name: str, message: dict[str, Any], id_: str = "", **more: Any) -> httpx2.Response:
        """Send one message; `more` are parameters of `signed`."""
        delivery = self.subscriptions[name]
        body = json.dumps(message).encode()
        headers = signed(more.pop("secret", delivery["secret"]), id_ or message.get("eventId", "msg_1"), body, **more)
        return self.post(delivery["url"], body, headers)
