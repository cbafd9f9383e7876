"""People created here by a directory, under its own ID."""

from __future__ import annotations

from django.contrib.auth.models import User

from mcphub.features.scim.models import ProvisionedPerson


def by_external_id(said: str) -> User | None:
    """Return the one person that a directory created under an ID; None for superusers, and if there are several."""
    rows = ProvisionedPerson.objects.filter(external_id=said, is_made_here=True, removed_at=None)
    found = list(rows.filter(user__is_superuser=False).select_related("user")[:2])
    return found[0].user if len(found) == 1 else None
