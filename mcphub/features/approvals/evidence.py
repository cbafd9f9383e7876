"""The calls that waited for a yes, in an archive of evidence."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from mcphub.features.approvals.models import McpApproval
from sessions_app.protocol.json import Json

_FIELDS = (
    "created_at",
    "principal",
    "caller_label",
    "tool_name",
    "tool_version",
    "rule",
    "rule_version",
    "arguments",
    "edited",
    "status",
    "needed",
    "approvers",
    "decided_by",
    "decided_at",
    "reason",
    "invocation_id",
)
_ROWS = 2000


def approvals(since: datetime, until: datetime) -> Iterator[dict[str, Json]]:
    """Return what was asked in a period, with its decision."""
    asked = McpApproval.objects.filter(created_at__gte=since, created_at__lt=until).order_by("pk").values(*_FIELDS)
    for row in asked.iterator(_ROWS):
        yield {name: value.isoformat() if isinstance(value, datetime) else value for name, value in row.items()}
