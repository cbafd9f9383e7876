"""The admin pages of guardrails. Django imports this package; its module registers them."""

from django.conf import settings

if not settings.MCPHUB_EMBEDDED:  # a host has an admin of its own
    from mcphub.features.guardrails.admin import pages

    __all__ = ["pages"]
