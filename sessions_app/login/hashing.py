"""Where passwords are hashed: one at a time in each process, and few wait.

A hash takes a core for half a second. Each request of a page has a thread of its own, so without a bound hundreds of
guesses would share the cores with all pages and calls.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.backends import ModelBackend
from django.contrib.auth.models import AnonymousUser, User
from django.db import connection
from django.http import HttpRequest

from sessions_app.workspaces.acting import acting_of

_WAITING = 8
_PATIENCE_SECONDS = 10
_places = threading.BoundedSemaphore(1 + _WAITING)
_turn = threading.Lock()


class HubIsBusy(Exception):
    """So many logins are under way that this one was not looked at."""


@contextlib.contextmanager
def place() -> Iterator[None]:
    """Wait for the turn to hash; raise HubIsBusy where too many wait, or for too long."""
    if not _places.acquire(blocking=False):
        raise HubIsBusy
    try:
        release_connection()
        if not _turn.acquire(timeout=_PATIENCE_SECONDS):
            raise HubIsBusy
        try:
            yield
        finally:
            _turn.release()
    finally:
        _places.release()


def release_connection() -> None:
    """Return the thread's connection back, which whoever waits would keep from the other pages: the pool is small."""
    if not connection.in_atomic_block:
        connection.close()


class PasswordBackend(ModelBackend):
    """Django's check of name and password, which hashes for a name that does not exist too, in its turn."""

    def authenticate(
        self, request: HttpRequest | None, username: str | None = None, password: str | None = None, **kwargs: object
    ) -> User | None:
        with place():
            return super().authenticate(request, username, password, **kwargs)

    def has_perm(self, user_obj: User | AnonymousUser, perm: str, obj: Any = None) -> bool:
        """Add the rights of the role that a person has in the workspace in which the request acts."""
        acting = acting_of(user_obj)
        return (acting is not None and perm in acting.rights) or super().has_perm(user_obj, perm, obj)
