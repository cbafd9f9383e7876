"""Quotas in bundles of the catalogue. People, keys and groups stand there by name; a key by its prefix."""

from __future__ import annotations

from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group

from mcphub.features.quotas.models import McpQuota
from sessions_app.kit.people_tables import PEOPLE
from sessions_app.models import ApiKey
from tools_catalog.bundles import bundle, entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models.loadable import LoadableModel

KIND = "quotas"
_NUMBER = (int, type(None))

QUOTA = Kind(
    name="quota",
    model=McpQuota,
    key="name",
    came_by=LoadableModel.came_by,
    wire={"person": "person_name", "key": "key_prefix", "group": "group_name"},
    always=("enabled",),
    definition={
        "name": str,
        "words": str,
        "applies_to": str,
        "target": str,
        "per": str,
        "person": str,
        "key": str,
        "group": str,
        "provider": str,
        "unit": str,
        "period": str,
        "soft_limit": _NUMBER,
        "hard_limit": _NUMBER,
    },
    operation={"enabled": bool},
)


def connect() -> None:
    bundle.PARTS.append(bundle.BundlePart(KIND, _load, lambda: entries.dump(QUOTA)))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(QUOTA, given[KIND], report, complete=_complete, reason=reason, overwrite=overwrite)


def _complete(entry: Json) -> dict[str, Json]:
    check_members(entry, QUOTA)
    if not entry.get("name"):
        raise ValueError("name: it is missing.")
    people = get_user_model()._default_manager
    for member, rows, column in (
        ("person", people, PEOPLE.name),
        ("key", ApiKey.objects, "prefix"),
        ("group", Group.objects, "name"),
    ):
        if entry.get(member) and not rows.filter(**{column: entry[member]}).exists():
            raise ValueError(f"{member}: there is no {entry[member]!r} here.")
    return dict(entry)
