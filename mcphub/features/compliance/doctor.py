"""The check of retention against the chosen frames, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings

from invocations.chain.models import AuditPolicy
from mcphub.features.compliance.frames import FRAMES
from mcphub.process.doctor import Finding


def check() -> Iterator[Finding]:
    policy = AuditPolicy.objects.first()
    if policy is None or policy.rows_days is None:
        return
    for name in settings.MCPHUB_COMPLIANCE:
        frame = FRAMES[name]
        if policy.rows_days < frame.least_days:
            yield Finding(
                "wrong",
                f"The audit is kept for {policy.rows_days} days, too short for {frame.title}: {frame.because}.",
                f'Run `mcphub audit policy --rows-days {frame.least_days} --reason "{name}"`, or keep rows for ever.',
            )
