"""Warns before a key ends: an event of the history and a line of the log for each end, by one of the processes."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from sessions_app.history import events
from sessions_app.models import ApiKey

logger = logging.getLogger(__name__)

_AT_ONCE = 500
"""Keys of one sweep; the next one takes the others."""
_SHARE_OF_LIFE = 4
"""A key that lives shortly is warned of in the last quarter of its life."""


def ends_soon(key: ApiKey) -> bool:
    """Return whether the key works and is so near to its end that the hub warns of it."""
    if key.expires_at is None or not key.is_usable():
        return False
    window = timedelta(days=settings.MCPHUB_KEY_REMINDER_DAYS)
    return key.expires_at - timezone.now() <= min(window, (key.expires_at - key.created_at) / _SHARE_OF_LIFE)


def remind() -> int:
    """Warn of keys that end soon, of each once; give how many these were."""
    limit = timezone.now() + timedelta(days=settings.MCPHUB_KEY_REMINDER_DAYS)
    near = ApiKey.objects.usable().filter(expires_at__lte=limit).exclude(reminded_of=F("expires_at"))
    return sum(_warned(key) for key in near.select_related("owner").order_by("expires_at")[:_AT_ONCE] if ends_soon(key))


def _warned(key: ApiKey) -> bool:
    with transaction.atomic():
        rows = ApiKey.objects.filter(pk=key.pk, expires_at=key.expires_at).exclude(reminded_of=F("expires_at"))
        if not rows.update(reminded_of=key.expires_at):
            return False  # another process was first, or the end was moved
        events.record(
            "key.ends_soon",
            actor=events.Actor("hub"),
            model=ApiKey,
            subject=key.pk,
            label=str(key),
            after={
                "expires_at": key.expires_at.isoformat() if key.expires_at else None,
                "owner": key.principal if key.owner_id is not None else key.service,
                "last_used_at": key.last_used_at.isoformat() if key.last_used_at else None,
            },
        )
    logger.warning("The key %s ends at %s. Move its end in the console, or make another", key, key.expires_at)
    return True
