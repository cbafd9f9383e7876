"""Invitations by link: whoever opens it sets a password, or comes by a provider, and has the account; once."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

from django.contrib.auth import get_user_model
from django.contrib.auth.hashers import make_password
from django.contrib.auth.models import Group, User
from django.db import transaction
from django.urls import reverse
from django.utils import timezone

from mcphub.features.login.models import Invitation
from sessions_app import endpoints
from sessions_app.history import source
from sessions_app.history.events import Actor
from sessions_app.login.hashing import place

MOST_DAYS = 30


class InvitationOver(Exception):
    """The link was used, ended or never existed; or the account's name was taken meanwhile."""


@dataclass(frozen=True, slots=True)
class _StandIn:
    actor: Actor
    is_superuser: bool = False


def invite(username: str, email: str, groups: Iterable[Group], days: int) -> tuple[Invitation, str]:
    """Make an invitation, and give the link, which is nowhere else."""
    token = secrets.token_urlsafe(32)
    row = Invitation.objects.create(
        digest=digest_of(token),
        username=username,
        email=email,
        groups=sorted(group.name for group in groups),
        expires_at=timezone.now() + timedelta(days=days),
    )
    return row, endpoints.issuer() + reverse("invited", args=[token])


def digest_of(token: str) -> str:
    return hashlib.sha256(b"mcphub invitation " + token.encode("utf-8", "surrogatepass")).hexdigest()


def open_one(digest: str) -> Invitation:
    """Return the invitation that may still be accepted; raise InvitationOver."""
    row = Invitation.objects.filter(digest=digest).first()
    if (
        row is None
        or not row.is_open
        or get_user_model()._default_manager.filter(username__iexact=row.username).exists()
    ):
        raise InvitationOver
    return row


def accept(digest: str, password: str | None = None) -> User:
    """Make the account that was described, with a password or (by a provider) without. Raises InvitationOver.

    Groups that were renamed or removed since are left out. Raises HubIsBusy where many passwords are hashed.
    """
    hashed = make_password(None)
    if password is not None:
        with place():
            hashed = make_password(password)
    with transaction.atomic():
        row = Invitation.objects.select_for_update().filter(digest=digest).first()
        if (
            row is None
            or not row.is_open
            or get_user_model()._default_manager.filter(username__iexact=row.username).exists()
        ):
            raise InvitationOver
        with source.edits_by(_StandIn(Actor(f"invitation:{row.pk}", row.username))):
            groups = list(Group.objects.filter(name__in=row.groups))
            opens_console = any(group.permissions.exists() for group in groups)
            user = get_user_model()(username=row.username, email=row.email, password=hashed, is_staff=opens_console)
            user.save()
            user.groups.set(groups)
            row.used_at = timezone.now()
            row.save(update_fields=["used_at"])
    return user
