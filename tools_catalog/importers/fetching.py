"""Descriptions from the network, through the egress guard, with the credentials that the service has already."""

from __future__ import annotations

import httpx2
from asgiref.sync import sync_to_async

from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog import egress
from tools_catalog.backends.http_answer import read
from tools_catalog.backends.http_template import Template, Values, header_text
from tools_catalog.importers.documents import MAX_BYTES, DocumentRefused
from tools_catalog.importers.graphql import INTROSPECTION

_SECONDS = 30.0


async def fetch(url: str, kind: str, slug: str) -> bytes:
    """Get a description, for `graphql` by asking the endpoint; raises DocumentRefused."""
    method, headers = "GET", {"Accept": "application/json, application/yaml, */*;q=0.5"}
    content: bytes | None = None
    if kind == "graphql":
        method, content = "POST", json.dumps({"query": INTROSPECTION})
        headers["Content-Type"] = "application/json"
    try:
        address = httpx2.URL(url)
        headers |= await sync_to_async(_credentials)(slug, address.host)
        async with (
            egress.client(timeout_seconds=_SECONDS) as client,
            egress.stream(client, method, url, headers=headers, content=content) as response,
        ):
            body, is_whole = await read(response, MAX_BYTES)
            status = response.status_code
    except HubError as error:
        raise DocumentRefused(f"{url[:200]} was not fetched: {error}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DocumentRefused(f"{url[:200]} cannot be reached: {type(error).__name__}") from error
    if status != 200:
        raise DocumentRefused(f"{url[:200]} answered with status {status}.")
    if not is_whole:
        raise DocumentRefused(f"{url[:200]} answered more than the {MAX_BYTES} bytes that are read.")
    return body


def _credentials(slug: str, host: str) -> dict[str, str]:
    """Give the headers of the service, if it is there and its address has that very host."""
    from tools_catalog.catalog import Catalog, secret_for
    from tools_catalog.models import HttpService

    row = HttpService.objects.filter(slug=slug).first()
    if row is None or httpx2.URL(row.url).host != host:
        return {}
    Catalog.read_secrets()
    values = Values({}, secret_for, host)
    parsed = {name: Template.parse(text, name, allow_basic=True) for name, text in row.headers.items()}
    filled = {name: header_text(name, template, values) for name, template in parsed.items()}
    return {name: text for name, text in filled.items() if text is not None}
