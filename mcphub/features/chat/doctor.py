"""Checks of model prices, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils import timezone
from django.utils.translation import gettext as _

from mcphub.features.chat.models import ChatModel
from mcphub.features.chat.providers.snapshot import load_prices
from mcphub.features.quotas.models import McpQuota
from mcphub.process.doctor import Finding, name_some

MOST_NAMED = 3
"""Of those that the finding is about; the others are counted."""


def check_prices() -> Iterator[Finding]:
    providers = set(McpQuota.objects.filter(enabled=True, unit="money").values_list("provider", flat=True))
    if not providers:
        return
    prices, now = load_prices(), timezone.now().timestamp()
    models = ChatModel.objects.filter(enabled=True, provider__enabled=True).select_related("provider")
    without = [
        row.public_id
        for row in models
        if ("" in providers or row.provider.slug in providers) and prices.of(row.provider.slug, row.name, now) is None
    ]
    if without:
        yield Finding(
            "hint",
            _("Money quotas don't count models without a price: %(names)s.")
            % {"names": name_some(without, MOST_NAMED)},
            _("Load a price with mcphub catalog load FILE, or add it in the console under Prices; 0 costs nothing."),
        )
