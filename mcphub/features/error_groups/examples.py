"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.rest.sent import REASON
from sessions_app.protocol.json import Json

REQUESTS: Mapping[str, Json] = {"JudgeRequest": {"reason": REASON}}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "ErrorGroup": {
        "message": "city: N is not of type 'string'.",
        "error_code": "invalid_arguments",
        "hours": {"2026-03-01T12": 3},
        "days": {"2026-03-01": 3},
        "callers": [{"principal": "key:1", "label": "auditor", "calls": 3}],
        "state_by": "",
    }
}
