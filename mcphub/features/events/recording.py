"""Writes an event for each notice, in the notice's transaction: both are there, or neither."""

from __future__ import annotations

from mcphub.features.events.models import EventLog, Occurrence
from mcphub.features.notifications.models import Notice
from sessions_app import bus
from sessions_app.protocol.json import Json

OCCURRED = "event_occurred"
"""Subject of the change bus. Payload: the name of the event."""


def record(notice: Notice, state: str) -> None:
    facts: dict[str, Json] = notice.facts
    principal = str(facts.get("principal") or (f"user:{notice.person_id}" if notice.person_id is not None else ""))
    Occurrence.objects.create(
        position=EventLog.next_position(),
        name=notice.kind,
        state=state,
        subject=notice.subject,
        facts=facts,
        principal=principal[:80],
        connection=str(facts.get("connection") or "")[:100],
        workspace=str(facts.get("workspace") or "")[:32],
    )
    bus.publish(OCCURRED, notice.kind)
