"""What an operator does to the sizes of results."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def fit(tool: str, **fields: Any) -> int:
    from mcphub.features.fitting.models import ResultSize
    from tools_catalog.models import McpToolDefinition

    row, _ = ResultSize.objects.update_or_create(tool=McpToolDefinition.objects.get(name=tool), defaults=fields)
    return int(row.pk)


def expire_all() -> int:
    """Let the time of all kept results be over, and sweep."""
    from mcphub.features.fitting import handles
    from mcphub.features.fitting.models import KeptResult

    KeptResult.objects.update(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    handles.purge()
    return KeptResult.objects.count()
