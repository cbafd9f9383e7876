"""The admin pages of this floor. Django imports this package; each module registers its pages."""

from invocations.admin import call_page, envelopes, events, mapping, policy, proof, redaction, shipping, tasks, usage

__all__ = ["call_page", "envelopes", "events", "mapping", "policy", "proof", "redaction", "shipping", "tasks", "usage"]
