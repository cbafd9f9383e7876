"""Connections in bundles: those over HTTP, with secrets named. One that runs a program is written by people only."""

from __future__ import annotations

from typing import Any

from tools_catalog.call.base import Json
from tools_catalog.importers import entries
from tools_catalog.importers.entries import Kind, Report, check_members, load_each
from tools_catalog.models import McpConnection
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.upstream import spec

KINDS = ("connections",)


def _check(wanted: dict[str, Json], report: Report) -> None:
    try:
        headers = spec.parse_headers(wanted.get("headers", {}))
    except ValueError as error:
        raise ValueError(f"headers: {error}") from error
    report.missing_secrets += [name for _header, template in headers for name in template.secrets]


_CONNECTION = Kind(
    name="connection",
    model=McpConnection,
    key="slug",
    came_by=LoadableModel.came_by,
    check=_check,
    wire={},
    definition={
        "slug": str,
        "title": str,
        "transport": str,
        "url": str,
        "headers": dict,
        "prefix": str,
        "sessions": str,
        "era": str,
        "may_ask": bool,
        "may_ask_secrets": bool,
        "may_sample": bool,
        "may_list_roots": bool,
        "max_response_bytes": int,
        "max_notifications": int,
        "connect_seconds": int,
    },
    operation={
        "enabled": bool,
        "policy": str,
        "keeps_serving": bool,
        "groups": list,
        "starts_eagerly": bool,
        "idle_seconds": int,
        "refresh_seconds": int,
        "max_concurrent": int,
    },
)


def load(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    """Load them into an open transaction. What they offer then waits, or passes, by their policy."""
    load_each(_CONNECTION, given["connections"], report, complete=_complete, reason=reason, overwrite=overwrite)


def dump() -> dict[str, Json]:
    """Give the connections over HTTP; what was approved of them is not part of a bundle."""
    return {"connections": [each for each in entries.dump(_CONNECTION) if each["transport"] != spec.STDIO]}


def _complete(entry: Any) -> dict[str, Json]:
    check_members(entry, _CONNECTION)
    if entry.get("transport") == spec.STDIO:
        raise ValueError("transport: a connection that runs a program is made in the admin, by an upstream manager.")
    if missing := [name for name in ("slug", "transport", "url") if not entry.get(name)]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return dict(entry)
