"""What every page of the console says while writes are stopped."""

from __future__ import annotations

from collections.abc import Iterator

from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext as _t

from mcphub.console.banners import Banner, BannerLink
from mcphub.features.writes import in_force
from mcphub.features.writes.models import WriteStop
from mcphub.process import runtime
from sessions_app.models import WaitingChange
from sessions_app.workspaces.acting import acting_of


def shown(request: HttpRequest) -> Iterator[Banner]:
    """Yield the stops that concern the page's reader. While this process knows of none, no statement is made."""
    hub = runtime.current()
    if hub is not None and not in_force.of(hub.configuration):
        return
    acting = acting_of(request.user)
    for row in WriteStop.objects.in_force():
        if acting is None or row.workspace_id in (None, acting.workspace.pk):
            yield _banner(row, request, is_of_hub=acting is None)


def _banner(row: WriteStop, request: HttpRequest, *, is_of_hub: bool) -> Banner:
    said = _t("%(who)s stopped them on %(when)s: %(reason)s") % {
        "who": row.stopped_by,
        "when": date_format(timezone.localtime(row.stopped_at), "DATETIME_FORMAT"),
        "reason": row.reason,
    }
    link: BannerLink | None = None
    if is_of_hub and (waiting := _waiting(row)) is not None:
        said += " " + _t("%(who)s asked to allow writes; a second person must confirm it.") % {
            "who": waiting.proposer_label or waiting.proposed_by
        }
        if request.user.has_perm("sessions_app.view_waitingchange"):
            address = reverse("admin:sessions_app_waitingchange_change", args=[waiting.pk])
            link = BannerLink(_t("Open the waiting change"), address)
    elif is_of_hub and request.user.has_perm("writes.change_writestop"):
        link = BannerLink(_t("Allow writes"), reverse("admin:writes_writestop_allow_writes", args=[row.pk]))
    return Banner(row.where, said, "front_hand", link)


def _waiting(row: WriteStop) -> WaitingChange | None:
    rows = WaitingChange.objects.filter(
        subject_model=row._meta.label_lower,
        subject_id=str(row.pk),
        state=WaitingChange.State.WAITING,
        expires_at__gt=timezone.now(),
    )
    return rows.order_by("-pk").first()
