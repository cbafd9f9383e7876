"""From a provider's claims to a person: found by issuer and subject, created if the provider may, put into groups."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.core.validators import validate_email
from django.db import IntegrityError, transaction
from django.utils import timezone

from mcphub.console_access import keep_console
from mcphub.features.login import invitations
from mcphub.features.login.models import LinkedIdentity, LoginProvider
from mcphub.features.login.providers import oidc
from mcphub.features.login.providers.oidc import LoginRefused
from mcphub.parts import DirectoryPeople
from sessions_app.history import source
from sessions_app.history.events import Actor
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.names import free_name
from sessions_app.protocol.json import Json

_NAME = re.compile(r"[^\w.@+-]+")
_MOST_NAME = 140


@dataclass(frozen=True, slots=True)
class StandIn:
    """Acts before anybody is logged in: events of a login's changes name the provider."""

    actor: Actor
    is_superuser: bool = False


def stand_in_for(provider: LoginProvider) -> StandIn:
    return StandIn(Actor(f"provider:{provider.slug}", provider.name))


def arrived(provider: LoginProvider, claims: Mapping[str, Json], nonce: str) -> User:
    """Return the person who logs in, with the groups of the claims. Raises LoginRefused."""
    try:
        return _arrived(provider, claims, nonce)
    except IntegrityError:  # the same person, or one who is called the same, came for the first time at this moment
        return _arrived(provider, claims, nonce)


def _arrived(provider: LoginProvider, claims: Mapping[str, Json], nonce: str) -> User:
    with transaction.atomic(), source.edits_by(stand_in_for(provider)):
        link = _link_of(provider, claims) or _linked_by_directory(provider, claims)
        groups = provider.groups_for(oidc.texts_in(claims, provider.groups_claim))
        _refuse_strangers(provider, is_linked=link is not None, is_mapped=bool(groups))
        if link is None:
            link = _linked(_made(provider, claims), provider, claims)
        if link.by_name:
            raise LoginRefused("unconfirmed")
        if not link.user.is_active:
            raise LoginRefused("inactive")
        _note_login(link, nonce)
        follow(link.user, provider, groups)
        return link.user


def accepted(invitation: str, provider: LoginProvider, claims: Mapping[str, Json], nonce: str) -> User:
    """Make the account of an invitation, given by its digest, and link it. Raises LoginRefused, InvitationOver."""
    with transaction.atomic():
        if _link_of(provider, claims) is not None:
            raise LoginRefused("taken")
        user = invitations.accept(invitation)
        with source.edits_by(stand_in_for(provider)):
            _note_login(_linked(user, provider, claims), nonce)
            follow(user, provider, provider.groups_for(oidc.texts_in(claims, provider.groups_claim)))
    return user


def link(user: User, provider: LoginProvider, claims: Mapping[str, Json], nonce: str) -> None:
    """Link the provider to a logged-in person from now on. Raises LoginRefused."""
    with transaction.atomic():
        found = _link_of(provider, claims)
        if found is not None and found.user_id != user.pk:
            raise LoginRefused("taken")
        if found is not None and found.by_name:  # the person has shown that both accounts are theirs
            found.confirm(by=user)
        _note_login(found or _linked(user, provider, claims), nonce)


def follow(user: User, provider: LoginProvider, groups: Iterable[str]) -> None:
    """Assign the groups of the provider's claims, and remove governed groups that are missing there.

    A person who gains a console permission may enter it. A person who lost the last one, given by the provider alone,
    may not.
    """
    wanted = set(groups)
    governed = {group.name: group for group in Group.objects.filter(name__in=provider.governed)}
    own = set(user.groups.filter(pk__in=[group.pk for group in governed.values()]).values_list("name", flat=True))
    gained, lost = [governed[name] for name in sorted(wanted - own) if name in governed], sorted(own - wanted)
    if gained:
        user.groups.add(*gained)
    if lost:
        user.groups.remove(*(governed[name] for name in lost))
    given = [governed[name] for name in wanted if name in governed]
    keep_console(user, given=given, lost=[governed[name] for name in lost])


def _refuse_strangers(provider: LoginProvider, *, is_linked: bool, is_mapped: bool) -> None:
    if provider.admits == LoginProvider.Admits.MAPPED and not is_mapped:
        raise LoginRefused("groups")
    if provider.admits == LoginProvider.Admits.INVITED and not is_linked:
        raise LoginRefused("invited")


def _link_of(provider: LoginProvider, claims: Mapping[str, Json]) -> LinkedIdentity | None:
    rows = LinkedIdentity.objects.select_for_update(of=("self",)).select_related("user")
    return rows.filter(issuer=provider.issuer, subject=str(claims["sub"])).first()


def _linked_by_directory(provider: LoginProvider, claims: Mapping[str, Json]) -> LinkedIdentity | None:
    """Also link the account that a directory created under an ID in the provider's claims. The two are kept by one
    house.
    """
    said = next(iter(oidc.texts_in(claims, provider.directory_claim)), "") if provider.directory_claim else ""
    if not said or not said.isprintable():
        return None
    people = [loaded(directory.found)(said) for directory in declared(DirectoryPeople)]
    person = next((each for each in people if each is not None), None)
    if person is None or LinkedIdentity.objects.filter(issuer=provider.issuer, user=person).exists():
        return None
    return _linked(person, provider, claims)


def _linked(user: User, provider: LoginProvider, claims: Mapping[str, Json]) -> LinkedIdentity:
    return LinkedIdentity.make(user, provider.issuer, str(claims["sub"]), provider.name)


def _note_login(link: LinkedIdentity, nonce: str) -> None:
    digest = hashlib.sha256(nonce.encode()).hexdigest()
    if link.last_nonce == digest:
        raise LoginRefused("state")
    link.last_nonce, link.last_login_at = digest, timezone.now()
    link.save(update_fields=["last_nonce", "last_login_at"])


def _made(provider: LoginProvider, claims: Mapping[str, Json]) -> User:
    """Make an account. Its name is free, so that it is nobody else's; it has no password."""
    user = get_user_model()(username=_free_name(provider, claims), email=_email(provider, claims))
    for field, claim in (("first_name", "given_name"), ("last_name", "family_name")):
        setattr(user, field, _printable(next(iter(oidc.texts_in(claims, claim)), ""))[:100])
    user.set_unusable_password()
    user.save()
    return user


def _free_name(provider: LoginProvider, claims: Mapping[str, Json]) -> str:
    said = next(iter(oidc.texts_in(claims, provider.username_claim)), "")
    wanted = _NAME.sub("-", said[:_MOST_NAME]).strip("-") or f"{provider.slug}-{str(claims['sub'])[:40]}"
    wanted = _NAME.sub("-", wanted)
    alike = get_user_model()._default_manager.filter(username__istartswith=wanted)
    taken = {name.lower() for name in alike.values_list("username", flat=True)}
    return free_name(wanted, lambda name: name.lower() in taken, _MOST_NAME + len(".999999"), ".")


def _email(provider: LoginProvider, claims: Mapping[str, Json]) -> str:
    said = next(iter(oidc.texts_in(claims, provider.email_claim)), "")
    try:
        validate_email(said)
    except ValidationError:
        return ""
    return said[:254]


def _printable(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable())
