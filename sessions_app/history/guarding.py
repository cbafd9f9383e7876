"""Holds back what one person alone must not change: it becomes a `WaitingChange`, which a second person decides.

A superuser changes everything himself, and so does whoever runs a command on the machine. Of everybody else, people and
keys, the model holds the guarded fields back when it is saved, whichever page or endpoint saves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timedelta
from typing import Any, ClassVar

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import models, transaction
from django.db.models.signals import m2m_changed
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app.history import events, recording, source
from sessions_app.history.models import WaitingChange
from sessions_app.history.recording import RecordedModel
from sessions_app.protocol.json import Json

MOST_WAITING = 500
"""Changes of one proposer that wait. The oldest expire beyond."""
_KEPT_AFTER = timedelta(days=30)
"""How long a change stays on its page once it is over; its events stay as the audit's retention says."""

_is_decided: ContextVar[bool] = ContextVar("guarded fields are decided", default=False)


@contextmanager
def decided() -> Iterator[None]:
    """Let guarded fields pass inside: a second person, or a right of its own, decided about them."""
    token = _is_decided.set(True)
    try:
        yield
    finally:
        _is_decided.reset(token)


def needs_second_person() -> bool:
    """Whether the edit that is under way must not change guarded fields."""
    user = source.current().user
    return not _is_decided.get() and user is not None and not user.is_superuser


class GuardedModel(RecordedModel):
    """A recorded model of which some fields need a second person."""

    GUARDED: ClassVar[Mapping[str, Any]] = {}
    """Field -> its careful value, which whoever may edit the row may set, and which a new row has."""
    GUARDED_LINKS: ClassVar[tuple[str, ...]] = ()
    """Who adds a row says its links, too."""
    JUDGED_BY: ClassVar[tuple[str, ...]] = ()
    """Fields by which a second person judges. Where one changes, guarded fields go back to their careful values."""

    waiting_change: WaitingChange | None = None
    """What the last save held back."""
    is_fresh: bool = False
    """Whether this object made the row."""

    _held: Mapping[str, tuple[Json, Json]] = {}
    """Field -> before and after, from when it is put back until that is filed."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic(using=kwargs.get("using"), savepoint=False):
            self.is_fresh = self.is_fresh or self._state.adding
            self.hold_back(kwargs.get("update_fields"))
            if self._held and kwargs.get("update_fields") is not None:
                kwargs["update_fields"] = {*kwargs["update_fields"], *(self._held.keys() & self.GUARDED.keys())}
            super().save(*args, **kwargs)
            self._file()

    def hold_back(self, only: Iterable[str] | None = None) -> None:
        """Put back guarded fields, before the row is saved, whose change needs a second person."""
        if not self.GUARDED or not needs_second_person():
            return
        chosen = None if only is None else set(only)
        stored = None
        if not self._state.adding:
            rows = type(self)._base_manager.filter(pk=self.pk)
            if transaction.get_connection().in_atomic_block:
                rows = rows.select_for_update()
            stored = rows.values(*self.GUARDED, *self.JUDGED_BY).first()
        is_moved = stored is not None and any(
            recording.differs(type(self), name, stored[name], getattr(self, name))
            for name in self.JUDGED_BY
            if chosen is None or name in chosen
        )
        for name, careful in self.careful_values(stored).items():
            if chosen is not None and name not in chosen and not is_moved:
                continue
            wanted = getattr(self, name)
            kept = careful if stored is None or is_moved else stored[name]
            if wanted not in (kept, careful):
                self._held = {**self._held, name: (kept, wanted)}
                setattr(self, name, kept)

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Give which fields are held back of this save, with their careful values. `stored`: the guarded fields of the
        row as it stands; None for a new one."""
        return self.GUARDED

    def admitted_links(self, links: Mapping[str, Iterable[models.Model]]) -> dict[str, list[models.Model]]:
        """Give which links may be set now, of those that are wanted. Called before the row is saved."""
        admitted = {name: list(rows) for name, rows in links.items()}
        if self._state.adding or not needs_second_person():
            return admitted
        for name in self.GUARDED_LINKS:
            now = list(getattr(self, name).all())
            if name in admitted and {row.pk for row in now} != {row.pk for row in admitted[name]}:
                self._held = {**self._held, name: (_names(now), _names(admitted[name]))}
                admitted[name] = now
        return admitted

    def waiting_answer(self) -> Mapping[str, Any] | None:
        """Give what REST answers with where the last save held something back."""
        change = self.waiting_change
        if change is None:
            return None
        names = ", ".join(change.after)
        return {
            "detail": f"{names}: a second person has to confirm this, in the admin under Waiting changes, or a "
            "superuser makes the change. Everything else of the request is saved.",
            "waiting_change": change.pk,
            "fields_held": list(change.after),
            "expires_at": change.expires_at.isoformat(),
        }

    def _file(self) -> None:
        held, self._held = self._held, {}
        if not held:
            return
        edit, now = source.current(), timezone.now()
        actor = events.actor_of(edit.user)
        WaitingChange.objects.filter(expires_at__lt=now - _KEPT_AFTER).delete()
        mine = WaitingChange.objects.filter(proposed_by=actor.principal, state=WaitingChange.State.WAITING)
        about = {"subject_model": self._meta.label_lower, "subject_id": str(self.pk)}
        mine.filter(**about).update(state=WaitingChange.State.REPLACED)
        newest = mine.order_by("-id").values_list("pk", flat=True)[: MOST_WAITING - 1]
        mine.filter(expires_at__gt=now).exclude(pk__in=list(newest)).update(expires_at=now)
        self.waiting_change = WaitingChange.objects.create(
            **about,
            subject_label=recording.name_of(self)[:200],
            before={name: _written(before) for name, (before, _after) in held.items()},
            after={name: _written(after) for name, (_before, after) in held.items()},
            digest=recording.digest_of(type(self)._base_manager.get(pk=self.pk)),
            reason=self.change_reason[:500],
            via=edit.via,
            proposed_by=actor.principal,
            proposer_label=actor.label[:150],
            person=_person(edit.user),
        )
        record("proposed", self.waiting_change, actor=actor, reason=self.change_reason)
        _tell(edit)


