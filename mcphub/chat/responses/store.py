"""Responses that the next one may go on from, as rows: any worker may serve the next request."""

from __future__ import annotations

import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from mcphub.chat.errors import ChatError
from mcphub.chat.models_responses import ChatResponse


def load(id_: str, principal: str) -> ChatResponse:
    """Give a caller's response; raise ChatError for one that is unknown, too old or another's, which look the same."""
    row = ChatResponse.objects.filter(pk=id_, principal=principal, expires_at__gt=timezone.now()).first()
    if row is None:
        raise ChatError(
            "NOT_FOUND", f"There is no response {id_[:60]!r} of this key; it may have expired, or had store: false.",
            param="previous_response_id", openai_code="previous_response_not_found",
        )  # fmt: skip
    return row


def save(
    body: dict[str, Any], *, principal: str, previous_id: str, messages: list[dict[str, Any]], labels: list[str]
) -> None:
    now = timezone.now()
    ChatResponse.objects.create(
        id=body["id"], principal=principal, model=body["model"], previous_id=previous_id, messages=messages,
        labels=labels, body=body, created_at=now,
        expires_at=now + datetime.timedelta(days=settings.MCPHUB_CHAT_RESPONSE_DAYS),
    )  # fmt: skip


def delete(id_: str, principal: str) -> None:
    load(id_, principal).delete()


def sweep() -> None:
    """Forget what has expired."""
    ChatResponse.objects.filter(expires_at__lt=timezone.now()).delete()
