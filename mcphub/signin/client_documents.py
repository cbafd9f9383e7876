"""Client-id documents: a client whose id is an address says there what it is. Fetched through the egress guard."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlsplit

import httpx2
from asgiref.sync import async_to_sync
from oauth2_provider.cimd import CIMDError, _effective_max_age

from mcphub.signin import clients
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from tools_catalog.backends.http.answer import read
from tools_catalog.egress import guard

_SECONDS = 5.0
_MOST_BYTES = 16 * 1024


class OfPersons:
    """Lets a document be fetched for a person who is logged in: strangers make the hub fetch nothing."""

    def has_permission(self, request: Any, client_id: str) -> bool:
        return urlsplit(request.uri).path == "/oauth/authorize/" and clients.make_room()


class GuardedFetcher:
    """Called by django-oauth-toolkit, which keeps what it gives as a client until its time is over."""

    def fetch(self, client_id: str) -> tuple[dict[str, Any], int]:
        """Give the document and for how many seconds it holds; raise CIMDError."""
        parts = urlsplit(client_id)
        is_plain = parts.scheme == "https" and parts.path and not parts.fragment and "@" not in parts.netloc
        if not is_plain or any(part in (".", "..") for part in parts.path.split("/")):
            raise CIMDError("the address is not one that a client id may be")
        try:
            body, kept_for = async_to_sync(_fetch)(client_id)
            document = json.loads(body)
        except (HubError, httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise CIMDError(f"it cannot be fetched: {type(error).__name__}") from error
        if not isinstance(document, dict):
            raise CIMDError("it is not a JSON object")
        try:
            document["redirect_uris"] = clients.checked_redirects(document.get("redirect_uris"))
            document["client_name"] = clients.checked_name(document.get("client_name"))
        except clients.ClientRefused as refusal:
            raise CIMDError(str(refusal)) from refusal
        return document, _effective_max_age(kept_for)


async def _fetch(address: str) -> tuple[bytes, str]:
    async with (
        asyncio.timeout(_SECONDS),
        guard.client(timeout_seconds=_SECONDS) as client,
        client.stream("GET", address, headers={"Accept": "application/json"}) as response,
    ):
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if response.status_code != 200:
            raise CIMDError(f"its address answers with status {response.status_code}")
        if kind != "application/json" and not (kind.startswith("application/") and kind.endswith("+json")):
            raise CIMDError("its address answers no JSON")
        body, is_whole = await read(response, _MOST_BYTES)
        if not is_whole:
            raise CIMDError(f"it is larger than {_MOST_BYTES} bytes")
        return body, response.headers.get("cache-control", "")
