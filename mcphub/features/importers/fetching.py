"""Descriptions from the network, through the egress guard, with the credentials that the service has already."""

from __future__ import annotations

import httpx2
from asgiref.sync import sync_to_async

from mcphub.features.importers.documents import DocumentRefused
from mcphub.features.importers.graphql import INTROSPECTION
from mcphub.features.importers.worker import most_raw_bytes
from sessions_app.history import events
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog.backends.http.answer import read, scrubbed
from tools_catalog.backends.http.template import Template, Values, header_text
from tools_catalog.bindings import SERVICE, Destination, origin_of
from tools_catalog.egress import guard as egress
from tools_catalog.egress.rules import parse

_SECONDS = 30.0


async def fetch(url: str, kind: str, slug: str) -> bytes:
    """Get a description, for `graphql` by asking the endpoint; raises DocumentRefused."""
    method, headers = "GET", {"Accept": "application/json, application/yaml, */*;q=0.5"}
    content: bytes | None = None
    most = most_raw_bytes()
    if kind == "graphql":
        method, content = "POST", json.dumps({"query": INTROSPECTION})
        headers["Content-Type"] = "application/json"
    try:
        address = parse(url)
        carried, secrets = await sync_to_async(_credentials)(slug, origin_of(url))
        await sync_to_async(_record)(address, slug, [*carried])
        headers |= carried
        async with (
            egress.client(timeout_seconds=_SECONDS) as client,
            egress.stream(client, method, address, headers=headers, content=content) as response,
        ):
            body, is_whole = await read(response, most)
            body = scrubbed(body, secrets)
            status = response.status_code
    except HubError as error:
        raise DocumentRefused(f"{url[:200]} was not fetched: {error}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DocumentRefused(f"{url[:200]} cannot be reached: {type(error).__name__}") from error
    if status != 200:
        raise DocumentRefused(f"{url[:200]} answered with status {status}.")
    if not is_whole:
        raise DocumentRefused(f"{url[:200]} answered more than the {most} bytes that are read.")
    return body


def _record(address: httpx2.URL, slug: str, carried: list[str]) -> None:
    """Leave the event of an import, before anything is sent."""
    from tools_catalog.models import HttpService

    shown = str(address.copy_with(query=None, fragment=None, userinfo=b""))
    events.record("description.fetched", model=HttpService, subject=slug, label=shown, after={"headers": carried})


def _credentials(slug: str, origin: str) -> tuple[dict[str, str], list[str]]:
    """Return the headers of the service, if it is there and has that very origin, and the secrets in them."""
    from tools_catalog.models import HttpService
    from tools_catalog.vault import read_secrets, secret_for

    row = HttpService.objects.filter(slug=slug).first()
    if row is None or origin_of(row.url) != origin:
        return {}, []
    read_secrets()
    values = Values({}, secret_for, Destination(origin, (f"{SERVICE}:{slug}",)))
    parsed = {name: Template.parse(text, f"headers.{name}", allow_basic=True) for name, text in row.headers.items()}
    filled = {name: header_text(name, template, values) for name, template in parsed.items()}
    return {name: text for name, text in filled.items() if text is not None}, values.used_secrets
