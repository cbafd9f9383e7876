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
