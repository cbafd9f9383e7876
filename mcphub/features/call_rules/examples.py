"""The examples of the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping

from mcphub.rest.sent import REASON
from sessions_app.protocol.json import Json

_RULE: Mapping[str, Json] = {
    "name": "large-transfers",
    "effect": "deny",
    "applies_to": "tool",
    "target": "pay",
    "condition": "args.amount > 100",
    "words": "Transfers above 100 are made by people.",
    "watching": True,
}
REQUESTS: Mapping[str, Json] = {
    "PolicyRuleRequest": _RULE,
    "PatchedPolicyRuleRequest": {"watching": True, "reason": REASON},
}
COMPONENTS: Mapping[str, Json] = {"PolicyRule": _RULE}
