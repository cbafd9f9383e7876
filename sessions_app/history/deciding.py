"""A second person confirms or rejects a change that waits: once, and only on the row that it was proposed for."""

from __future__ import annotations

from typing import Any

from django.apps import apps
from django.core.exceptions import ValidationError
from django.db import models, transaction
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app import accountable
from sessions_app.accountable import Party
from sessions_app.history import events, guarding, recording
from sessions_app.history.guarding import GuardedModel
from sessions_app.history.models import WaitingChange
from sessions_app.protocol.json import Json

PERMISSION = "sessions_app.decide_waitingchange"


class ConfirmationRefused(Exception):
    """The decision is not possible; the sentence has the reason and the next step."""


def refusal_of(change: WaitingChange, user: Any, *, confirm: bool) -> str:
    """Return the reason if the person may not decide about the change; empty otherwise."""
    model = apps.get_model(change.subject_model)
    permission = f"{model._meta.app_label}.change_{model._meta.model_name}"
    if not change.is_open:
        return _t(
            "It is no longer waiting: somebody decided it, a later change replaced it, or it expired after a week."
        )
    if not user.has_perms([PERMISSION, permission]):
        return _t("Your account lacks the permission to change this row, or to decide about changes.")
    if confirm and not user.is_superuser:
        who = accountable.behind(accountable.party_of(user)).people
        if who & set(change.people):
            return _t("You proposed it, or answer for the key that did. Another person or a superuser must confirm it.")
        if any(
            accountable.is_one_person(accountable.party_of(user), Party(each)) for each, _name in change.confirmations
        ):
            return _t("You confirmed it already. Another person or a superuser must confirm it, too.")
    return ""


def confirm(key: int, user: Any, reason: str) -> bool:
    """Bring the change into force as an edit of `user`; return False while one more person is needed.

    Raises ConfirmationRefused, and then nothing changes.
    """
    with transaction.atomic():
        change = _locked(key, user, confirm=True)
        model: Any = apps.get_model(change.subject_model)
        row = recording.one_row(model, change.subject_id).first()
        if row is None or not _is_as_proposed(row, change):
            raise ConfirmationRefused(
                _t("The row has changed since this was proposed. Review it, and have the change proposed again.")
            )
        if not user.is_superuser and len(change.confirmations) + 1 < change.needed:
            change.confirmations = [*change.confirmations, [f"user:{user.pk}", str(user)[:150]]]
            change.save(update_fields=["confirmations"])
            guarding.record("confirmed_once", change, actor=events.actor_of(user), reason=reason)
            return False
        try:
            _apply(row, change, user, reason)
        except ValidationError as error:
            raise ConfirmationRefused(" ".join(error.messages)) from error
        _close(change, WaitingChange.State.CONFIRMED, user, reason)
        return True


def reject(key: int, user: Any, reason: str) -> None:
    """Refuse the change; the row stays as it is. The proposer may withdraw it this way. Raises ConfirmationRefused."""
    with transaction.atomic():
        _close(_locked(key, user, confirm=False), WaitingChange.State.REJECTED, user, reason)


def _locked(key: int, user: Any, *, confirm: bool) -> WaitingChange:
    change = WaitingChange.objects.select_for_update().filter(pk=key).first()
    if change is None:
        raise ConfirmationRefused(_t("This change no longer exists."))
    if refusal := refusal_of(change, user, confirm=confirm):
        raise ConfirmationRefused(refusal)
    return change


def _is_as_proposed(row: GuardedModel, change: WaitingChange) -> bool:
    links = {name: before for name, before in change.before.items() if name in row.GUARDED_LINKS}
    linked = {name: sorted(map(recording.name_of, getattr(row, name).all())) for name in links}
    is_derived = all(getattr(row, name) == change.before[name] for name in row.DERIVED if name in change.before)
    return recording.digest_of(row) == change.digest and linked == links and is_derived


def _apply(row: Any, change: WaitingChange, user: Any, reason: str) -> None:
    links = {name: _rows(row, name, names) for name, names in change.after.items() if name in row.GUARDED_LINKS}
    for name, value in change.after.items():
        if name in {*row.held_columns(), *row.DERIVED}:
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
        raise ConfirmationRefused(_t("One of the groups no longer exists. Have the change proposed again."))
    return found


def _close(change: WaitingChange, state: WaitingChange.State, user: Any, reason: str) -> None:
    change.state, change.decided_at = state, timezone.now()
    change.decided_by, change.answer = str(user)[:150], reason[:500]
    change.save(update_fields=["state", "decided_at", "decided_by", "answer"])
    guarding.record(state.value, change, actor=events.actor_of(user), reason=reason)
