"""Checks of export destinations, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from mcphub.features.audit_export import service
from mcphub.features.audit_export.destinations.kinds import missing
from mcphub.features.audit_export.models import ShippingTarget
from mcphub.process.doctor import Finding


def check() -> Iterator[Finding]:
    for row in ShippingTarget.objects.filter(enabled=True):
        if why := missing(row):
            yield Finding("wrong", f"The audit is not shipped to {row.name}: {why}", "Or switch the target off.")
    for lag in service.lags():
        if lag.is_behind:
            yield Finding(
                "wrong",
                f"{lag.name} is {lag.rows} rows of the audit and {lag.seconds:.0f} s behind. {lag.problem}".rstrip(),
                f"`mcphub audit ship test {lag.name}` tries it. Retention waits for it: switch it off if it is gone.",
            )