def _written(value: object) -> Json:
    """Give a field's value as JSON; saving reads a moment from its text."""
    return value.isoformat() if isinstance(value, datetime) else value


def record(deed: str, change: WaitingChange, *, actor: events.Actor, reason: str) -> None:
    """Write the event of what became of a change."""
    events.record(
        f"waitingchange.{deed}",
        actor=actor,
        model=WaitingChange,
        subject=change.pk,
        label=f"{change.subject_model.partition('.')[2]} {change.subject_label}",
        before=change.before,
        after=change.after,
        reason=reason,
    )


def connect() -> None:
    """Refuse what would set guarded links past `admitted_links`. Called once all models are loaded."""
    for model in recording.followed():
        for name in getattr(model, "GUARDED_LINKS", ()):
            through: Any = model._meta.get_field(name).remote_field.through  # type: ignore[union-attr]
            m2m_changed.connect(_on_links, sender=through, dispatch_uid=f"guarded links {through.__name__}")


def _on_links(instance: models.Model, action: str, pk_set: set[Any] | None, **_: Any) -> None:
    is_change = action in ("pre_add", "pre_remove", "pre_clear") and pk_set != set()
    if is_change and needs_second_person() and not getattr(instance, "is_fresh", False):
        raise PermissionDenied("Who may see a row is changed on its page: the change waits for a second person.")


def _names(rows: Iterable[models.Model]) -> list[Json]:
    return sorted(map(recording.name_of, rows))


def _person(user: Any) -> str:
    """Give the principal of the person behind an edit: of a key, of whose it is or who made it."""
    key = getattr(user, "key", None)
    number = user.pk if key is None else key.owner_id or key.created_by_id
    return f"user:{number}" if number is not None else ""


def _tell(edit: source.EditSource) -> None:
    """Say once on the next page of the admin that something waits."""
    if edit.via == source.REST or edit.request is None:
        return
    request: Any = edit.request

    def say() -> None:
        if getattr(request, "_told_of_waiting", False):
            return
        request._told_of_waiting = True
        words = _t(
            "A part of this change is not in force: it waits for a second person, who confirms it on the page "
            "Waiting changes. The rest is saved."
        )
        messages.warning(request, words)

    transaction.on_commit(say)
