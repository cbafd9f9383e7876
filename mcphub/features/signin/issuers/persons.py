"""The person behind an issuer's subject: a link, made once by account name, and followed from then on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.contrib.auth.validators import UnicodeUsernameValidator
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction

from mcphub.features.login.models import LinkedIdentity
from mcphub.features.signin.issuers.trust import TokenRefused, Trust
from sessions_app.history import source
from sessions_app.protocol.json import Json


def linked(trust: Trust, subject: str) -> User | None:
    """Return the account linked to an issuer's subject, active or not."""
    found = LinkedIdentity.objects.select_related("user").filter(issuer=trust.issuer, subject=subject).first()
    return found.user if found is not None else None


def person_of(trust: Trust, subject: str, claims: Mapping[str, Json]) -> User:
    """Return the person that a token is of, linked now if it is the first one; raise TokenRefused."""
    user = linked(trust, subject) or _first_time(trust, subject, claims)
    if not user.is_active:
        raise TokenRefused("The account of the person is disabled.")
    return user


def candidate(trust: Trust, subject: str, claims: Mapping[str, Json]) -> tuple[User | None, str]:
    """Return the account that a new subject would be linked to, and the name in its token; raise TokenRefused.

    A name alone never leads to a console account: at some issuers people choose their names.
    """
    name = claims.get(trust.person_claim) if trust.person_claim else None
    if not isinstance(name, str) or not name:
        raise TokenRefused(
            f"The subject is linked to nobody, and the token has no claim {trust.person_claim!r} with a name."
            if trust.person_claim
            else "The subject is linked to nobody."
        )
    user = (
        get_user_model()._default_manager.filter(username=name).first()
        if len(name) <= 150 and "\x00" not in name
        else None
    )
    if user is None and not trust.makes_people:
        raise TokenRefused("The subject is linked to nobody, and there is no account of the name that its token gives.")
    if user is not None and (user.is_staff or user.is_superuser):
        raise TokenRefused("The account of that name may see the console, and is linked by a login alone.")
    if user is not None and LinkedIdentity.objects.filter(issuer=trust.issuer, user=user).exists():
        raise TokenRefused("The account of that name is linked to another subject of the issuer.")
    return user, name


def _first_time(trust: Trust, subject: str, claims: Mapping[str, Json]) -> User:
    found, name = candidate(trust, subject, claims)
    try:
        with transaction.atomic(), source.edits_via(source.SYSTEM):
            user = found or _made(name)
            if user.is_active:
                LinkedIdentity.make(user, trust.issuer, subject, trust.name, by_name=found is not None, by=user)
    except IntegrityError as error:  # another process was first, or linked the account to another subject
        first = linked(trust, subject)
        if first is None:
            raise TokenRefused("The account of that name is linked to another subject of the issuer.") from error
        return first
    return user


def _made(name: str) -> Any:
    user = get_user_model()(username=name)
    user.set_unusable_password()
    try:
        UnicodeUsernameValidator()(name)
        user.full_clean(exclude=["password"])
    except ValidationError as error:
        raise TokenRefused("The name that the token gives cannot be one of an account.") from error
    user.save()
    return user
