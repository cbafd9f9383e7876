"""The recorded effect of guardrails."""

from __future__ import annotations

from collections import Counter

from invocations.models import McpToolInvocation
from sessions_app.kit.lists.walking import newest_id

_MOST_CALLS = 10_000


def acted(most: int = _MOST_CALLS) -> Counter[str]:
    """Count in how many of the newest calls each guardrail found something, or failed."""
    rows = McpToolInvocation.objects.filter(
        guardrails__isnull=False, pk__gt=newest_id(McpToolInvocation.objects.all()) - most
    )
    counts: Counter[str] = Counter()
    for text in rows.values_list("guardrails", flat=True):
        counts.update({said.partition("@")[0] for said in text.split("; ")})
    return counts
