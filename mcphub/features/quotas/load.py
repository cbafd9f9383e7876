"""Reads the quotas that are in force."""

from __future__ import annotations

from mcphub.features.quotas.models import McpQuota
from mcphub.features.quotas.quota import Quotas
from sessions_app.kit.fields import readable_rows
from tools_catalog.catalog.snapshot import Catalog


def load_quotas(catalog: Catalog) -> Quotas:
    rows = readable_rows(McpQuota.objects.filter(enabled=True))
    toolsets = {slug: frozenset(toolset.tools) for slug, toolset in catalog.toolsets.items()}
    return Quotas([row.compiled() for row in rows], toolsets)
