"""Judges alerts, on the process that looks for notices: one at a time, by its lease.

The outcome is kept in the rows, so the next process goes on from it, and an alert is judged twice a minute only.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from django.conf import settings
from django.utils.translation import gettext as _t

from mcphub.features.alerts.counting import counted_now
from mcphub.features.alerts.judging import ERRORS, MILLION, QUIET, SLOW, SPEND
from mcphub.features.alerts.models import Alert
from sessions_app.kit.database import TookTooLong
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

EVERY = timedelta(seconds=30)
_TURN_SECONDS = 5.0
"""Of judging in one turn. What is left is due in the next one, the longest unchecked first."""

States = dict[str, dict[str, Json]]
"""Facts of notices by subject."""


def shown(facts: Mapping[str, object]) -> dict[str, object]:
    """Return the time within which an alert counts, in words."""
    known = {str(minutes): label for minutes, label in Alert.Window.choices}
    minutes = str(facts["minutes"])
    return {"within": known.get(minutes) or _t("%(minutes)s min") % {"minutes": minutes}}


def failing() -> States:
    return _states(ERRORS)


def slow() -> States:
    return _states(SLOW)


def quiet() -> States:
    return _states(QUIET)


def spending() -> States:
    return _states(SPEND)


def _states(measure: str) -> States:
    """Judge the alerts of a measure that are due; return those that fire."""
    rows = list(Alert.objects.filter(measure=measure, enabled=True).select_related(*Alert.WATCHED))
    now, ends = datetime.now(UTC), time.monotonic() + _TURN_SECONDS
    due = [row for row in rows if row.checked_at is None or row.checked_at <= now - EVERY]
    for row in sorted(due, key=lambda row: (row.checked_at is not None, row.checked_at)):
        if time.monotonic() >= ends:
            break
        judge(row, now)
    return {str(row.pk): row.measured for row in rows if row.fires_since is not None}


def judge(alert: Alert, now: datetime) -> None:
    """Count the alert's window and note whether it fires. What takes too long stays as it was."""
    try:
        tally = counted_now(alert, now)
    except TookTooLong:
        logger.warning("The alert %s was not judged: counting took too long.", alert.pk)
        Alert.objects.filter(pk=alert.pk).update(checked_at=now)
        return
    if not alert.threshold.is_passed_by(tally):
        alert.fires_since, alert.measured = None, {}
    else:
        alert.fires_since = alert.fires_since or now
        alert.measured = {
            "alert": alert.name,
            "scope": alert.scope or "*",
            "minutes": alert.window_minutes,
            "calls": tally.calls,
            "share": round(100 * tally.errors / tally.calls) if tally.calls else 0,
            "p95": tally.percentile(95) if tally.durations else None,
            "threshold": alert.limit,
        }
        if alert.measure == SPEND:
            alert.measured |= {"spent": f"{tally.spent / MILLION:.2f}", "currency": settings.MCPHUB_CURRENCY}
    alert.checked_at = now
    Alert.objects.filter(pk=alert.pk).update(checked_at=now, fires_since=alert.fires_since, measured=alert.measured)
