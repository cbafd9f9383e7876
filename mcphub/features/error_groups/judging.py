"""Decisions about an error group: mute, resolve, reopen; each is an event of the audit."""

from __future__ import annotations

from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.utils import timezone

from mcphub.features.error_groups.models import ErrorGroup
from sessions_app.history import events
from sessions_app.history.events import Actor, actor_of

DEEDS = {"mute": ErrorGroup.State.MUTED, "resolve": ErrorGroup.State.RESOLVED, "reopen": ErrorGroup.State.OPEN}


def judge(group: ErrorGroup, deed: str, by: User | AnonymousUser | Actor, reason: str = "") -> bool:
    """Set the state; give whether that changed it. Raises KeyError for a deed that is none."""
    state = DEEDS[deed]
    actor = by if isinstance(by, Actor) else actor_of(by)
    with transaction.atomic():
        now = timezone.now()
        changed = ErrorGroup.objects.filter(pk=group.pk).exclude(state=state)
        values = {"state": state, "state_at": now, "state_by": actor.label[:150], "reopened": False}
        if not changed.update(**values):
            return False
        events.record(
            f"errorgroup.{deed}",
            actor=actor,
            model=ErrorGroup,
            subject=group.pk,
            label=str(group),
            before={"state": group.state},
            after={"state": str(state)},
            reason=reason,
        )
    group.refresh_from_db()
    return True
