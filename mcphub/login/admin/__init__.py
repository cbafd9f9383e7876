"""The admin pages of logins. Django imports this package; each module registers its pages."""

from mcphub.login.admin import links, providers

__all__ = ["links", "providers"]
