"""The admin pages of logins. Django imports this package; each module registers its pages."""

from django.conf import settings

if not settings.MCPHUB_EMBEDDED:  # a host has an admin of its own
    from mcphub.features.login.admin import factors, invitations, links, providers

    __all__ = ["factors", "invitations", "links", "providers"]
