"""Responses that the next one may go on from, as rows: any worker may serve the next request."""

from __future__ import annotations

import datetime
import logging

from django.conf import settings
from django.utils import timezone

from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.models.responses import ChatResponse
from sessions_app.protocol.json import Json
from tools_catalog.secrets import SecretError

logger = logging.getLogger(__name__)


def load(id_: str, principal: str) -> ChatResponse:
    """Return a caller's response; raise ChatError for one that is unknown, too old or another's, which look the
    same.
    """
    row = ChatResponse.objects.filter(pk=id_, principal=principal, expires_at__gt=timezone.now()).first()
    if row is None or not _is_readable(row):
        raise ChatError(
            "NOT_FOUND",
            f"There is no response {id_[:60]!r} of this key; it may have expired, or had store: false.",
            param="previous_response_id",
            openai_code="previous_response_not_found",
        )
    return row


def _is_readable(row: ChatResponse) -> bool:
    try:
        row.said()
    except SecretError as error:
        logger.warning("The response %s cannot be read: %s", row.pk, error)
        return False
    return True


def save(
    body: dict[str, Json], *, principal: str, previous_id: str, messages: list[dict[str, Json]], labels: list[str]
) -> None:
    now = timezone.now()
    row = ChatResponse(
        id=body["id"],
        principal=principal,
        model=body["model"],
        previous_id=previous_id,
        labels=labels,
        created_at=now,
        expires_at=now + datetime.timedelta(days=settings.MCPHUB_CHAT_RESPONSE_DAYS),
    )
    row.seal(messages, body)
    row.save(force_insert=True)


def delete(id_: str, principal: str) -> None:
    load(id_, principal).delete()


def sweep() -> None:
    """Delete expired responses."""
    ChatResponse.objects.filter(expires_at__lt=timezone.now()).delete()
