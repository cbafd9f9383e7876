"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.rest.sent import REASON
from sessions_app.protocol.json import Json

_QUOTA: Mapping[str, Json] = {
    "name": "calls-a-day",
    "per": "person",
    "unit": "calls",
    "period": "day",
    "soft_limit": 800,
    "hard_limit": 1000,
    "applies_to": "all",
}
REQUESTS: Mapping[str, Json] = {"QuotaRequest": _QUOTA, "PatchedQuotaRequest": {"hard_limit": 900, "reason": REASON}}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "Quota": {**_QUOTA, "words": "", "target": "", "provider": ""},
    "QuotaUse": {
        "quota": "calls-a-day",
        "subject": "user:2",
        "name": "ada",
        "unit": "calls",
        "used": 310,
        "soft_limit": 800,
        "hard_limit": 1000,
        "currency": None,
        "estimated": 0,
        "unpriced": 0,
    },
}
