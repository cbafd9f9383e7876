"""The check of a partitioned record, for `mcphub doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

from django.utils.translation import gettext as _

from invocations.chain import months, service
from mcphub.process.doctor import Finding
from sessions_app.kit.database import Dedicated


def check() -> Iterator[Finding]:
    database = Dedicated()
    try:
        ends = [list(months.partitions(service.log_of(database), of.table).values()) for of in months.TABLES]
    finally:
        database.close()
    mend = _("Run `mcphub audit partition` as the role that owns the tables, each month.")
    if any(ends) and not all(ends):
        yield Finding("wrong", _("Only one of the tables of calls and envelopes is partitioned."), mend)
    elif any(max(filter(None, of), default=datetime.max.replace(tzinfo=UTC)) <= datetime.now(UTC) for of in ends if of):
        yield Finding("wrong", _("The partitions end before now: new calls are kept apart from their month."), mend)
