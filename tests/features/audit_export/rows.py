"""A hub's targets as another process makes and sees them: `Hub.operate` runs these."""

from __future__ import annotations

from typing import Any


def add_target(secret: str = "", **fields: Any) -> int:
    """Return the id of a new target."""
    from mcphub.features.audit_export.models import ShippingTarget

    row = ShippingTarget(**fields)
    row.set_secret(secret)
    row.full_clean()
    row.save()
    return row.pk


def standing() -> dict[str, Any]:
    """Return the log's end, whether all is sealed, and by target where it stands."""
    from django.db import connection

    from invocations.chain import service
    from mcphub.features.audit_export.models import ShippingState

    log = service.log_on(connection)
    head = log.head()
    states = ShippingState.objects.select_related("target")
    return {
        "end": head.position,
        "is_sealed": head.through == log.highest(),
        "targets": {each.target.name: each.position for each in states},
        "rows": {each.target.name: each.rows for each in states},
        "problems": {each.target.name: each.problem for each in states},
    }
