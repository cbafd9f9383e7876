"""Writes events: actions of operators and the hub, beside the calls and in the same proof."""

from __future__ import annotations

import getpass
from typing import TYPE_CHECKING, NamedTuple

from django.db.models import Model

from sessions_app.history import source
from sessions_app.history.models import AuditEvent
from sessions_app.protocol.json import Json

if TYPE_CHECKING:
    from django.contrib.auth.models import AnonymousUser, User


class Actor(NamedTuple):
    """The author of an action: the principal in events (`user:1`, `key:1`, `machine`, `hub`), and a name."""

    principal: str
    label: str = ""


def record(
    kind: str,
    *,
    actor: Actor | None = None,
    model: type[Model] | None = None,
    subject: object = "",
    label: str = "",
    before: Json = None,
    after: Json = None,
    reason: str = "",
) -> AuditEvent:
    """Append an event. Takes part in the caller's transaction, so a deed and its record stand or fall together.

    Without `actor` it is the one of the request, or else whoever runs the program.
    """
    edit = source.current()
    who = actor or actor_of(edit.user)
    return AuditEvent.objects.create(
        kind=kind,
        actor=who.principal,
        actor_label=_plain(who.label, 150),
        via=edit.via,
        subject_model=model._meta.label_lower if model else "",
        subject_id=_plain(str(subject), 64),
        subject_label=_plain(label, 200),
        before=before,
        after=after,
        reason=_plain(reason, 500),
    )


def actor_of(user: User | AnonymousUser | None) -> Actor:
    """Return the actor for `record`: a key, a person, or else the user of the program."""
    if isinstance(user, Model) and user.pk is not None:
        return Actor(f"user:{user.pk}", str(user.get_username()))
    own = getattr(user, "actor", None)  # of what stands in for a person
    if isinstance(own, Actor):
        return own
    key = getattr(user, "key", None)  # of a key's principal
    if key is not None:
        return Actor(key.principal, key.caller_label)
    return on_the_machine()


def on_the_machine() -> Actor:
    """The user of a command: of the machine, not of the hub."""
    try:
        name = getpass.getuser()
    except (OSError, KeyError):
        name = "?"
    return Actor("machine", name)


def _plain(text: str, most: int) -> str:
    return text.replace("\x00", "")[:most]
