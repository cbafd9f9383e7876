"""Quotas, as edits of the catalogue must not evade them."""

from __future__ import annotations

from collections.abc import Iterable

from mcphub.features.quotas.models import McpQuota
from mcphub.features.quotas.quota import OF_TOOLS
from tools_catalog.models.reach import READERS, Policed, by_scope
from tools_catalog.models.renaming import SCOPED


def connect() -> None:
    READERS.append(_quotas)
    SCOPED.append(McpQuota)


def _quotas() -> Iterable[Policed]:
    rows = McpQuota.objects.filter(enabled=True, unit__in=OF_TOOLS, hard_limit__isnull=False)
    return [by_scope(row, f"{row._meta.verbose_name} {row.name}") for row in rows]
