"""The pages of approvals. Django imports this package."""

from django.conf import settings

if not settings.MCPHUB_EMBEDDED:  # a host has an admin of its own
    from mcphub.features.approvals.admin import pages

    __all__ = ["pages"]
