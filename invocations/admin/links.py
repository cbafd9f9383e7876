"""Addresses of the list of calls."""

from __future__ import annotations

from datetime import datetime, timedelta
from urllib.parse import urlencode

from django.urls import reverse
from django.utils import timezone


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
