"""The admin pages of clients that people let in. Django imports this package; each module registers its pages."""

from django.conf import settings

if not settings.MCPHUB_EMBEDDED:
    from mcphub.features.signin.admin import consents
    from mcphub.features.signin.issuers import admin as issuers

    __all__ = ["consents", "issuers"]
