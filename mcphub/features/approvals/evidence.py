"""The calls that waited for a yes, in an archive of evidence."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from mcphub.features.approvals.models import McpApproval

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


def approvals(since: datetime, until: datetime) -> Iterator[dict[str, Any]]:
    """Return what was asked in a period, with its decision."""
    asked = McpApproval.objects.filter(created_at__gte=since, created_at__lt=until).order_by("pk").values(*_FIELDS)
    yield from asked.iterator(_ROWS)
