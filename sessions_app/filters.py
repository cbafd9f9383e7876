"""The filters of the lists of sessions, of processes and of waiting changes."""

from __future__ import annotations

from django.db.models import Field, Q
from django.utils import timezone
from django.utils.translation import gettext_lazy as _

from sessions_app.keys.naming import CallerIs, callers
from sessions_app.kit.lists.filters import Choices, During, ListFilter, OneOf, TextIs, YesOrNo
from sessions_app.models import McpSession, ServerProcess, WaitingChange


def _transports() -> Choices:
    field = McpSession._meta.get_field("transport")
    assert isinstance(field, Field)
    return [(str(word), label) for word, label in field.flatchoices]


SESSION_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=McpSession.State.choices),
    OneOf(name="transport", label="", choices=_transports),
    YesOrNo(name="implicit", column="is_implicit", label="", help_text="Sessions that stand for stateless callers."),
    During(name="active", column="last_activity_at", label="", over_rest=False),
    During(name="created", column="created_at", key="time", over_rest=False),
    CallerIs(
        name="principal",
        key="caller",
        known=callers,
        help_text="`key:<id>`, `user:<id>` or `anonymous`; or the name of a key or of a person.",
    ),
    TextIs(name="client", column="client_name", help_text="The name that the client gave of itself."),
)

PROCESS_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="status", label="", choices=ServerProcess.Status.choices),
    TextIs(name="host", help_text="The name of its machine."),
)


def _in_stage(stage: str) -> Q:
    """Return the changes in a state as the list shows them: changes that waited too long have expired."""
    if stage == "expired":
        return Q(state=WaitingChange.State.WAITING, expires_at__lte=timezone.now())
    if stage == WaitingChange.State.WAITING:
        return Q(state=stage, expires_at__gt=timezone.now())
    return Q(state=stage)


WAITING_FILTERS: tuple[ListFilter, ...] = (
    OneOf(
        name="state",
        label=_("state"),
        choices=[*WaitingChange.State.choices, ("expired", _("Expired"))],
        meant=_in_stage,
    ),
    TextIs(name="proposed_by", help_text="`key:<id>` or `user:<id>`."),
)
