"""Requests to an issuer, through the egress guard: its metadata, its keys, and introspection."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from dataclasses import dataclass
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx2

from mcphub.features.signin.clients import is_loopback
from mcphub.features.signin.issuers.trust import Trust
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from tools_catalog.backends.http.answer import read
from tools_catalog.egress import guard

SECONDS = 5.0
MOST_BYTES = 256 * 1024
_OPENID, _OAUTH = "/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"


class IssuerSilent(Exception):
    """An issuer did not answer, or not correctly; the message is the problem."""


@dataclass(frozen=True, slots=True)
class IssuerDocument:
    """An issuer's metadata."""

    address: str
    keys_address: str
    question_address: str


def is_address(text: str) -> bool:
    """Return whether the hub may ask at an address: https, or http on this machine."""
    try:
        parts = urlsplit(text)
        host = parts.hostname
    except ValueError:
        return False
    if not text.isascii() or not text.isprintable() or " " in text or "#" in text or "@" in parts.netloc or not host:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host))


def addresses_of(issuer: str) -> list[str]:
    """Return where an issuer's document may be, in the order in which it is looked for (OpenID Connect, RFC 8414)."""
    parts = urlsplit(issuer)
    origin, path = f"{parts.scheme}://{parts.netloc}", parts.path.rstrip("/")
    return list(dict.fromkeys([f"{origin}{path}{_OPENID}", f"{origin}{_OAUTH}{path}", f"{origin}{_OPENID}{path}"]))


async def discover(issuer: str) -> IssuerDocument:
    """Read an issuer's document; raise IssuerSilent."""
    failures = []
    async with guard.client(timeout_seconds=SECONDS) as client:
        for address in addresses_of(issuer):
            try:
                document = await _asked(client, address)
            except IssuerSilent as error:
                failures.append(f"{address}: {error}")
                continue
            if document.get("issuer") != issuer:
                raise IssuerSilent(
                    f"{address} is the document of another issuer, {str(document.get('issuer'))[:200]!r}. Write the "
                    "issuer into the row as its tokens have it. If they have this one, write its JWKS URL or "
                    "introspection URL, too: then its document is not read."
                )
            return IssuerDocument(
                address, _address(document, "jwks_uri"), _address(document, "introspection_endpoint", is_needed=False)
            )
    raise IssuerSilent(" ".join(failures))


async def keys(trust: Trust) -> list[Json]:
    """Return the keys of an issuer as it publishes them; raise IssuerSilent."""
    address = trust.keys_address or (await discover(trust.issuer)).keys_address
    async with guard.client(timeout_seconds=SECONDS) as client:
        found = (await _asked(client, address)).get("keys")
    if not isinstance(found, list):
        raise IssuerSilent(f"{address} holds no array of keys.")
    return found


async def question(trust: Trust, token: str) -> dict[str, Json]:
    """Ask an issuer about a token (RFC 7662); raise IssuerSilent."""
    address = trust.question_address or (await discover(trust.issuer)).question_address
    if not address:
        raise IssuerSilent("The issuer's document names no introspection_endpoint. Write its address into the row.")
    words = f"{quote_plus(trust.client_id)}:{quote_plus(trust.secret)}"
    headers = {"Authorization": f"Basic {b64encode(words.encode()).decode()}"}
    async with guard.client(timeout_seconds=SECONDS) as client:
        return await _asked(client, address, headers, {"token": token, "token_type_hint": "access_token"})


async def _asked(
    client: httpx2.AsyncClient, address: str, headers: dict[str, str] | None = None, form: dict[str, str] | None = None
) -> dict[str, Json]:
    """Get a JSON object, without following redirects; raise IssuerSilent."""
    sent = {"Accept": "application/json", **(headers or {})}
    content = None
    if form is not None:
        sent["Content-Type"] = "application/x-www-form-urlencoded"
        content = urlencode(form).encode()
    method = "GET" if form is None else "POST"
    try:
        async with asyncio.timeout(SECONDS), client.stream(method, address, headers=sent, content=content) as response:
            if response.status_code != 200:
                raise IssuerSilent(f"it answers with status {response.status_code}.")
            body, is_whole = await read(response, MOST_BYTES)
    except HubError as error:
        raise IssuerSilent(f"it may not be asked: {error}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise IssuerSilent(f"it cannot be reached: {type(error).__name__}.") from error
    if not is_whole:
        raise IssuerSilent(f"its answer is larger than {MOST_BYTES} bytes.")
    try:
        value = json.loads(body, are_long_integers_floats=True)
    except HubError as error:
        raise IssuerSilent("its answer is not JSON.") from error
    if not isinstance(value, dict):
        raise IssuerSilent("its answer is no JSON object.")
    return value


def _address(document: dict[str, Json], name: str, *, is_needed: bool = True) -> str:
    value = document.get(name)
    if value is None and not is_needed:
        return ""
    if not isinstance(value, str) or not is_address(value):
        raise IssuerSilent(f"The issuer's document has no usable {name}: https, or http on this machine.")
    return value
