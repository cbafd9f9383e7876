"""Matters that events report, as `Hub.operate` makes them beside a hub."""

from __future__ import annotations

from typing import Any


def note(kind: str, subject: str, facts: dict[str, Any] | None = None) -> None:
    from mcphub.features.notifications import noticing

    noticing.note(kind, subject, facts or {})


def end(kind: str, subject: str) -> int:
    from mcphub.features.notifications import noticing
    from mcphub.features.notifications.models import Notice

    return noticing.end(Notice.objects.filter(kind=kind, subject=subject))


def principal_of(name: str) -> str:
    from sessions_app.models import ApiKey

    return ApiKey.objects.get(name=name).principal


def set_scopes(name: str, scopes: list[str]) -> None:
    from sessions_app.models import ApiKey

    key = ApiKey.objects.get(name=name)
    key.scopes = scopes
    key.save()


def note_many(kind: str, prefix: str, count: int) -> None:
    for number in range(count):
        note(kind, f"{prefix} {number}", {"connection": "shop"})


def forget(name: str) -> None:
    from mcphub.features.events.models import EventSubscription

    EventSubscription.objects.filter(principal=principal_of(name)).delete()


def make_due() -> None:
    from django.utils import timezone

    from mcphub.features.events.models import EventDelivery

    EventDelivery.objects.update(due_at=timezone.now())


def senders() -> list[int]:
    """Return the process of one worker: the one that sends now, or else any."""
    from mcphub.features.events.models import EventSubscription
    from sessions_app.models import ServerProcess

    ids = list(EventSubscription.objects.exclude(leased_by="").values_list("leased_by", flat=True))
    rows = ServerProcess.objects.filter(status=ServerProcess.Status.RUNNING)
    chosen = rows.filter(pk__in=ids).first() or rows.first()
    return [chosen.pid] if chosen is not None else []


def approve_event(name: str, arguments: dict[str, Any] | None = None) -> bool:
    from mcphub.features.events import offers
    from mcphub.features.events.models import UpstreamEvent
    from sessions_app.history.events import on_the_machine

    return offers.approve(UpstreamEvent.objects.get(name=name), on_the_machine(), "", arguments)


def list_again() -> int:
    """Have the hub read the types of its upstreams now."""
    from mcphub.features.events.models import EventSource

    return EventSource.objects.update(listed_at=None)


def trouble_of(name: str) -> list[str]:
    from mcphub.features.events.models import UpstreamEvent

    row = UpstreamEvent.objects.get(name=name)
    return [row.state, row.trouble]


def stop_event(name: str) -> bool:
    from mcphub.features.events import offers
    from mcphub.features.events.models import UpstreamEvent
    from sessions_app.history.events import on_the_machine

    return offers.stop(UpstreamEvent.objects.get(name=name), on_the_machine(), "")


def receivers() -> list[int]:
    """Return the process that receives from upstreams."""
    from mcphub.features.events.models import EventSource
    from sessions_app.models import ServerProcess

    ids = list(EventSource.objects.exclude(leased_by="").values_list("leased_by", flat=True))
    return list(ServerProcess.objects.filter(pk__in=ids).values_list("pid", flat=True))
