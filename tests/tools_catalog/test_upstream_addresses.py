"""No address of a connection leads inside: not when it is saved, and not when it is connected to."""

from __future__ import annotations

import asyncio

import pytest
from django.core.exceptions import ValidationError

from sessions_app.protocol.errors import HubError
from tests.factories import McpConnectionFactory
from tests.tools_catalog.addresses import CLOSED, ODD_URLS
from tools_catalog.models import McpConnection
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import ConnectionSpec

INSIDE = [f"http://[{address}]/mcp" if ":" in address else f"http://{address}/mcp" for address in CLOSED]


@pytest.mark.django_db
def test_it_is_refused_when_saved() -> None:
    row = McpConnectionFactory.build()
    for url in [*ODD_URLS, *INSIDE]:
        row.url = url
        with pytest.raises(ValidationError) as caught:
            row.full_clean()
        assert "url" in caught.value.message_dict, url
    assert not McpConnection.objects.exists()


@pytest.mark.parametrize("transport", ["streamable-http", "sse"])
def test_it_is_refused_at_each_connect(transport: str) -> None:
    async def connect(url: str) -> str:
        spec = ConnectionSpec(id=1, slug="x", transport=transport, url=url)
        session = UpstreamClient(spec, Scrubber(lambda name, host: ""), "0")
        try:
            await session.open()
        except HubError as error:
            return str(error)
        finally:
            await session.close()
        return "connected"

    async def every() -> list[str]:
        return [await connect(url) for url in INSIDE]

    for url, told in zip(INSIDE, asyncio.run(every()), strict=True):
        assert "public internet" in told or "address" in told or "host" in told, f"{url}: {told}"
