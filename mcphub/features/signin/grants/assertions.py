"""Enterprise-managed authorization: a token for the identity assertion (ID-JAG) of a trusted issuer (RFC 7523)."""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import async_to_sync
from django.db import IntegrityError, transaction
from django.http import HttpRequest
from oauth2_provider.models import Application, IDToken

from mcphub.features.signin.grants import asking
from mcphub.features.signin.grants.asking import OAuthRefused
from mcphub.features.signin.grants.giving import give
from mcphub.features.signin.issuers import keys, persons, trust
from mcphub.features.signin.issuers.documents import IssuerSilent
from mcphub.features.signin.issuers.keys import KeyStore
from mcphub.features.signin.issuers.models import Issuer
from mcphub.features.signin.issuers.trust import TokenRefused, Trust
from mcphub.features.signin.models import Consent
from mcphub.process import runtime
from sessions_app import endpoints
from sessions_app.protocol.json import Json

GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
PROFILE = "urn:ietf:params:oauth:grant-profile:id-jag"
TYPE = "oauth-id-jag+jwt"
LONGEST_SECONDS = 3600
"""An assertion that holds longer is refused: it is remembered for so long."""


def answer(request: HttpRequest) -> dict[str, Json]:
    """Return a client a token for an assertion; raise OAuthRefused."""
    client = asking.client_of(request, is_confidential=True)
    text = request.POST.get("assertion", "")
    try:
        rule, claims = _believed(text)
        subject = _checked(claims, rule, client)
        endpoint, scopes = _wanted(request, claims)
        with transaction.atomic():
            person = persons.person_of(rule, subject, claims)
            _use_once(rule, claims, person, client)
    except TokenRefused as refusal:
        raise OAuthRefused("invalid_grant", f"The assertion is not accepted. {refusal}") from refusal
    except IssuerSilent as error:
        words = "The issuer of the assertion does not answer. Try again in a moment."
        raise OAuthRefused("temporarily_unavailable", words, 503) from error
    with transaction.atomic():
        if not Consent.objects.covering(person, client, endpoint, scopes):
            Consent.give(person, client, endpoint, scopes, reason=f"by an assertion of the issuer {rule.name}")
        return give(person, client, endpoint, scopes)


def _believed(text: str) -> tuple[Trust, Mapping[str, Json]]:
    """Return the claims of an assertion with a valid signature, and its issuer."""
    token = trust.opened(text)
    kind = token.header.get("typ")
    if not isinstance(kind, str) or kind.lower().removeprefix("application/") != TYPE or "crit" in token.header:
        raise TokenRefused(f"Its type must be {TYPE}.")
    row = Issuer.objects.filter(issuer=token.issuer, enabled=True, takes_assertions=True).first()
    if row is None:
        raise TokenRefused("It is of an issuer that this hub does not take assertions of.")
    rule = row.trust()
    if token.algorithm not in rule.algorithms or len(token.key_id) > 255:
        raise TokenRefused("It is signed in a way that this hub does not accept.")
    hub = runtime.current()
    tokens = hub.foreign_tokens if hub is not None else None
    store = tokens.keys if tokens is not None else KeyStore()
    key = async_to_sync(store.find)(rule, token.key_id, token.algorithm)
    keys.verify(text, key, token.algorithm)
    return rule, token.claims


def _checked(claims: Mapping[str, Json], rule: Trust, client: Application) -> str:
    """Check the claims of an assertion; return its subject."""
    audience = claims.get("aud")
    if audience not in (endpoints.issuer(), [endpoints.issuer()]):
        raise TokenRefused(f"Its audience must be {endpoints.issuer()} alone.")
    if claims.get("client_id") != client.client_id:
        raise TokenRefused("It is for another client.")
    ends, lifetime = trust.lifetime(claims, time.time())
    for check in lifetime:
        if not check.is_good:
            raise TokenRefused(check.words)
    if ends > time.time() + LONGEST_SECONDS:
        raise TokenRefused("It holds for more than an hour.")
    subject, name = claims.get("sub"), claims.get("jti")
    if not isinstance(subject, str) or not 0 < len(subject) <= 255 or not subject.isprintable():
        raise TokenRefused("It has no usable sub.")
    if not isinstance(name, str) or not 0 < len(name) <= 255:
        raise TokenRefused("It has no usable jti.")
    return subject


def _wanted(request: HttpRequest, claims: Mapping[str, Json]) -> tuple[str, tuple[str, ...]]:
    """Return the endpoint and the scopes: those of the assertion, of which the client may ask for less."""
    told = claims.get("resource")
    named = [told] if isinstance(told, str) else told if isinstance(told, list) else []
    found = {endpoints.named(each) for each in named if isinstance(each, str)} - {""}
    asked = {endpoints.named(each) for each in request.POST.getlist("resource")}
    if asked:
        found &= asked
    if len(found) != 1:
        raise OAuthRefused("invalid_target", "The assertion must name one endpoint of this hub as its resource.")
    endpoint = found.pop()
    value = claims.get("scope")
    allowed = asking.scopes_asked(value if isinstance(value, str) else "", endpoint)
    wanted = asking.scopes_asked(request.POST.get("scope", ""), endpoint)
    scopes = tuple(scope for scope in wanted if scope in allowed)
    if not scopes:
        raise OAuthRefused("invalid_scope", "The assertion does not allow these scopes.")
    return endpoint, scopes


def _use_once(rule: Trust, claims: Mapping[str, Json], person: Any, client: Application) -> None:
    """Note an assertion as used, by a digest; raise TokenRefused where it was."""
    digest = hashlib.sha256(f"{rule.issuer}\n{claims['jti']}".encode()).digest()
    ends = datetime.fromtimestamp(float(claims["exp"]) + 60, UTC)
    try:
        with transaction.atomic():
            IDToken.objects.create(
                jti=uuid.UUID(bytes=digest[:16]), user=person, application=client, expires=ends, scope=""
            )
    except IntegrityError as error:
        raise TokenRefused("It was used before. Get a new one.") from error
