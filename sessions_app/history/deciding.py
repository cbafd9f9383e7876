"""A second person confirms or rejects a change that waits: once, and only on the row that it was proposed for."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app.history import events, guarding, recording
from sessions_app.history.guarding import GuardedModel
from sessions_app.history.models import WaitingChange
from sessions_app.protocol.json import Json

PERMISSION = "sessions_app.decide_waitingchange"


class ConfirmationRefused(Exception):
    """The change cannot be decided so; the sentence says why and what to do."""


def refusal_of(change: WaitingChange, user: Any, *, confirm: bool) -> str:
    """Say why the person may not decide the change; empty where he may."""
    model = apps.get_model(change.subject_model)
    permission = f"{model._meta.app_label}.change_{model._meta.model_name}"
    if not change.is_open:
        return _t("It waits no longer: it was decided, replaced by a later one, or nobody decided within a week.")
    if not user.has_perms([PERMISSION, permission]):
        return _t("Your account lacks the permission to change such a row, or to decide about changes.")
    if confirm and not user.is_superuser and f"user:{user.pk}" == change.person:
        return _t("You proposed it, or made the key that did. Another person confirms it, or a superuser.")
    return ""


def confirm(key: int, user: Any, reason: str) -> None:
    """Bring the change into force as an edit of `user`. Raises DecisionRefused, and then nothing changes."""
    with transaction.atomic():
        change = _locked(key, user, confirm=True)
        model: Any = apps.get_model(change.subject_model)
        row = model._base_manager.select_for_update().filter(pk=change.subject_id).first()
        if row is None or not _is_as_proposed(row, change):
            raise ConfirmationRefused(
                _t("The row was changed after this was proposed. Look at it, and let the change be proposed again.")
            )
        try:
            _apply(row, change, user, reason)
        except ValidationError as error:
            raise ConfirmationRefused(" ".join(error.messages)) from error
        _close(change, WaitingChange.State.CONFIRMED, user, reason)


def reject(key: int, user: Any, reason: str) -> None:
    """Refuse the change; the row stays as it is. Who proposed it may take it back so. Raises DecisionRefused."""
    with transaction.atomic():
        _close(_locked(key, user, confirm=False), WaitingChange.State.REJECTED, user, reason)


def _locked(key: int, user: Any, *, confirm: bool) -> WaitingChange:
    change = WaitingChange.objects.select_for_update().filter(pk=key).first()
    if change is None:
        raise ConfirmationRefused(_t("There is no such change any more."))
    if refusal := refusal_of(change, user, confirm=confirm):
        raise ConfirmationRefused(refusal)
    return change


def _is_as_proposed(row: GuardedModel, change: WaitingChange) -> bool:
    links = {name: before for name, before in change.before.items() if name in row.GUARDED_LINKS}
    linked = {name: sorted(map(recording.name_of, getattr(row, name).all())) for name in links}
    return recording.digest_of(row) == change.digest and linked == links


def _apply(row: Any, change: WaitingChange, user: Any, reason: str) -> None:
    links = {name: _rows(row, name, names) for name, names in change.after.items() if name in row.GUARDED_LINKS}
    for name, value in change.after.items():
        if name in row.GUARDED:
            setattr(row, name, value)
    said = _t("Proposed by %(who)s, confirmed by %(second)s. %(reason)s") % {
        "who": change.proposer_label or change.proposed_by,
        "second": user,
        "reason": reason or change.reason,
    }
    row.change_author, row.change_reason = user, said.strip()[:500]
    with guarding.decided():
        row.full_clean()
        row.save()
        for name, rows in links.items():
            getattr(row, name).set(rows)


def _rows(row: models.Model, name: str, names: list[Json]) -> list[models.Model]:
    related: Any = row._meta.get_field(name).related_model
    found = [each for each in related._default_manager.all() if recording.name_of(each) in names]
    if len(found) < len(names):
        raise ConfirmationRefused(_t("One of the groups is gone. Let the change be proposed again."))
    return found


def _close(change: WaitingChange, state: WaitingChange.State, user: Any, reason: str) -> None:
    change.state, change.decided_at = state, timezone.now()
    change.decided_by, change.answer = str(user)[:150], reason[:500]
    change.save(update_fields=["state", "decided_at", "decided_by", "answer"])
    guarding.record(state.value, change, actor=events.actor_of(user), reason=reason)
