"""The admin pages of this floor. Django imports this package; each module registers its pages."""

from invocations.admin import (
    approvals,
    call_page,
    envelopes,
    errors,
    events,
    guardrails,
    mapping,
    policy,
    proof,
    quotas,
    redaction,
    shipping,
    tasks,
    usage,
)

__all__ = [
    "approvals",
    "call_page",
    "envelopes",
    "errors",
    "events",
    "guardrails",
    "mapping",
    "policy",
    "proof",
    "quotas",
    "redaction",
    "shipping",
    "tasks",
    "usage",
]
