"""The audit verdict at the head of every page, and its explanation on the overview and the page of integrity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.functional import SimpleLazyObject
from django.utils.translation import gettext as _

from invocations.chain import service
from sessions_app.kit.shown import visible


@dataclass(frozen=True)
class ShownVerdict:
    state: str
    """`good`, `bad` or `off`, as the marks of other pages."""
    icon: str
    words: str
    link: str
    """Where it is explained."""
    problem: str
    verified_at: datetime | None
    size: int
    every_seconds: float
    is_alone: bool
    """Nothing outside would show that the host's owner rewrote the log."""


def shown(request: HttpRequest) -> dict[str, object]:
    """Return pages the verdict of the last verification, from this process's memory: it costs no statement."""
    return {"audit_verdict": SimpleLazyObject(lambda: _verdict(request))}


def _verdict(request: HttpRequest) -> ShownVerdict:
    found = service.standing()
    if found.alarm:
        state, icon, words = "bad", "gpp_bad", _("Audit log: alarm")
    elif found.verdict is None:
        state, icon, words = "off", "shield", _("The audit log has not been verified yet")
    else:
        state, icon, words = "good", "verified_user", _("Audit log verified: no tampering found")
    return ShownVerdict(
        state,
        icon,
        words,
        _explained(request),
        visible(found.alarm),
        found.verdict.verified_at if found.verdict else None,
        found.verdict.size if found.verdict else 0,
        settings.MCPHUB_VERIFY_SECONDS,
        not found.is_witnessed,
    )


def _explained(request: HttpRequest) -> str:
    """Return the page of integrity if the person may see it, else the overview's section."""
    if request.user.has_perm("invocations.view_auditblock"):
        return reverse("admin:audit_integrity")
    return reverse("admin:index") + "#hub-verdict"
