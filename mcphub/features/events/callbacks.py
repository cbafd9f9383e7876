"""Requests to the callbacks of clients: through the egress guard, signed, without redirects (SEP-3415, Webhook)."""

from __future__ import annotations

import asyncio
import hmac
import secrets as randomness
import ssl
import time
from collections.abc import Callable
from typing import TypeAlias
from urllib.parse import urlsplit

import httpx2
from django.core.exceptions import ValidationError

from mcphub.features.notifications import messages
from mcphub.features.notifications.models import signing_key
from sessions_app.protocol import json
from sessions_app.protocol.errors import EgressRefused, InvalidParams, ParseError
from sessions_app.protocol.json import Json
from tools_catalog.egress import guard
from tools_catalog.egress.rules import EgressPolicy

PATIENCE_SECONDS = 10.0
LONGEST_URL = 2000
_MOST_READ = 65_536
"""Of the answer to a challenge."""
_FINAL = (410, 413)
"""The receiver wants no repetition of this event."""
MakeClient: TypeAlias = Callable[[], httpx2.AsyncClient]


class CallbackFailed(Exception):
    """An attempt failed. `reason` is a category of the extension, never words of the other side."""

    def __init__(self, reason: str, *, is_final: bool = False, is_refused: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.is_final = is_final
        self.is_refused = is_refused
        """The egress guard refused the address."""

    @property
    def is_unreachable(self) -> bool:
        return not self.reason.startswith("http_")


def client() -> httpx2.AsyncClient:
    return guard.client(timeout_seconds=PATIENCE_SECONDS, connections=1)


def checked_url(url: Json) -> str:
    """Read the address of a callback; raise InvalidParams."""
    if not isinstance(url, str) or not url or len(url) > LONGEST_URL or any(ord(letter) <= 32 for letter in url):
        raise InvalidParams(f"delivery.url must be an https URL of at most {LONGEST_URL} characters.")
    try:
        scheme = urlsplit(url).scheme.lower()
        if scheme != "https":
            raise InvalidParams("delivery.url must be an https URL.")
        EgressPolicy.from_settings().check_url(url)
    except (EgressRefused, ValueError) as error:
        raise InvalidParams(f"The hub does not send events to delivery.url. {error}") from error
    return url


def checked_secret(secret: Json) -> str:
    """Read the secret of a callback; raise InvalidParams."""
    try:
        signing_key(secret if isinstance(secret, str) else "")
    except ValidationError as error:
        raise InvalidParams("delivery.secret must be whsec_ followed by 24 to 64 bytes in base64.") from error
    return str(secret)


def headers_of(id_: str, body: bytes, secrets: tuple[str, ...], subscription: str) -> dict[str, str]:
    """Return the headers of one attempt, signed by each secret."""
    seconds = int(time.time())
    headers = messages.webhook_headers(id_, seconds, body, signing_key(secrets[0]))
    further = [f"v1,{messages.signature(id_, seconds, body, signing_key(each))}" for each in secrets[1:]]
    signatures = " ".join([headers["webhook-signature"], *further])
    return {**headers, "webhook-signature": signatures, "x-mcp-subscription-id": subscription}


async def post(make: MakeClient, url: str, headers: dict[str, str], body: bytes) -> bytes:
    """Send one request; return the beginning of the answer. Raises CallbackFailed."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS), make() as http:
            response = await http.send(http.build_request("POST", url, headers=headers, content=body), stream=True)
            try:
                if not response.is_success:
                    reason = "http_5xx" if response.status_code >= 500 else "http_4xx"
                    raise CallbackFailed(reason, is_final=response.status_code in _FINAL)
                answer = b""
                async for piece in response.aiter_bytes():
                    answer += piece
                    if len(answer) > _MOST_READ:
                        break
                return answer
            finally:
                await response.aclose()
    except EgressRefused as error:
        raise CallbackFailed("connection_refused", is_refused=True) from error
    except (TimeoutError, httpx2.TimeoutException) as error:
        raise CallbackFailed("timeout") from error
    except httpx2.HTTPError as error:
        is_tls = any(isinstance(cause, ssl.SSLError) for cause in guard.causes(error))
        raise CallbackFailed("tls_error" if is_tls else "connection_refused") from error


async def control(
    make: MakeClient, url: str, secrets: tuple[str, ...], subscription: str, envelope: dict[str, Json]
) -> bytes:
    """Send a body that is no event; return the beginning of the answer. Raises CallbackFailed."""
    body = json.dumps(envelope)
    id_ = f"msg_{envelope['type']}_{randomness.token_hex(12)}"
    return await post(make, url, headers_of(id_, body, secrets, subscription), body)


async def verify(make: MakeClient, url: str, secret: str, subscription: str) -> None:
    """Have the receiver return a challenge, which proves that it wants the events. Raises CallbackFailed."""
    nonce = randomness.token_urlsafe(32)
    envelope: dict[str, Json] = {"type": "verification", "challenge": nonce}
    answer = await control(make, url, (secret,), subscription, envelope)
    try:
        returned = json.loads(answer)
    except ParseError as error:
        raise CallbackFailed("challenge_failed") from error
    challenge = returned.get("challenge") if isinstance(returned, dict) else None
    if not isinstance(challenge, str) or not hmac.compare_digest(challenge.encode(), nonce.encode()):
        raise CallbackFailed("challenge_failed")
