"""Requests to the token endpoint and its neighbours, read and checked: the client, and its wishes."""

from __future__ import annotations

import binascii
from base64 import b64decode
from dataclasses import dataclass
from urllib.parse import unquote_plus

from django.contrib.auth.hashers import check_password
from django.http import HttpRequest
from oauth2_provider.models import Application
from oauthlib.oauth2.rfc6749 import errors

from mcphub.features.signin.server import OFFLINE, endpoint_asked
from sessions_app import endpoints


class OAuthRefused(Exception):
    """A request that cannot be answered; `error` is the OAuth code, the message has the next step."""

    def __init__(self, error: str, words: str, status: int = 400) -> None:
        super().__init__(words)
        self.error = error
        self.status = status


@dataclass(frozen=True, slots=True)
class Wanted:
    """A client's request: one endpoint, and scopes."""

    endpoint: str
    scopes: tuple[str, ...]


def client_of(request: HttpRequest, *, is_confidential: bool = False) -> Application:
    """Return the authenticated client of a request; raise OAuthRefused."""
    client_id, secret = _credentials(request)
    client = Application.objects.filter(client_id=client_id).select_related("user").first() if client_id else None
    if client is None:
        raise OAuthRefused("invalid_client", "The client is unknown. Register it again.", 401)
    if client.client_type == Application.CLIENT_PUBLIC:
        if is_confidential or secret:
            raise OAuthRefused("unauthorized_client", "This is for clients with a secret alone.")
        return client
    if not secret or not check_password(secret, client.client_secret):
        raise OAuthRefused("invalid_client", "The client's secret is missing or wrong.", 401)
    return client


def _credentials(request: HttpRequest) -> tuple[str, str]:
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return request.POST.get("client_id", ""), request.POST.get("client_secret", "")
    try:
        client_id, _, secret = b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise OAuthRefused("invalid_client", "The Authorization header is not one of Basic.", 401) from error
    client_id, secret = unquote_plus(client_id), unquote_plus(secret)
    if "\x00" in client_id:
        raise OAuthRefused("invalid_client", "The client is unknown. Register it again.", 401)
    return client_id, secret


def wanted(request: HttpRequest) -> Wanted:
    """Return a client's requested endpoint and scopes; raise OAuthRefused."""
    try:
        endpoint = endpoint_asked(request.POST.getlist("resource"))
    except errors.OAuth2Error as error:
        raise OAuthRefused(error.error, error.description) from error
    return Wanted(endpoint, scopes_asked(request.POST.get("scope", ""), endpoint))


def scopes_asked(text: str, endpoint: str) -> tuple[str, ...]:
    """Return the scopes that a text names, those of the endpoint where it names none; raise OAuthRefused."""
    named = [scope for scope in text.split() if scope != OFFLINE]
    if not set(named) <= set(endpoints.SCOPES):
        raise OAuthRefused("invalid_scope", "Ask for tools:list, tools:call or chat.")
    needed = endpoints.scopes_of(endpoint)
    return tuple(scope for scope in needed if scope in named) if named else needed
