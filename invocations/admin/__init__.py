"""The admin pages of this floor. Django imports this package; each module registers its pages."""

from django.conf import settings

if not settings.MCPHUB_EMBEDDED:  # a host has an admin of its own
    from invocations.admin import call_page, envelopes, events, mapping, proof, redaction, row_calls, tasks, usage

    __all__ = ["call_page", "envelopes", "events", "mapping", "proof", "redaction", "row_calls", "tasks", "usage"]
