"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.rest.sent import REASON
from sessions_app.protocol.json import Json

REQUESTS: Mapping[str, Json] = {"ApproveRequest": {"reason": REASON}, "DenyRequest": {"reason": REASON}}
COMPONENTS: Mapping[str, Mapping[str, Json]] = {
    "Approval": {
        "id": "Zk3q9",
        "arguments": {"city": "Oslo"},
        "effects": "writes",
        "transport": "streamable-http",
        "rule": "large-transfers",
        "words": "Transfers above 100 are made by people.",
        "reason": "",
        "decided_by": "",
        "invocation_id": "",
        "group": "",
    }
}
