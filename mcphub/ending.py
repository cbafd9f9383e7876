"""The end of a person's access: credentials are revoked permanently, so that nothing revives with the account.

Triggers end open sessions at once if an account is disabled, however its row changes (`rules.py`). The changes made
here persist if the account is enabled again.
"""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models.signals import post_save, pre_delete, pre_save
from django.utils import timezone
from oauth2_provider.models import AccessToken, Grant, RefreshToken

from sessions_app import bus
from sessions_app.history import events
from sessions_app.kit.people_tables import proxies_and
from sessions_app.login import open_logins
from sessions_app.models import ApiKey
from tools_catalog.accounts import storing

_REASON = "the person was disabled"


def connect() -> None:
    for model in proxies_and(get_user_model()) if settings.MCPHUB_FOLLOW_PEOPLE else ():
        pre_save.connect(_before, sender=model, dispatch_uid=f"person before {model._meta.label}")
        post_save.connect(_after, sender=model, dispatch_uid=f"person ends {model._meta.label}")
        pre_delete.connect(_gone, sender=model, dispatch_uid=f"person is gone {model._meta.label}")


def is_last_superuser(person: User) -> bool:
    """Return whether nobody else could act as a superuser, so that the account must stay as it is."""
    others = get_user_model()._default_manager.filter(is_superuser=True, is_active=True).exclude(pk=person.pk)
    return person.is_superuser and person.is_active and not others.exists()


def end_all(person: User, reason: str) -> None:
    """Revoke keys, tokens and codes of the person, end their logins, MCP sessions and running calls, in all
    processes.
    """
    with transaction.atomic():
        ended = {
            "keys": ApiKey.objects.filter(owner=person).revoke(reason),
            "tokens": end_tokens(person),
            "logins": open_logins.end(person),
            "accounts": storing.end_all_of(f"user:{person.pk}", reason),
        }
        bus.publish(bus.CALLER_ENDED, f"user:{person.pk}")
        events.record(
            "user.ended",
            model=get_user_model(),
            subject=person.pk,
            label=person.get_username(),
            after=ended,
            reason=reason,
        )


def end_tokens(person: User) -> int:
    """End all that clients got to call in the person's name; return how many access tokens those were."""
    if settings.MCPHUB_EMBEDDED:  # the tokens of a host are its own
        return 0
    with transaction.atomic():
        RefreshToken.objects.filter(user=person, revoked__isnull=True).update(revoked=timezone.now())
        Grant.objects.filter(user=person).delete()
        tokens = AccessToken.objects.filter(user=person)
        count = int(tokens.count())
        tokens.delete()
    return count


def _before(instance: User, update_fields: Any = None, **_: Any) -> None:
    says = update_fields is None or "is_active" in update_fields
    is_ending = says and not instance.is_active and instance.pk is not None
    instance.__dict__["_ends"] = (
        is_ending and get_user_model()._default_manager.filter(pk=instance.pk, is_active=True).exists()
    )


def _after(instance: User, **_: Any) -> None:
    if instance.__dict__.pop("_ends", False):
        end_all(instance, _REASON)


def _gone(instance: User, **_: Any) -> None:
    storing.end_all_of(f"user:{instance.pk}", "the person was deleted")
