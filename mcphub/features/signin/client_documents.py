"""Client ID metadata documents: a client whose ID is a URL describes itself there. Fetched through the egress guard."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2
from asgiref.sync import async_to_sync
from oauth2_provider.cimd import CIMDError, _effective_max_age

from mcphub.features.signin import clients
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog.backends.http.answer import read
from tools_catalog.egress import guard

SECONDS = 5.0
MOST_BYTES = 16 * 1024


class OfPersons:
    """Allows fetching a document for a logged-in person only: strangers make the hub fetch nothing."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        return urlsplit(request.uri).path == "/oauth/authorize/" and clients.make_room()


class GuardedFetcher:
    """Called by django-oauth-toolkit, which keeps its result as a client until it expires."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Return the document and for how many seconds it holds; raise CIMDError."""
        parts = urlsplit(client_id)
        is_plain = parts.scheme == "https" and parts.path and not parts.fragment and "@" not in parts.netloc
        if not is_plain or any(part in (".", "..") for part in parts.path.split("/")):
            raise CIMDError("the address is not one that a client id may be")
        body, kept_for = async_to_sync(_fetched)(client_id)
        return checked(body), _effective_max_age(kept_for)


def checked(body: bytes) -> dict[str, Any]:
    """Return a document with acceptable addresses and name; raise CIMDError."""
    try:
        document = json.loads(body)
    except HubError as error:
        raise CIMDError("it is not JSON") from error
    if not isinstance(document, dict):
        raise CIMDError("it is not a JSON object")
    try:
        document["redirect_uris"] = clients.checked_redirects(document.get("redirect_uris"))
        document["client_name"] = clients.checked_name(document.get("client_name"))
    except clients.ClientRefused as refusal:
        raise CIMDError(str(refusal)) from refusal
    return document


async def read_document(client: httpx2.AsyncClient, address: str, seconds: float = SECONDS) -> tuple[bytes, str]:
    """Get the bytes at an address, and its Cache-Control; follow no redirect. Raises CIMDError."""
    try:
        async with (
            asyncio.timeout(seconds),
            client.stream("GET", address, headers={"Accept": "application/json"}) as response,
        ):
            kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
            if response.status_code != 200:
                raise CIMDError(f"its address answers with status {response.status_code}")
            if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
                raise CIMDError("its address answers no JSON")
            body, is_whole = await read(response, MOST_BYTES)
    except (HubError, httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise CIMDError(f"it cannot be fetched: {type(error).__name__}") from error
    if not is_whole:
        raise CIMDError(f"it is larger than {MOST_BYTES} bytes")
    return body, response.headers.get("cache-control", "")


async def _fetched(address: str) -> tuple[bytes, str]:
    async with guard.client(timeout_seconds=SECONDS) as client:
        return await read_document(client, address)
