"""The filters of guardrails, in the console and over REST."""

from __future__ import annotations

from mcphub.features.guardrails.models import McpGuardrail
from sessions_app.kit.lists.filters import ListFilter, OneOf, YesOrNo

GUARDRAIL_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="direction", label="", choices=McpGuardrail.Direction.choices),
    OneOf(name="checked_by", label="", choices=McpGuardrail.Check.choices),
    OneOf(name="action", label="", choices=McpGuardrail.Action.choices),
    YesOrNo(name="enabled", label=""),
    YesOrNo(name="watching", label=""),
)
