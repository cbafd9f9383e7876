"""A person's unsaved preview, between two pages.

It waits in a row of Django's sessions of its own: the person's session is read by every page, and names it only.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import Any, Final, cast

from django.conf import settings
from django.contrib.sessions.backends.base import SessionBase, UpdateError
from django.http import HttpRequest

from sessions_app.protocol.json import Json

_LASTS_SECONDS: Final = 3600
_DRAFT: Final = "draft"


def keep(request: HttpRequest, name: str, draft: Json) -> None:
    """Store a draft under a name for an hour, replacing the previous one."""
    drop(request, name)
    row = _row(None)
    row[_DRAFT] = draft
    row.set_expiry(_LASTS_SECONDS)
    row.create()
    request.session[name] = row.session_key


def change(request: HttpRequest, name: str, draft: Json) -> None:
    """Write another draft into the row of the one that is kept, at once; nothing happens where none is kept."""
    key = request.session.get(name)
    if isinstance(key, str):
        row = _row(key)
        row[_DRAFT] = draft
        row.set_expiry(_LASTS_SECONDS)
        with suppress(UpdateError):
            row.save()


def find(request: HttpRequest, name: str) -> Json:
    """Return the person's draft under a name; None without one."""
    key = request.session.get(name)
    return _row(key).get(_DRAFT) if isinstance(key, str) else None


def drop(request: HttpRequest, name: str) -> None:
    key = request.session.pop(name, None)
    if isinstance(key, str):
        _row(key).delete()


def _row(key: str | None) -> SessionBase:
    engine: Any = import_module(settings.SESSION_ENGINE)
    return cast("SessionBase", engine.SessionStore(key))
