"""Devices without a browser (RFC 8628): a client shows a short code, which its person enters on a page of the hub.

The toolkit's table of device grants holds them. Of both codes it holds digests; the endpoint that is asked for stands
before the scopes.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.utils import timezone
from oauth2_provider.models import Application, DeviceGrant

from mcphub.features.signin.grants import asking
from mcphub.features.signin.grants.asking import OAuthRefused
from mcphub.features.signin.grants.giving import give
from mcphub.features.signin.models import Consent
from sessions_app import endpoints
from sessions_app.protocol.json import Json

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
SECONDS = 600
INTERVAL_SECONDS = 5
MOST_WAITING = 1000
"""Of all clients; the oldest goes."""
MOST_A_MINUTE = 60
_LETTERS = "BCDFGHJKLMNPQRSTVWXZ"
"""Without vowels, so that no code is a word; eight of them are 25 billion codes."""
_LENGTH = 8


@dataclass(frozen=True, slots=True)
class WaitingDevice:
    """A device's request to a person."""

    grant: DeviceGrant
    client: Application
    endpoint: str
    scopes: tuple[str, ...]


def begin(request: HttpRequest) -> dict[str, Json]:
    """Start waiting for a person; return the codes for the client. Raises OAuthRefused."""
    client = _client(request)
    wanted = asking.wanted(request)
    now = timezone.now()
    with transaction.atomic():
        DeviceGrant.objects.filter(expires__lte=now).delete()
        if DeviceGrant.objects.filter(expires__gt=now + timedelta(seconds=SECONDS - 60)).count() >= MOST_A_MINUTE:
            words = "Too many devices asked just now. Try again in a minute."
            raise OAuthRefused("temporarily_unavailable", words, 429)
        old = DeviceGrant.objects.order_by("-pk").values_list("pk", flat=True)[MOST_WAITING - 1 :]
        DeviceGrant.objects.filter(pk__in=list(old)).delete()
        code = "".join(secrets.choice(_LETTERS) for _ in range(_LENGTH))
        secret = secrets.token_urlsafe(32)
        made = DeviceGrant.objects.create(
            client_id=client.client_id[:100],
            device_code=_digest(secret),
            user_code=_digest(code),
            scope=" ".join((wanted.endpoint, *wanted.scopes)),
            interval=INTERVAL_SECONDS,
            expires=now + timedelta(seconds=SECONDS),
        )
        # The device may ask for the first time at once.
        DeviceGrant.objects.filter(pk=made.pk).update(last_checked=now - timedelta(seconds=SECONDS))
    shown, page = f"{code[:4]}-{code[4:]}", f"{endpoints.issuer()}/oauth/device/"
    return {
        "device_code": secret,
        "user_code": shown,
        "verification_uri": page,
        "verification_uri_complete": f"{page}?code={shown}",
        "expires_in": SECONDS,
        "interval": INTERVAL_SECONDS,
    }


def waiting(code: str) -> WaitingDevice | None:
    """Return the request under a code as typed by a person; None without one."""
    letters = "".join(letter for letter in code.upper()[:40] if letter.isalpha())
    if len(letters) != _LENGTH or not letters.isascii():
        return None
    rows = DeviceGrant.objects.filter(user_code=_digest(letters), status=DeviceGrant.AUTHORIZATION_PENDING)
    grant = rows.filter(expires__gt=timezone.now()).first()
    client = Application.objects.filter(client_id=grant.client_id).first() if grant is not None else None
    if grant is None or client is None:
        return None
    endpoint, *scopes = grant.scope.split()
    return WaitingDevice(grant, client, endpoint, tuple(scopes))


def decide(device: WaitingDevice, user: Any, *, allow: bool) -> bool:
    """Store a person's decision; return whether it was in time."""
    status = DeviceGrant.AUTHORIZED if allow else DeviceGrant.DENIED
    with transaction.atomic():
        rows = DeviceGrant.objects.filter(pk=device.grant.pk, status=DeviceGrant.AUTHORIZATION_PENDING)
        if not rows.filter(expires__gt=timezone.now()).update(status=status, user=user if allow else None):
            return False
        if allow:
            Consent.give(user, device.client, device.endpoint, device.scopes)
    return True


def answer(request: HttpRequest) -> dict[str, Json]:
    """Return the tokens of a device once its person has allowed it; raise OAuthRefused, as while it waits."""
    client = _client(request)
    code = request.POST.get("device_code", "")
    now = timezone.now()
    with transaction.atomic():
        rows = DeviceGrant.objects.select_for_update(of=("self",)).filter(
            device_code=_digest(code), client_id=client.client_id
        )
        grant = rows.select_related("user").first()
        if grant is None:
            raise OAuthRefused("invalid_grant", "The device code is unknown, or was used before. Begin again.")
        if grant.expires <= now:
            raise OAuthRefused("expired_token", "The person did not come in time. Begin again.")
        if grant.status == DeviceGrant.DENIED:
            raise OAuthRefused("access_denied", "The person did not allow it.")
        before, is_new = grant.last_checked, grant.status == DeviceGrant.AUTHORIZATION_PENDING
        if is_new:
            rows.update(last_checked=now)
    if is_new:
        if now - before < timedelta(seconds=INTERVAL_SECONDS - 1):
            raise OAuthRefused("slow_down", f"Ask every {INTERVAL_SECONDS} seconds, and no more often.")
        raise OAuthRefused("authorization_pending", "The person has not decided yet. Ask again.")
    with transaction.atomic():
        if not DeviceGrant.objects.filter(pk=grant.pk, status=DeviceGrant.AUTHORIZED).delete()[0]:
            raise OAuthRefused("invalid_grant", "The device code was used before. Begin again.")
        endpoint, *scopes = grant.scope.split()
        is_allowed = Consent.objects.covering(grant.user, client, endpoint, scopes)
        if grant.user is None or not grant.user.is_active or not is_allowed:
            raise OAuthRefused("access_denied", "The person did not allow it, or took it back.")
        return give(grant.user, client, endpoint, scopes, can_refresh=True)


def _client(request: HttpRequest) -> Application:
    """Return the client of a request, which registered for devices; raise OAuthRefused.

    Anybody can name a client without a secret. One that signs people in by redirects gets its codes nowhere else.
    """
    client = asking.client_of(request)
    if client.authorization_grant_type != Application.GRANT_DEVICE_CODE:
        words = f"The client did not register for devices. Register it with {GRANT} among its grant_types."
        raise OAuthRefused("unauthorized_client", words)
    return client


def _digest(text: str) -> str:
    key = b"mcphub device codes " + settings.SECRET_KEY.encode()
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), hashlib.sha256).hex()
