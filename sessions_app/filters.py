"""The filters of the lists of sessions and of processes."""

from __future__ import annotations

from django.db.models import Field

from sessions_app.kit.lists.filters import Choices, During, ListFilter, OneOf, TextIs, YesOrNo
from sessions_app.models import McpSession, ServerProcess


def _transports() -> Choices:
    field = McpSession._meta.get_field("transport")
    assert isinstance(field, Field)
    return [(str(word), label) for word, label in field.flatchoices]


SESSION_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="state", label="", choices=McpSession.State.choices),
    OneOf(name="transport", label="", choices=_transports),
    YesOrNo(name="implicit", column="is_implicit", label="", help_text="Sessions that stand for stateless callers."),
    During(name="active", column="last_activity_at", label="", over_rest=False),
    TextIs(name="principal", help_text="`key:<id>`, `user:<id>` or `anonymous`."),
    TextIs(name="client", column="client_name", help_text="The name that the client gave of itself."),
)

PROCESS_FILTERS: tuple[ListFilter, ...] = (
    OneOf(name="status", label="", choices=ServerProcess.Status.choices),
    TextIs(name="host", help_text="The name of its machine."),
)
