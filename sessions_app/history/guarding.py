"""Holds back changes that one person must not make alone: each becomes a `WaitingChange`, which a second person
decides.

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
from django.db.models import QuerySet
from django.db.models.signals import m2m_changed
from django.utils import timezone
from django.utils.translation import gettext as _t

from sessions_app import accountable
from sessions_app.history import events, recording, source
from sessions_app.history.models import WaitingChange
from sessions_app.history.recording import RecordedModel
from sessions_app.protocol.json import Json

MOST_WAITING = 500
"""Changes of one proposer that wait. The oldest expire beyond."""
_KEPT_AFTER = timedelta(days=30)
"""How long a decided change stays on its page; its events follow the audit's retention."""

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
    """Return whether the edit that is under way must not change guarded fields."""
    user = source.current().user
    return not _is_decided.get() and user is not None and not user.is_superuser


class GuardedModel(RecordedModel):
    """A recorded model of which some fields need a second person."""

    GUARDED: ClassVar[Mapping[str, Any]] = {}
    """Field -> its careful value, which whoever may edit the row may set, and which a new row has."""
    GUARDED_LINKS: ClassVar[tuple[str, ...]] = ()
    """A new row may set its links, too."""
    GUARDED_AS_STORED: ClassVar[tuple[str, ...]] = ()
    """Guarded columns without a careful value, by their attributes: each change waits, and a new row has any."""
    JUDGED_LINKS: ClassVar[tuple[str, ...]] = ()
    """Those of them of which the model judges each change, in `admitted_links`: other ways to set them are open."""
    JUDGED_BY: ClassVar[tuple[str, ...]] = ()
    """Fields by which a second person judges. Where one changes, guarded fields go back to their careful values."""

    BOUND: ClassVar[tuple[str, ...]] = ()
    """Further fields that the model itself may hold back, where a policy in force would lose its reach."""

    DERIVED: ClassVar[tuple[str, ...]] = ()
    """Properties, of rows elsewhere, that the model itself may hold back, and that saving stores."""
    SEEN_BY_PEOPLE: ClassVar[bool] = False
    """Its rows, and so their waiting changes, are read by people who may view them, and by no key."""

    waiting_change: WaitingChange | None = None
    """The change held back by the last save."""
    is_fresh: bool = False
    """Whether this object made the row."""

    _held: Mapping[str, tuple[Json, Json]] = {}
    """Field -> before and after, from when it is put back until that is filed."""
    _evaded: frozenset[str] = frozenset()
    """The policies that the held fields would evade."""

    class Meta:
        abstract = True

    def save(self, *args: Any, **kwargs: Any) -> None:
        with transaction.atomic(using=kwargs.get("using"), savepoint=False):
            self.is_fresh = self.is_fresh or self._state.adding
            self.hold_back(kwargs.get("update_fields"))
            if self._held and kwargs.get("update_fields") is not None:
                kwargs["update_fields"] = {*kwargs["update_fields"], *(self._held.keys() & self.held_columns())}
            super().save(*args, **kwargs)
            self._file()

    def hold_back(self, only: Iterable[str] | None = None) -> None:
        """Revert guarded fields whose change needs a second person, before the row is saved."""
        if not self.guarded_columns() or not needs_second_person():
            return
        chosen = None if only is None else set(only)
        stored = None
        if not self._state.adding:
            stored = recording.one_row(type(self), self.pk).values(*self.guarded_columns(), *self.JUDGED_BY).first()
        is_moved = stored is not None and any(
            recording.differs(type(self), name, stored[name], getattr(self, name))
            for name in self.JUDGED_BY
            if chosen is None or name in chosen
        )
        as_stored = {} if stored is None else {name: stored[name] for name in self.GUARDED_AS_STORED}
        for name, careful in {**self.careful_values(stored), **as_stored}.items():
            if chosen is not None and name not in chosen and not is_moved:
                continue
            wanted = getattr(self, name)
            kept = careful if stored is None or is_moved else stored[name]
            if wanted not in (kept, careful):
                self._held = {**self._held, name: (kept, wanted)}
                setattr(self, name, kept)

    @classmethod
    def guarded_columns(cls) -> set[str]:
        return {*cls.GUARDED, *cls.GUARDED_AS_STORED}

    @classmethod
    def held_columns(cls) -> set[str]:
        return {*cls.guarded_columns(), *cls.BOUND}

    def hold(self, name: str, kept: Any, policies: Iterable[str] = ()) -> None:
        """Put a field back until a second person confirms its change. `policies`: those that it would evade."""
        if getattr(self, name) != kept:
            self._held = {**self._held, name: (kept, getattr(self, name))}
            setattr(self, name, kept)
        self._evaded |= frozenset(policies)

    def hold_links(
        self, name: str, kept: Iterable[models.Model], wanted: Iterable[models.Model], policies: Iterable[str]
    ) -> None:
        """Note that links wait for a second person; the caller sets the kept ones."""
        self._held = {**self._held, name: (_names(kept), _names(wanted))}
        self._evaded |= frozenset(policies)

    def careful_values(self, stored: Mapping[str, Any] | None) -> Mapping[str, Any]:
        """Return which fields are held back of this save, with their careful values. `stored`: the guarded fields
        of the
        row as it stands; None for a new one."""
        return self.GUARDED

    def admitted_links(self, links: Mapping[str, Iterable[models.Model]]) -> dict[str, list[models.Model]]:
        """Return which links may be set now, of those that are wanted. Called before the row is saved."""
        admitted = {name: list(rows) for name, rows in links.items()}
        if self._state.adding or not needs_second_person():
            return admitted
        for name in self.GUARDED_LINKS:
            if name in self.JUDGED_LINKS:
                continue
            now = list(getattr(self, name).all())
            if name in admitted and {row.pk for row in now} != {row.pk for row in admitted[name]}:
                self._held = {**self._held, name: (_names(now), _names(admitted[name]))}
                admitted[name] = now
        return admitted

    def waiting_answer(self) -> Mapping[str, Any] | None:
        """Return REST's answer if the last save held something back."""
        change = self.waiting_change
        if change is None:
            return None
        names = ", ".join(change.after)
        evades = f" {evading(self._evaded)}" if self._evaded else ""
        return {
            "detail": f"{names}: a second person has to confirm this, in the admin under Waiting changes, or a "
            f"superuser makes the change. Everything else of the request is saved.{evades}",
            "waiting_change": change.pk,
            "fields_held": list(change.after),
            "expires_at": change.expires_at.isoformat(),
        }

    def _file(self) -> None:
        held, self._held = self._held, {}
        if not held:
            return
        reason = " ".join(filter(None, [self.change_reason, evading(self._evaded)]))[:500]
        edit, now = source.current(), timezone.now()
        actor, proposer = events.actor_of(edit.user), accountable.behind(accountable.party_of(edit.user))
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
            reason=reason,
            via=edit.via,
            proposed_by=actor.principal,
            proposer_label=actor.label[:150],
            people=sorted(proposer.people),
            needed=1 if proposer.is_known else 2,
        )
        record("proposed", self.waiting_change, actor=actor, reason=reason)
        _tell(edit, self._evaded)


