"""Resources that sessions follow: rows, so that any process can serve any of them."""

from __future__ import annotations

from collections.abc import Iterable

from django.conf import settings
from django.db import transaction

from sessions_app.models import McpSession, ResourceSubscription
from sessions_app.protocol.errors import InvalidParams, SessionNotFound


def check_count(count: int) -> None:
    """Raise InvalidParams above the limit max_subscriptions."""
    if count > settings.MCPHUB_MAX_SUBSCRIPTIONS:
        raise InvalidParams(
            f"More than {settings.MCPHUB_MAX_SUBSCRIPTIONS} resources cannot be subscribed to at once. "
            "Unsubscribe from some."
        )


def add(session_id: str, uri: str) -> None:
    """Subscribe a live session; raise SessionNotFound where it ended meanwhile. Twice is once."""
    with transaction.atomic():
        # Locked, so that the end of the session comes before, or finds the row.
        session = McpSession.objects.live().select_for_update().filter(pk=session_id).first()
        if session is None:
            raise SessionNotFound
        own = ResourceSubscription.objects.filter(session=session)
        if not own.filter(uri=uri).exists():
            check_count(own.count() + 1)
            ResourceSubscription.objects.create(session=session, uri=uri)


def remove(session_id: str, uri: str) -> None:
    ResourceSubscription.objects.filter(session_id=session_id, uri=uri).delete()


def of(uris: Iterable[str] | None) -> list[tuple[str, str]]:
    """Return session id and URI of the subscriptions to `uris`; of all where it is None."""
    rows = ResourceSubscription.objects.all()
    if uris is not None:
        rows = rows.filter(uri__in=list(uris))
    return list(rows.values_list("session_id", "uri"))
