"""The server cards of a hub's endpoints (SEP-2127) and the AI catalogue that lists them, as bytes with entity tags.

They name only what an anonymous reader may know: the endpoint of the whole hub, and toolsets without groups and
workspace where the hub admits anonymous callers or is a public registry. Addresses are the configured public ones.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from django.conf import settings

from mcphub.server.results import SERVER_INFO
from sessions_app import endpoints
from sessions_app.protocol import json, revisions
from sessions_app.protocol.json import Json
from tools_catalog.catalog.snapshot import Catalog
from tools_catalog.catalog.toolsets import Toolset

CARD: Final = "application/mcp-server-card+json"
CATALOG: Final = "application/ai-catalog+json"
SUFFIX: Final = "/server-card"
"""Behind the address of a Streamable HTTP endpoint; reserved by SEP-2127."""

_SCHEMA: Final = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"
_VERSION: Final = "1.0"
"""Of the AI catalogue's format."""
_LONGEST_WORDS: Final = 100
"""Characters of a title and of a description, by the schema of cards."""
_MOST_TOOLSETS: Final = 500
"""In the catalogue; a card that it leaves out is served all the same."""
_MOST_KEPT: Final = 1000


@dataclass(frozen=True, slots=True)
class DiscoveryDocument:
    """One document to serve."""

    body: bytes
    media_type: str

    @property
    def tag(self) -> str:
        """A strong entity tag, with its quotes."""
        return f'"{hashlib.sha256(self.body).hexdigest()[:32]}"'


class DiscoveryDocuments:
    """The documents of one state of the catalogue. Each is made once for each public address of the hub."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog
        self._made: dict[tuple[str, str | None], DiscoveryDocument | None] = {}

    def card(self, toolset: str, host: str | None) -> DiscoveryDocument | None:
        """Return the card of the whole hub, or of a toolset; None where an anonymous reader may know of none."""
        base = endpoints.origin_for(host)
        if toolset and toolset not in self.catalog.toolsets:
            return None  # keeps nothing, so that strangers cannot fill the memory with names
        return self._kept(base, toolset)

    def listing(self, host: str | None) -> DiscoveryDocument:
        """Return the AI catalogue."""
        found = self._kept(endpoints.origin_for(host), None)
        assert found is not None
        return found

    def _kept(self, base: str, toolset: str | None) -> DiscoveryDocument | None:
        key = base, toolset
        if key not in self._made:
            if len(self._made) >= _MOST_KEPT:
                self._made.clear()
            self._made[key] = self._catalog(base) if toolset is None else self._card(base, toolset)
        return self._made[key]

    def _card(self, base: str, slug: str) -> DiscoveryDocument | None:
        if not slug:
            return DiscoveryDocument(json.dumps(_hub(base)), CARD)
        found = self.catalog.toolsets[slug]
        return DiscoveryDocument(json.dumps(_of_toolset(base, found)), CARD) if _is_public(found) else None

    def _catalog(self, base: str) -> DiscoveryDocument:
        public = sorted(slug for slug, toolset in self.catalog.toolsets.items() if _is_public(toolset))
        cards = [_hub(base), *(_of_toolset(base, self.catalog.toolsets[slug]) for slug in public[:_MOST_TOOLSETS])]
        listed = {
            "specVersion": _VERSION,
            "host": {"displayName": SERVER_INFO["title"]},
            "entries": [_entry(card) for card in cards],
        }
        return DiscoveryDocument(json.dumps(listed), CATALOG)


def _is_public(toolset: Toolset) -> bool:
    may_know = settings.MCPHUB_ALLOW_ANONYMOUS or settings.MCPHUB_PUBLIC_REGISTRY
    return bool(may_know) and not toolset.groups and toolset.workspace is None


def _hub(base: str) -> dict[str, Json]:
    return _described("hub", str(SERVER_INFO["title"]), "All tools of this hub.", base + endpoints.MAIN)


def _of_toolset(base: str, toolset: Toolset) -> dict[str, Json]:
    words = " ".join(toolset.instructions.split()) or f"The toolset {toolset.slug} of this hub."
    address = f"{base}{endpoints.MAIN}/s/{toolset.slug}"
    return _described(f"toolset.{toolset.slug}", toolset.title or toolset.slug, words, address)


def _described(name: str, title: str, words: str, address: str) -> dict[str, Json]:
    return {
        "$schema": _SCHEMA,
        "name": f"{endpoints.namespace()}/{name}",
        "version": SERVER_INFO["version"],
        "title": title[:_LONGEST_WORDS],
        "description": words if len(words) <= _LONGEST_WORDS else f"{words[: _LONGEST_WORDS - 1]}…",
        "remotes": [
            {
                "type": "streamable-http",
                "url": address,
                "supportedProtocolVersions": list(revisions.ALL),
                **({} if settings.MCPHUB_ALLOW_ANONYMOUS else {"headers": [_key()]}),
            }
        ],
    }


def _key() -> dict[str, Json]:
    """Return the header of a client with a key. Where clients can sign in they need none."""
    words = "A key of the hub. A client that signs in needs none." if settings.MCPHUB_SIGN_IN else "A key of the hub."
    is_required = not settings.MCPHUB_SIGN_IN
    return {
        "name": "Authorization",
        "description": words,
        "isRequired": is_required,
        "isSecret": True,
        "value": "Bearer {api_key}",
        "variables": {"api_key": {"description": words, "isRequired": is_required, "isSecret": True}},
    }


def _entry(card: dict[str, Json]) -> dict[str, Json]:
    name = str(card["name"]).rpartition("/")[2]
    return {
        "identifier": f"urn:air:{endpoints.publisher()}:mcp:{name}",
        "displayName": card["title"],
        "type": CARD,
        "url": f"{card['remotes'][0]['url']}{SUFFIX}",
    }
