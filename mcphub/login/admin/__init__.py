"""The admin pages of logins. Django imports this package; each module registers its pages."""

from mcphub.login.admin import factors, invitations, links, providers

__all__ = ["factors", "invitations", "links", "providers"]
