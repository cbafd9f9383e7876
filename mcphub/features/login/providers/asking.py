"""Requests to a provider, through the egress guard: discovery, keys, the token of a code, the person's claims.

Discovery and keys are kept for some minutes in each process. A failure is cached for some seconds, so that strangers
who press a provider's button cause few requests.
"""

from __future__ import annotations

import asyncio
import base64
import threading
import time
from dataclasses import dataclass, field
from urllib.parse import quote

import httpx2
import jwt
from asgiref.sync import async_to_sync
from django.urls import reverse

from mcphub.features.login.models import LoginProvider
from mcphub.features.login.providers import oidc
from mcphub.features.login.providers.oidc import LoginRefused, Metadata, ProviderFault
from sessions_app import endpoints
from sessions_app.protocol import json
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from tools_catalog import secrets
from tools_catalog.backends.http.answer import read
from tools_catalog.egress import guard

SECONDS = 8.0
MOST_BYTES = 256 * 1024
_KEPT_SECONDS = 300.0
_FAILURE_KEPT_SECONDS = 5.0
_KEYS_AGAIN_SECONDS = 10.0
"""So long after they were read, keys are read again for a key id that is not among them."""
_MOST_KEPT = 100


@dataclass(slots=True)
class _KnownIssuer:
    """One issuer's responses, and their time. Read and replaced under `lock`, so that one request asks for many."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    metadata: Metadata | None = None
    read_at: float = float("-inf")
    fault: str = ""
    keys: dict[str, list[jwt.PyJWK]] | None = None
    keys_at: float = float("-inf")


_known: dict[str, _KnownIssuer] = {}
_known_lock = threading.Lock()


def redirect_uri(provider: LoginProvider) -> str:
    """Return the address that is registered at the provider, to which a login leads back."""
    return endpoints.issuer() + reverse("login-back", args=[provider.slug])


def logout_of(provider: LoginProvider) -> str:
    """Return where people end their login at the provider; empty where it has no such page, or cannot be asked."""
    if provider.kind == LoginProvider.Kind.SAML:
        return ""
    try:
        metadata = metadata_of(provider.issuer)
    except ProviderFault:
        return ""
    return oidc.logout_address(metadata, provider.client_id, endpoints.issuer() + reverse("login"))


def metadata_of(issuer: str, *, fresh: bool = False) -> Metadata:
    """Return an issuer's metadata; raise ProviderFault. `fresh`: ask it in any case."""
    known = _of(issuer)
    with known.lock:
        age = time.monotonic() - known.read_at
        if fresh or age > (_FAILURE_KEPT_SECONDS if known.fault else _KEPT_SECONDS):
            try:
                known.metadata, known.fault = oidc.metadata_of(issuer, _get(oidc.discovery_address(issuer))), ""
            except ProviderFault as fault:
                known.metadata, known.fault = None, str(fault)
            known.read_at = time.monotonic()
        if known.metadata is None:
            raise ProviderFault(known.fault)
        return known.metadata


def keys_of(metadata: Metadata, *, again: bool = False, fresh: bool = False) -> dict[str, list[jwt.PyJWK]]:
    """Return the issuer's keys; raise ProviderFault. `again`: those that are kept do not have the one that is
    wanted.
    """
    known = _of(metadata.issuer)
    with known.lock:
        age = time.monotonic() - known.keys_at
        if fresh or known.keys is None or age > (_KEYS_AGAIN_SECONDS if again else _KEPT_SECONDS):
            known.keys = oidc.keys_of(_get(metadata.jwks_uri))
            known.keys_at = time.monotonic()
        return known.keys


def claims_for(
    provider: LoginProvider, metadata: Metadata, code: str, redirect_uri: str, started: oidc.Started
) -> dict[str, Json]:
    """Redeem a code, and return the claims about the person. Raises LoginRefused, ProviderFault."""
    answer = _redeemed(provider, metadata, code, redirect_uri, started.verifier)
    token = answer.get("id_token")
    if not isinstance(token, str):
        raise LoginRefused("id_token", "none")
    try:
        claims = oidc.claims_of(token, keys_of(metadata), metadata, provider.client_id, started.nonce)
    except oidc.UnknownKey:
        claims = oidc.claims_of(token, keys_of(metadata, again=True), metadata, provider.client_id, started.nonce)
    wanted = (provider.username_claim, provider.email_claim, provider.groups_claim)
    access = answer.get("access_token")
    if (
        metadata.userinfo_endpoint
        and isinstance(access, str)
        and not all(oidc.texts_in(claims, name) for name in wanted)
    ):
        more = _get(metadata.userinfo_endpoint, authorization=f"Bearer {access}")
        if not isinstance(more, dict) or more.get("sub") != claims["sub"]:
            raise LoginRefused("userinfo", "another subject")
        claims = {**more, **claims}
    return claims


def _redeemed(
    provider: LoginProvider, metadata: Metadata, code: str, redirect_uri: str, verifier: str
) -> dict[str, Json]:
    form = {"grant_type": "authorization_code", "code": code, "redirect_uri": redirect_uri, "code_verifier": verifier}
    try:
        secret = provider.secret()
    except secrets.SecretError as error:
        raise ProviderFault(str(error)) from error
    authorization = ""
    if secret and metadata.takes_basic:
        pair = f"{quote(provider.client_id, safe='')}:{quote(secret, safe='')}"
        authorization = "Basic " + base64.b64encode(pair.encode()).decode()
    elif secret:
        form |= {"client_id": provider.client_id, "client_secret": secret}
    else:
        form["client_id"] = provider.client_id
    status, answer = async_to_sync(_asked)("POST", metadata.token_endpoint, authorization, form)
    if status == 200 and isinstance(answer, dict):
        return answer
    said = str(answer.get("error"))[:60] if isinstance(answer, dict) else f"status {status}"
    if said == "invalid_grant":
        raise LoginRefused("code", said)
    raise ProviderFault(f"The provider does not redeem the code: {said}. Look at the client id and the secret.")


def _get(address: str, authorization: str = "") -> Json:
    status, answer = async_to_sync(_asked)("GET", address, authorization, None)
    if status != 200:
        raise ProviderFault(f"{address} answers with status {status}.")
    return answer


async def _asked(method: str, address: str, authorization: str, form: dict[str, str] | None) -> tuple[int, Json]:
    """Return the status, and the JSON of the answer (None where it is none); follow no redirect."""
    headers = {"Accept": "application/json", **({"Authorization": authorization} if authorization else {})}
    try:
        async with (
            asyncio.timeout(SECONDS),
            guard.client(timeout_seconds=SECONDS) as client,
            client.stream(method, address, headers=headers, data=form) as response,
        ):
            body, is_whole = await read(response, MOST_BYTES)
    except HubError as error:
        raise ProviderFault(f"{address} cannot be asked: {error}") from error
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise ProviderFault(f"{address} cannot be reached ({type(error).__name__}).") from error
    if not is_whole:
        raise ProviderFault(f"{address} answers with more than {MOST_BYTES} bytes.")
    try:
        return response.status_code, json.loads(body)
    except HubError as error:
        if response.status_code == 200:
            raise ProviderFault(f"{address} answers no JSON.") from error
        return response.status_code, None


def _of(issuer: str) -> _KnownIssuer:
    with _known_lock:
        if issuer not in _known and len(_known) >= _MOST_KEPT:
            _known.clear()
        return _known.setdefault(issuer, _KnownIssuer())
