"""Periodic cleanup of logins in each process."""

from __future__ import annotations

from django.utils import timezone

from sessions_app.kit.database import delete_in_slices
from sessions_app.login import events, limits
from sessions_app.login.session_store import SessionStore


def flush() -> None:
    limits.flush()


def sweep() -> None:
    """Record sums of refused guesses; remove forgotten failures and sessions of the console that are over."""
    events.sum_up()
    limits.purge()
    delete_in_slices(SessionStore.get_model_class().objects.filter(expire_date__lt=timezone.now()))
