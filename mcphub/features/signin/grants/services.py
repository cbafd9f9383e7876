"""Client credentials: a service that an operator made comes in with its client's id and secret, as its own account."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.http import HttpRequest
from oauth2_provider.generators import generate_client_id, generate_client_secret
from oauth2_provider.models import Application

from mcphub.features.signin.grants import asking
from mcphub.features.signin.grants.asking import OAuthRefused
from mcphub.features.signin.grants.giving import give
from mcphub.features.signin.models import Consent
from sessions_app import accountable
from sessions_app.protocol.json import Json

GRANT = "client_credentials"


@dataclass(frozen=True, slots=True)
class MadeService:
    """A new service's credentials, shown once."""

    client: Application
    secret: str


def make(
    name: str, endpoint: str, scopes: Iterable[str], groups: Iterable[Group], *, answers: User | None = None
) -> MadeService:
    """Create a service account: an account without a password, a client of its own, and its authorization.

    `answers`: the person who answers for it. None: its calls are approved by a superuser or two people.
    """
    secret = generate_client_secret()
    with transaction.atomic():
        account = get_user_model()(username=name)
        account.set_unusable_password()
        account.full_clean(exclude=["password"])
        account.save()
        account.groups.set(groups)
        client = Application.objects.create(
            client_id=generate_client_id(),
            client_secret=secret,
            name=name,
            user=account,
            client_type=Application.CLIENT_CONFIDENTIAL,
            authorization_grant_type=Application.GRANT_CLIENT_CREDENTIALS,
            registration_source=Application.RegistrationSource.MANUAL,
        )
        accountable.note_text_given(f"user:{account.pk}", also=[answers.pk if answers is not None else None])
        Consent.give(account, client, endpoint, scopes)
    return MadeService(client, secret)


def answer(request: HttpRequest) -> dict[str, Json]:
    """Return the token of a service; raise OAuthRefused."""
    client = asking.client_of(request, is_confidential=True)
    account = client.user
    if client.authorization_grant_type != Application.GRANT_CLIENT_CREDENTIALS or account is None:
        words = "This client signs people in. An operator makes clients for services, under Allowed clients."
        raise OAuthRefused("unauthorized_client", words)
    if not account.is_active:
        raise OAuthRefused("invalid_grant", "The account of the service is disabled. Ask the operator of the hub.")
    wanted = asking.wanted(request)
    allowed = Consent.objects.filter(user=account, client=client, endpoint=wanted.endpoint).first()
    if allowed is None:
        raise OAuthRefused("invalid_target", "The service may not use this endpoint. Ask the operator of the hub.")
    scopes = [scope for scope in wanted.scopes if scope in allowed.scopes.split()]
    if not scopes or (request.POST.get("scope", "").strip() and len(scopes) < len(wanted.scopes)):
        raise OAuthRefused("invalid_scope", f"The service may ask for {allowed.scopes}.")
    return give(account, client, wanted.endpoint, scopes)
