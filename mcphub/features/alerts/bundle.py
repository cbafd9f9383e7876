"""Alerts in bundles of the catalogue. What they watch stands there by name; a key by its prefix."""

from __future__ import annotations

from django.contrib.auth import get_user_model

from mcphub.features.alerts.models import Alert
from sessions_app.models import ApiKey, McpWorkspace
from tools_catalog.bundles import bundle, entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models import McpConnection, McpToolDefinition
from tools_catalog.models.loadable import LoadableModel

KIND = "alerts"

ALERT = Kind(
    name="alert",
    model=Alert,
    key="name",
    came_by=LoadableModel.came_by,
    wire={
        "tool": "tool_name",
        "connection": "connection_slug",
        "workspace": "workspace_slug",
        "person": "person_name",
        "key": "key_prefix",
    },
    always=("enabled",),
    definition={
        "name": str,
        "measure": str,
        "limit": (int, type(None)),
        "window_minutes": int,
        "least_calls": int,
        "tool": str,
        "connection": str,
        "workspace": str,
        "person": str,
        "key": str,
        "provider": str,
    },
    operation={"enabled": bool},
)


def connect() -> None:
    bundle.PARTS.append(bundle.BundlePart(KIND, _load, lambda: entries.dump(ALERT)))


def _load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(ALERT, given[KIND], report, complete=_complete, reason=reason, overwrite=overwrite)


def _complete(entry: Json) -> dict[str, Json]:
    check_members(entry, ALERT)
    if not entry.get("name"):
        raise ValueError("name: it is missing.")
    for member, rows, column in (
        ("tool", McpToolDefinition.objects, "name"),
        ("connection", McpConnection.objects, "slug"),
        ("workspace", McpWorkspace._default_manager, "slug"),
        ("person", get_user_model()._default_manager, "username"),
        ("key", ApiKey.objects, "prefix"),
    ):
        if entry.get(member) and not rows.filter(**{column: entry[member]}).exists():
            raise ValueError(f"{member}: there is no {entry[member]!r} here.")
    return dict(entry)
