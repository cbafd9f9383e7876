"""Services and toolsets in bundles: what stands before the tools, and what is made of them."""

from __future__ import annotations

from typing import Any

from tools_catalog.backends.base import Json
from tools_catalog.backends.http_configuration import parse_service, service_secrets
from tools_catalog.importers import entries
from tools_catalog.importers.content import came_by
from tools_catalog.importers.entries import Kind, Report, check_members, load_each
from tools_catalog.models import HttpService, McpToolset

KINDS = ("services", "toolsets")


def _check(wanted: dict[str, Json], report: Report) -> None:
    parse_service(wanted["url"], wanted.get("headers", {}))
    report.missing_secrets += service_secrets(wanted.get("headers", {}))


_SERVICE = Kind(
    name="service", model=HttpService, key="slug", came_by=came_by, check=_check, wire={}, always=("enabled",),
    definition={"slug": str, "title": str, "url": str, "headers": dict, "kind": str, "version": str},
    operation={"enabled": bool},
)  # fmt: skip
_TOOLSET = Kind(
    name="toolset", model=McpToolset, key="slug", came_by=came_by, wire={},
    definition={"slug": str, "title": str, "description": str, "mode": str, "patterns": str, "tools": list},
    operation={"enabled": bool, "groups": list},
)  # fmt: skip


def load_services(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(_SERVICE, given["services"], report, complete=_service, reason=reason, overwrite=overwrite)


def load_toolsets(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    """Load them after the tools, which they name."""
    load_each(_TOOLSET, given["toolsets"], report, complete=_toolset, reason=reason, overwrite=overwrite)


def dump() -> dict[str, Json]:
    return {"services": entries.dump(_SERVICE), "toolsets": entries.dump(_TOOLSET)}


def _service(entry: Any) -> dict[str, Json]:
    check_members(entry, _SERVICE)
    if missing := [name for name in ("slug", "url") if not entry.get(name)]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return dict(entry)


def _toolset(entry: Any) -> dict[str, Json]:
    check_members(entry, _TOOLSET)
    if not entry.get("slug"):
        raise ValueError("slug: it is missing.")
    return dict(entry)
