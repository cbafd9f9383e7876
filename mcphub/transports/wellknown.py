"""`GET /.well-known/mcp`: the server's identity and endpoints, for clients that look first."""

from __future__ import annotations

from mcphub.server import methods
from mcphub.server.results import SERVER_INFO
from mcphub.transports.base import HubConsumer
from sessions_app import transports
from sessions_app.protocol import json, revisions


class Description(HubConsumer):
    allowed_methods = ("GET", "HEAD")
    needs_caller = False

    async def handle(self) -> None:
        scheme = self.scope.get("scheme", "http")
        base = f"{scheme}://{self.headers.host}{self.scope.get('root_path', '')}"
        body = {
            **SERVER_INFO,
            "protocolVersions": list(revisions.ALL),
            "transports": [
                {"type": each.name, "url": f"{base}{each.path}"}
                for each in transports.TRANSPORTS.values()
                if each.is_announced
            ],
            "capabilities": methods.CAPABILITIES,
        }
        await self.respond(200, json.dumps(body))