def _written(value: object) -> Json:
    """Return a field's value as JSON; saving reads a moment from its text."""
    return value.isoformat() if isinstance(value, datetime) else value


def record(deed: str, change: WaitingChange, *, actor: events.Actor, reason: str) -> None:
    """Write the event of a change's outcome."""
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


def seen_by(user: Any) -> QuerySet[WaitingChange]:
    """Return the waiting changes that a person or key may read."""
    closed = [
        model._meta.label_lower
        for model in recording.followed()
        if getattr(model, "SEEN_BY_PEOPLE", False)
        and not (
            isinstance(user, models.Model) and user.has_perm(f"{model._meta.app_label}.view_{model._meta.model_name}")  # type: ignore[attr-defined]
        )
    ]
    return WaitingChange.objects.exclude(subject_model__in=closed)


def connect() -> None:
    """Refuse guarded links that bypass `admitted_links`. Called once all models are loaded."""
    for model in recording.followed():
        for name in set(getattr(model, "GUARDED_LINKS", ())) - set(getattr(model, "JUDGED_LINKS", ())):
            through: Any = model._meta.get_field(name).remote_field.through  # type: ignore[union-attr]
            m2m_changed.connect(_on_links, sender=through, dispatch_uid=f"guarded links {through.__name__}")


def _on_links(instance: models.Model, action: str, pk_set: set[Any] | None, **_: Any) -> None:
    is_change = action in ("pre_add", "pre_remove", "pre_clear") and pk_set != set()
    if is_change and needs_second_person() and not getattr(instance, "is_fresh", False):
        raise PermissionDenied("Who may see a row is changed on its page: the change waits for a second person.")


def _names(rows: Iterable[models.Model]) -> list[Json]:
    return sorted(map(recording.name_of, rows))


def evading(policies: Iterable[str]) -> str:
    """Return the sentence that names the policies that a change would evade; empty where there are none."""
    named = ", ".join(sorted(policies))
    return _t("Policies that would no longer apply as before: %(named)s.") % {"named": named} if named else ""


def _tell(edit: source.EditSource, evaded: Iterable[str]) -> None:
    """Show once on the next page of the admin that a change waits."""
    if edit.via == source.REST or edit.request is None:
        return
    request: Any = edit.request

    def say() -> None:
        if getattr(request, "_told_of_waiting", False):
            return
        request._told_of_waiting = True
        words = _t(
            "Part of this change is not in effect yet: a second person must confirm it under Waiting "
            "changes. The rest is saved."
        )
        messages.warning(request, f"{words} {evading(evaded)}".strip())

    transaction.on_commit(say)
