"""Makes tokens, on record and within the bounds that hold for every way to them."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from oauth2_provider.models import AccessToken, Application, RefreshToken, set_token_value

from mcphub.features.signin import server
from mcphub.features.signin.grants.asking import OAuthRefused
from sessions_app import endpoints, tokens
from sessions_app.protocol.json import Json


def give(
    user: Any, client: Application, endpoint: str, scopes: Iterable[str], *, can_refresh: bool = False
) -> dict[str, Json]:
    """Make an access token, and a refresh token where the client may come back with one; give the answer to the client.

    Raises OAuthRefused for too many of one person with one client.
    """
    now = timezone.now()
    recent = AccessToken.objects.filter(user=user, application=client, created__gt=now - timedelta(minutes=1))
    if recent.count() >= server.TOKENS_A_MINUTE:
        words = "Too many tokens were given just now. Try again in a minute."
        raise OAuthRefused("temporarily_unavailable", words, 429)
    scope, resource = " ".join(scopes), [endpoints.identifier(endpoint)]
    text = tokens.new_text(tokens.ACCESS)
    answer: dict[str, Json] = {
        "access_token": text,
        "token_type": "Bearer",
        "expires_in": settings.MCPHUB_ACCESS_TOKEN_SECONDS,
        "scope": scope,
    }
    with transaction.atomic():
        row = AccessToken(
            user=user,
            application=client,
            scope=scope,
            resource=resource,
            expires=now + timedelta(seconds=settings.MCPHUB_ACCESS_TOKEN_SECONDS),
        )
        set_token_value(row, text)
        row.save()
        if can_refresh:
            answer["refresh_token"] = tokens.new_text(tokens.REFRESH)
            coming_back = RefreshToken(
                user=user, application=client, access_token=row, token_family=uuid.uuid4(), resource=resource
            )
            set_token_value(coming_back, answer["refresh_token"])
            coming_back.save()
            server.bound_sign_ins(user, client)
        server.record("token.issued", row)
    return answer
