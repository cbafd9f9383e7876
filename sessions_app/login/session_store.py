"""Logins of the console in the database: under a digest of the key, with an end after idle time and an absolute end."""

from __future__ import annotations

import hashlib
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.sessions.backends import db
from django.utils import timezone

if TYPE_CHECKING:
    from django.contrib.sessions.base_session import AbstractBaseSession

OPENED_AT = "opened_at"
"""The name in the session of when its person logged in, in seconds since the epoch."""
ADDRESS, PROGRAM = "address", "program"
"""The keys of the login's address, and of the browser's description of itself."""
_TOUCHES = 20
"""Within the idle time the end is moved at most so often: a write for every page would be too dear."""


def digest(key: str) -> str:
    """Return the database form of a key: 160 bits, as much as the column holds."""
    return hashlib.sha256(b"mcphub login " + key.encode()).hexdigest()[:40]


class SessionStore(db.SessionStore):
    """Django's sessions in the database; readers of the table cannot log in with its content."""

    def _get_session_from_db(self) -> AbstractBaseSession | None:
        key = self.session_key
        row = key and self.model.objects.filter(session_key=digest(key), expire_date__gt=timezone.now()).first()
        if not row:
            self._session_key = None
        return row or None

    def load(self) -> dict[str, object]:
        row = self._get_session_from_db()
        data: dict[str, Any] = self.decode(row.session_data) if row else {}
        if SESSION_KEY in data and _remaining(data.get(OPENED_AT, 0)) <= 0:
            self._session_key = None
            return {}
        if row:
            end = timezone.now() + timedelta(seconds=_age(data.get(OPENED_AT)))
            if end - row.expire_date > timedelta(seconds=settings.SESSION_COOKIE_AGE / _TOUCHES):
                self.modified = True
        return data

    def get_session_cookie_age(self) -> int:
        return _age(self.get(OPENED_AT))

    def exists(self, session_key: str) -> bool:
        return bool(super().exists(digest(session_key)))

    def create_model_instance(self, data: dict[str, object]) -> AbstractBaseSession:
        row = super().create_model_instance(data)
        row.session_key = digest(row.session_key)
        return row

    def delete(self, session_key: str | None = None) -> None:
        key = session_key or self.session_key
        if key is not None:
            self.model.objects.filter(session_key=digest(key)).delete()

    async def _aget_session_from_db(self) -> AbstractBaseSession | None:
        return await sync_to_async(self._get_session_from_db)()

    async def aload(self) -> dict[str, object]:
        return await sync_to_async(self.load)()

    async def aexists(self, session_key: str) -> bool:
        return await sync_to_async(self.exists)(session_key)

    async def acreate_model_instance(self, data: dict[str, object]) -> AbstractBaseSession:
        return await sync_to_async(self.create_model_instance)(data)

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)


def _remaining(opened_at: float) -> float:
    """Return the seconds until the absolute end; none remain of a login without a start time."""
    return opened_at + float(settings.MCPHUB_LOGIN_SECONDS) - time.time()


def _age(opened_at: float | None) -> int:
    idle = int(settings.SESSION_COOKIE_AGE)
    return idle if opened_at is None else max(1, min(idle, int(_remaining(opened_at))))
