"""A registry of servers as a source: searched, and asked for one server, through the egress guard.

The API is that of the MCP registry (`/v0.1/servers`), which other registries serve as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode, urlsplit

import httpx2
from django.conf import settings

from mcphub.features.importers.configured import descriptions, jsonc
from mcphub.features.importers.configured.sources import MAX_BYTES
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from tools_catalog.backends.http.answer import read
from tools_catalog.egress import guard as egress
from tools_catalog.egress.rules import parse

MOST_FOUND: Final = 100
"""Servers of one search; a registry gives as many on a page."""
_API: Final = "/v0.1"
_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class RegistryServer:
    """One server as a registry lists it."""

    name: str
    version: str
    words: str
    address: str
    """Of its description there, which `fetch` gets."""


@dataclass(frozen=True, slots=True)
class Page:
    servers: tuple[RegistryServer, ...] = ()
    has_more: bool = False


def default() -> str:
    """Return the registry that is searched where nobody names one."""
    return str(settings.MCPHUB_REGISTRY_URL)


def address_of(base: str, name: str, version: str = "latest") -> str:
    """Return where a registry describes a server."""
    return f"{_root(base)}{_API}/servers/{quote(name, safe='')}/versions/{quote(version, safe='')}"


async def search(base: str, word: str) -> Page:
    """Return the newest versions of servers with `word` in the name, one page at most. Raises DocumentRefused."""
    query = {"limit": MOST_FOUND, "version": "latest", **({"search": word[:100]} if word else {})}
    address = f"{_root(base)}{_API}/servers?{urlencode(query)}"
    found = _object(await fetch(address), address)
    listed = found.get("servers")
    if not isinstance(listed, list):
        raise DocumentRefused(f"{address[:200]} is no registry of MCP servers: its answer has no list of servers.")
    servers = []
    for entry in descriptions.entries(found)[:MOST_FOUND]:
        name = descriptions.name_of(entry)
        if not isinstance(entry, dict) or name == "server":
            continue
        words = str(entry.get("description") or entry.get("title") or "")
        version = str(entry.get("version") or "latest")
        servers.append(RegistryServer(name[:200], version[:100], words[:300], address_of(base, name)))
    metadata = found.get("metadata")
    return Page(tuple(servers), isinstance(metadata, dict) and bool(metadata.get("nextCursor")))


async def server(base: str, name: str) -> bytes:
    """Return a registry's entry for the newest version of one server. Raises DocumentRefused."""
    return await fetch(address_of(base or default(), name))


async def fetch(address: str, *, accept: str = "application/json") -> bytes:
    """Get a description of servers. Raises DocumentRefused."""
    try:
        url = parse(address)
        async with (
            egress.client(timeout_seconds=_SECONDS) as client,
            egress.stream(client, "GET", url, headers={"Accept": accept}) as response,
        ):
            body, is_whole = await read(response, MAX_BYTES)
            status = response.status_code
    except HubError as error:
        raise DocumentRefused(f"{address[:200]} was not fetched: {error}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        raise DocumentRefused(f"{address[:200]} cannot be reached: {type(error).__name__}.") from error
    if status == 404:
        raise DocumentRefused(f"{address[:200]} does not exist. Search the registry for the server's whole name.")
    if status != 200:
        raise DocumentRefused(f"{address[:200]} answered with status {status}.")
    if not is_whole:
        raise DocumentRefused(f"{address[:200]} answered more than the {MAX_BYTES} bytes that are read.")
    return body


def _root(base: str) -> str:
    """Return the address of a registry without commonly copied suffixes."""
    base = base.strip().rstrip("/")
    try:
        split = urlsplit(base)
    except ValueError as error:
        raise DocumentRefused(f"{base[:200]!r} is no address of a registry.") from error
    if split.scheme not in ("http", "https") or not split.netloc:
        raise DocumentRefused(f"{base[:200]!r} is no address of a registry. Write https://registry.example.")
    return base.removesuffix("/servers").removesuffix(_API)


def _object(raw: bytes, address: str) -> dict[str, Json]:
    try:
        found = jsonc.loads(raw.decode("utf-8"))
    except (UnicodeDecodeError, DocumentRefused) as error:
        raise DocumentRefused(f"{address[:200]} answered with what is not JSON.") from error
    if not isinstance(found, dict):
        raise DocumentRefused(f"{address[:200]} is no registry of MCP servers: its answer is no object.")
    return found
