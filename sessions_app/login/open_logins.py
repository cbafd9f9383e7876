"""The logins of one person that are open: found among all of the hub's, which stand in rows that name nobody.

A row is signed text, so each is read to find its person: some 50 µs, and a hub has as many as people worked in recent
hours. That is cheaper than another table that every page would have to keep true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.contrib.auth import SESSION_KEY
from django.utils import timezone

from sessions_app.login.session_store import ADDRESS, OPENED_AT, PROGRAM, SessionStore, digest

_MOST_SHOWN = 50
_IN_STEPS_OF = 500


@dataclass(frozen=True, slots=True)
class OpenLogin:
    id: str
    """The digest under which it stands: it opens nothing."""
    opened_at: datetime
    expires_at: datetime
    address: str
    program: str
    """The browser's description of itself."""
    is_this: bool
    """Whether it is the one that asks."""


def of(person: Any, key: str | None = None) -> list[OpenLogin]:
    """Return the person's open logins, newest first, 50 at most. `key` is that of the login that asks."""
    own = digest(key) if key else ""
    found = [
        OpenLogin(
            id=row.session_key,
            opened_at=datetime.fromtimestamp(float(data.get(OPENED_AT, 0)), UTC),
            expires_at=row.expire_date,
            address=str(data.get(ADDRESS, "")),
            program=str(data.get(PROGRAM, "")),
            is_this=row.session_key == own,
        )
        for row, data in _rows(person)
    ]
    return sorted(found, key=lambda each: each.opened_at, reverse=True)[:_MOST_SHOWN]


def end(person: Any, ids: Collection[str] | None = None, *, but: str | None = None) -> int:
    """End open logins of the person, all or those named, except the one with the key `but`; give the count."""
    kept = digest(but) if but else ""
    gone = [
        row.session_key
        for row, _data in _rows(person)
        if row.session_key != kept and (ids is None or row.session_key in ids)
    ]
    return int(SessionStore.get_model_class().objects.filter(session_key__in=gone).delete()[0])


def _rows(person: Any) -> Iterator[tuple[Any, dict[str, Any]]]:
    store = SessionStore()
    rows = SessionStore.get_model_class().objects.filter(expire_date__gt=timezone.now())
    for row in rows.iterator(chunk_size=_IN_STEPS_OF):
        data: dict[str, Any] = store.decode(row.session_data)
        if data.get(SESSION_KEY) == str(person.pk):
            yield row, data
