"""What an operator does to the sizes of results."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any


def fit(tool: str, **fields: Any) -> int:
    from mcphub.features.fitting.models import ResultSize
    from tools_catalog.models import McpToolDefinition

    row, _ = ResultSize.objects.update_or_create(tool=McpToolDefinition.objects.get(name=tool), defaults=fields)
    return int(row.pk)


def bound(most_characters: int, *, toolset: str = "", key: str = "") -> int:
    """Bound the results of a toolset's tools, or of a key's calls."""
    from mcphub.features.fitting.models import ResultSize
    from sessions_app.models import ApiKey
    from tools_catalog.models import McpToolset

    subject = {"toolset": McpToolset.objects.get(slug=toolset)} if toolset else {"key": ApiKey.objects.get(name=key)}
    return int(ResultSize.objects.create(most_characters=most_characters, **subject).pk)


def expire_all() -> int:
    """Let the time of all kept results be over, and sweep."""
    from mcphub.features.fitting import handles
    from mcphub.features.fitting.models import KeptResult

    KeptResult.objects.update(expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    handles.purge()
    return KeptResult.objects.count()
