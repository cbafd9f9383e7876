"""The filters of call rules, in the console and over REST."""

from __future__ import annotations

from mcphub.features.call_rules.models import McpPolicyRule
from sessions_app.kit.lists.filters import ListFilter, OneOf, YesOrNo

POLICY_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="effect", label="", choices=McpPolicyRule.Effect.choices),
    OneOf(name="applies_to", label="", choices=McpPolicyRule.AppliesTo.choices),
    YesOrNo(name="enabled", label=""),
    YesOrNo(name="watching", label=""),
)
