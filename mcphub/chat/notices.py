"""The calls that wait for an approval, as notices find them."""

from __future__ import annotations

from django.utils import timezone

from mcphub.chat.models import ChatApproval
from mcphub.telling import sources


def connect() -> None:
    sources.FOUND_BY_OTHERS["approval.waits"] = waiting


def waiting() -> sources.Found:
    rows = ChatApproval.objects.filter(status=ChatApproval.Status.PENDING, expires_at__gt=timezone.now())
    return {
        ("approval.waits", row.pk): {
            "tool": row.tool_name,
            "caller": row.caller_label,
            "expires": sources.moment_of(row.expires_at),
        }
        for row in rows.only("pk", "tool_name", "caller_label", "expires_at")[: sources.MOST_OF_A_STATE]
    }
