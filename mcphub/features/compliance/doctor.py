"""The check of retention against the chosen frames, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator

from django.conf import settings
from django.utils.translation import gettext as _

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
                _("The audit is kept for %(rows_days)s days, too short for %(title)s: %(because)s.")
                % {"rows_days": policy.rows_days, "title": frame.title, "because": frame.because},
                _('Run `mcphub audit policy --rows-days %(least_days)s --reason "%(name)s"`, or keep rows for ever.')
                % {"least_days": frame.least_days, "name": name},
            )
