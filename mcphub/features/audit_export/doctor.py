"""Checks of export destinations, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from django.utils.translation import gettext as _

from mcphub.features.audit_export import service
from mcphub.features.audit_export.destinations.kinds import missing
from mcphub.features.audit_export.models import ShippingTarget
from mcphub.process.doctor import Finding


def check() -> Iterator[Finding]:
    for row in ShippingTarget.objects.filter(enabled=True):
        if why := missing(row):
            yield Finding(
                "wrong",
                _("The audit is not shipped to %(name)s: %(why)s") % {"name": row.name, "why": why},
                _("Or disable the destination."),
            )
    for lag in service.lags():
        if lag.is_behind:
            yield Finding(
                "wrong",
                (
                    _("%(name)s is %(rows)d rows of the audit and %(seconds).0f s behind. %(problem)s")
                    % {"name": lag.name, "rows": lag.rows, "seconds": lag.seconds, "problem": lag.problem}
                ).rstrip(),
                _("`mcphub audit ship test %(name)s` tries it. Retention waits for it: switch it off if it is gone.")
                % {"name": lag.name},
            )
