"""REST in a host runs within the hub's own layers, whose place in Django's handler is no public one."""

from __future__ import annotations

import asyncio
from typing import Any

from mcphub.embedding.serving import RestHandler
from tests.waiting import PATIENCE_SECONDS


async def answer(path: str) -> dict[bytes, bytes]:
    """Return the headers of the answer to a request without a login."""
    asked, sent = asyncio.Queue[dict[str, Any]](), list[dict[str, Any]]()
    asked.put_nowait({"type": "http.request", "body": b"", "more_body": False})
    scope = {"type": "http", "method": "GET", "path": path, "root_path": "/hub", "query_string": b"", "headers": []}

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    async with asyncio.timeout(PATIENCE_SECONDS):
        await RestHandler()(scope, asked.get, send)
    return dict(sent[0]["headers"])


def test_a_request_passes_the_layers_of_the_hub() -> None:
    """`_get_response_async` is Django's own; a version that calls another method would leave them out in silence."""
    assert len(asyncio.run(answer("/api/nowhere"))[b"X-Request-Id"]) == 32
