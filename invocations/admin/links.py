"""Addresses of the list of calls, and links to pages that may be away."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import NoReverseMatch, reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString


def listed(after: datetime, before: datetime, **more: str) -> str:
    """Return the address of the list of calls that began from `after` to `before`."""
    first, last = timezone.localtime(after), timezone.localtime(before - timedelta(microseconds=1))
    window = {
        "started_at_from_0": f"{first:%Y-%m-%d}",
        "started_at_from_1": f"{first:%H:%M:%S}",
        "started_at_to_0": f"{last:%Y-%m-%d}",
        "started_at_to_1": f"{last:%H:%M:%S.%f}",
    }
    return f"{reverse('admin:invocations_mcptoolinvocation_changelist')}?{urlencode({**window, **more})}"


def of_feature(page: str, text: str, *key: str, **query: str) -> SafeString:
    """Return a link to a page of a feature, by the name of its address; the text alone where the feature is off."""
    try:
        address = reverse(page, args=key)
    except NoReverseMatch:
        return format_html('<span class="hub-mono">{}</span>', text)
    return format_html(
        '<a class="hub-link hub-mono" href="{}{}">{}</a>', address, f"?{urlencode(query)}" if query else "", text
    )
