"""The filters of quotas, in the console and over REST."""

from __future__ import annotations

from mcphub.features.quotas.models import McpQuota
from sessions_app.kit.lists.filters import ListFilter, OneOf, YesOrNo

QUOTA_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="per", label="", choices=McpQuota.Per.choices),
    OneOf(name="unit", label="", choices=McpQuota.Unit.choices),
    OneOf(name="period", label="", choices=McpQuota.Period.choices),
    YesOrNo(name="enabled", label=""),
)
