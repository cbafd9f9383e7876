"""Probes: `/live` says that the process answers, `/ready` that it can serve, part by part; and `/metrics`."""

from __future__ import annotations

from mcphub.process import metrics
from mcphub.transports.base import HubConsumer
from sessions_app.protocol import json


class Live(HubConsumer):
    allowed_methods = ("GET", "HEAD")
    needs_caller = False

    async def handle(self) -> None:
        await self.respond(200, b'{"status":"ok"}')


class Ready(HubConsumer):
    allowed_methods = ("GET", "HEAD")
    needs_caller = False

    async def handle(self) -> None:
        parts = await self.hub.health()
        # What an operator chose to do without, or must look into, is said, and is no reason to send callers elsewhere.
        fine = all(state == "ok" or state.startswith(("not promised", "alarm", "behind")) for state in parts.values())
        body = {"status": "ok" if fine else "unavailable", "parts": parts}
        await self.respond(200 if fine else 503, json.dumps(body))


class Metrics(HubConsumer):
    """What Prometheus scrapes, with a key that may read the audit: how busy a hub is concerns nobody else."""

    allowed_methods = ("GET", "HEAD")

    async def handle(self) -> None:
        self.caller.need("audit:read")
        await self.respond(200, await metrics.exposition(self.hub), [(b"content-type", metrics.CONTENT_TYPE)])
