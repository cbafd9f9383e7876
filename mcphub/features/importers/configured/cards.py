"""Server cards of upstreams (SEP-2127): found at an address that somebody pastes, as a text that `sources.read` reads.

A card is unverified. That of an endpoint counts only for the origin that was asked; the servers of a catalogue may be
elsewhere, so whoever pasted the address sees where each leads before anything is saved.
"""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import urlsplit

from mcphub.features.importers.configured import jsonc, lines, registry
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.protocol import json
from sessions_app.protocol.json import Json

CARD: Final = "application/mcp-server-card+json"
_CATALOG: Final = "application/ai-catalog+json"
_SUFFIX: Final = "/server-card"
_WELL_KNOWN: Final = "/.well-known/ai-catalog.json"
_SCHEMA: Final = "/server-card.schema.json"
_MOST: Final = 20
"""Cards of one catalogue that are read."""
_SECONDS: Final = 10.0
"""For all requests about one pasted text; then the address alone counts."""
_PORTS: Final = {"http": 80, "https": 443}


async def found(text: str) -> str:
    """Return the cards at a pasted address as a list of servers; the text itself where it is none or has none.

    Of an address with a path the card of that endpoint is read; of a host alone its AI catalogue.
    """
    address = _address(text)
    if not address:
        return text
    try:
        async with asyncio.timeout(_SECONDS):
            is_host = urlsplit(address).path in ("", "/")
            cards = await _of_catalog(address) if is_host else await _of_endpoint(address)
    except TimeoutError:
        return text
    return json.dumps({"servers": cards}).decode() if cards else text


def _address(text: str) -> str:
    """Return the address that a text is; empty where it is something else, or has what only its server may read."""
    try:
        entry = lines.entry_of(text)
        url = entry[1].get("url") if entry is not None and set(entry[1]) == {"url"} else None
        parts = urlsplit(url or "")
    except (DocumentRefused, ValueError):
        return ""
    is_plain = not (parts.query or parts.fragment or "@" in parts.netloc or "$" in text or "{" in text or "<" in text)
    return url if isinstance(url, str) and parts.netloc and is_plain else ""


async def _of_endpoint(address: str) -> list[Json]:
    card = await _read(address.rstrip("/") + _SUFFIX, CARD)
    if not _is_card(card):
        return []
    remotes = [each for each in card["remotes"] if isinstance(each, dict) and is_at(each.get("url"), address)]
    remotes.sort(key=lambda each: each["url"].rstrip("/") != address.rstrip("/"))
    return [{**card, "remotes": remotes}] if remotes else []


async def _of_catalog(address: str) -> list[Json]:
    catalog = await _read(address.rstrip("/") + _WELL_KNOWN, _CATALOG)
    entries = catalog.get("entries") if isinstance(catalog, dict) else None
    chosen = [
        each
        for each in (entries if isinstance(entries, list) else ())
        if isinstance(each, dict) and CARD in (each.get("type"), each.get("mediaType"))
    ]
    cards = await asyncio.gather(*(_of_entry(each) for each in chosen[:_MOST]))
    return [card for card in cards if _is_card(card)]


async def _of_entry(entry: dict[str, Any]) -> Any:
    if "data" in entry:
        return entry["data"]
    return await _read(entry["url"], CARD) if isinstance(entry.get("url"), str) else None


async def _read(address: str, kind: str) -> Any:
    """Return the JSON at an address; None where there is none to be had."""
    try:
        body = await registry.fetch(address, accept=f"{kind}, application/json")
        return jsonc.loads(body.decode("utf-8"))
    except (DocumentRefused, UnicodeDecodeError):
        return None


def _is_card(value: Any) -> bool:
    """Return whether a document says that it is a card: many servers answer every path with some JSON."""
    return (
        isinstance(value, dict)
        and str(value.get("$schema")).endswith(_SCHEMA)
        and isinstance(value.get("name"), str)
        and isinstance(value.get("remotes"), list)
    )


def is_at(url: object, address: str) -> bool:
    """Return whether a URL has the origin of an address."""
    try:
        return isinstance(url, str) and _origin(url) == _origin(address)
    except ValueError:
        return False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme.lower(), parts.hostname, parts.port or _PORTS.get(parts.scheme.lower())
