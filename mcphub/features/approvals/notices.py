"""Calls that wait, as notices."""

from __future__ import annotations

from django.utils import timezone

from mcphub.features.approvals import asking
from mcphub.features.approvals.models import McpApproval
from sessions_app.protocol.json import Json

_MOST = 200
"""More are not reported one by one in any case."""


def waiting() -> dict[str, dict[str, Json]]:
    """Return facts by the approval, of the oldest: those beyond the bound come later, and end no others."""
    rows = asking.still_open(McpApproval.objects.order_by("created_at", "pk"), timezone.now())
    return {
        row.pk: {
            "tool": row.tool_name,
            "caller": row.caller_label,
            "expires": f"{row.expires_at:%Y-%m-%d %H:%M} UTC",
            "principal": row.principal,
            **({"workspace": row.workspace} if row.workspace else {}),
        }
        for row in rows.only("pk", "tool_name", "caller_label", "expires_at", "principal", "workspace")[:_MOST]
    }


def decision_of(approval: str) -> dict[str, Json]:
    """Return the outcome of an approval; no facts where it is gone."""
    status = McpApproval.objects.filter(pk=approval).values_list("status", flat=True).first()
    if status is None:
        return {}
    decisions = {
        McpApproval.Status.PENDING: "expired",
        McpApproval.Status.EXPIRED: "expired",
        McpApproval.Status.DENIED: "denied",
    }
    return {"decision": decisions.get(McpApproval.Status(status), "approved")}
