"""Introspection of tokens by a client with a secret (RFC 7662)."""

from __future__ import annotations

import hashlib

from django.http import HttpRequest
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application

from mcphub.features.signin.grants import asking
from sessions_app import endpoints, tokens
from sessions_app.protocol.json import Json

_INACTIVE: dict[str, Json] = {"active": False}


def answer(request: HttpRequest) -> dict[str, Json]:
    """Return the current state of a token: to its own client, and to an operator's service accounts.

    Raises OAuthRefused for a client without a secret.
    """
    client = asking.client_of(request, is_confidential=True)
    text = request.POST.get("token", "")
    if not tokens.is_own(text):
        return _INACTIVE
    rows = AccessToken.objects.filter(token_checksum=hashlib.sha256(text.encode()).hexdigest())
    if client.registration_source != Application.RegistrationSource.MANUAL:
        rows = rows.filter(application=client)
    row = rows.select_related("user", "application").first()
    if row is None or row.user is None or not row.user.is_active or row.expires <= timezone.now():
        return _INACTIVE
    return {
        "active": True,
        "iss": endpoints.issuer(),
        "sub": f"user:{row.user.pk}",
        "username": row.user.get_username(),
        "client_id": row.application.client_id if row.application else "",
        "scope": row.scope,
        "aud": row.resource,
        "token_type": "Bearer",
        "exp": int(row.expires.timestamp()),
        "iat": int(row.created.timestamp()),
    }
