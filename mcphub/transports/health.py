"""Probes: `/live` shows that the process answers, `/ready` that it can serve, part by part; and `/metrics`."""

from __future__ import annotations

from mcphub.process import metrics
from mcphub.process.runtime import Hub
from mcphub.transports.base import HubConsumer
from sessions_app.protocol import json
from sessions_app.protocol.errors import Forbidden
from sessions_app.protocol.json import Json


async def readiness(hub: Hub) -> tuple[bool, dict[str, Json]]:
    """Return whether the hub can serve, and of each part how it is."""
    parts = await hub.health()
    # What an operator chose to do without, or must look into, is said, and is no reason to send callers elsewhere.
    is_fine = all(state == "ok" or state.startswith(("not promised", "alarm", "behind")) for state in parts.values())
    return is_fine, {"status": "ok" if is_fine else "unavailable", "parts": dict(parts)}


class Live(HubConsumer):
    allowed_methods = ("GET", "HEAD")
    needs_caller = False

    async def handle(self) -> None:
        await self.respond(200, b'{"status":"ok"}')


class Ready(HubConsumer):
    allowed_methods = ("GET", "HEAD")
    needs_caller = False

    async def handle(self) -> None:
        is_fine, said = await readiness(self.hub)
        await self.respond(200 if is_fine else 503, json.dumps(said))


class Metrics(HubConsumer):
    """Metrics for Prometheus, with a key that may read the audit of the whole hub: their labels name all tools."""

    allowed_methods = ("GET", "HEAD")

    async def handle(self) -> None:
        self.caller.need("audit:read")
        if self.caller.workspace is not None:
            raise Forbidden("Metrics cover the whole hub. Ask its operator for a key without a workspace.")
        await self.respond(200, await metrics.exposition(self.hub), [(b"content-type", metrics.CONTENT_TYPE)])
