"""Connections in bundles, with secrets named. Those that run programs, and launch profiles, come by the command alone.

A user who may run `mcphub catalog load --with-programs` on the hub's machine may start programs there anyway. By
every other way a connection that runs a program is written by people, in the console.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from sessions_app.advice import Advice
from tools_catalog.bundles import entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.models import LaunchProfile, McpConnection, Secret
from tools_catalog.models.loadable import LoadableModel
from tools_catalog.upstream import spec

KINDS = ("connections",)
PROGRAMS = ("profiles", "secrets")
"""Kinds of entries beside, where programs come too. An entry of a secret contains its binding, and no value."""
_SECRET = {"name": str, "origins": str, "places": str, "users": str}

_OF_ADDRESSES = (
    "url",
    "headers",
    "account",
    "issuer",
    "client_id",
    "client_secret",
    "account_scopes",
    "sends_resource",
    "lists_per_person",
)
"""Members of connections over HTTP only."""


def _check(wanted: dict[str, Json], report: Report) -> None:
    try:
        headers = spec.parse_headers(wanted.get("headers", {}), has_literals=True)
    except ValueError as error:
        raise ValueError(f"headers: {error}") from error
    report.missing_secrets += [name for _header, template in headers for name in template.secrets]
    if isinstance(named := wanted.get("client_secret"), str) and named:
        report.missing_secrets.append(named)


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
        "account": str,
        "issuer": str,
        "client_id": str,
        "client_secret": str,
        "account_scopes": str,
        "sends_resource": bool,
        "lists_per_person": bool,
        "prefix": str,
        "sessions": str,
        "era": str,
        "may_ask": bool,
        "may_ask_secrets": bool,
        "may_sample": bool,
        "may_list_roots": bool,
        "extensions": list,
        "max_response_bytes": int,
        "max_notifications": int,
        "connect_seconds": int,
    },
    operation={
        "enabled": bool,
        "policy": str,
        "keeps_serving": bool,
        "generated_skills": bool,
        "groups": list,
        "starts_eagerly": bool,
        "idle_seconds": int,
        "refresh_seconds": int,
        "max_concurrent": int,
    },
)


WITH_PROGRAMS: Final = Advice(
    page=(
        "a bundle that is loaded here brings nothing that runs a program. An upstream manager creates it under "
        "Connections, or `mcphub catalog load --with-programs` brings it on the hub's machine."
    ),
    command="what runs a program comes with `mcphub catalog load --with-programs` only.",
    neutral=(
        "a bundle brings what runs a program only on the hub's machine and on demand; an upstream manager creates it "
        "otherwise."
    ),
)


_CHILD = replace(
    _CONNECTION,
    definition={name: kind for name, kind in _CONNECTION.definition.items() if name not in _OF_ADDRESSES}
    | {"profile": str},
    wire={"profile": "profile_name"},
    check=None,
)
_PROFILE = Kind(
    name="profile",
    model=LaunchProfile,
    key="name",
    # Nothing tells whether somebody edited it here, so one that differs is kept.
    came_by=lambda row, reason: False,
    wire={},
    definition={
        "name": str,
        "command": str,
        "arguments": list,
        "environment": dict,
        "directory": str,
        "readable": list,
        "writable": list,
        "network": str,
        "instances": str,
        "memory_mb": int,
        "cpu_seconds": int,
        "open_files": int,
        "file_mb": int,
        "max_processes": int,
    },
    operation={},
)


def load(
    given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool, with_programs: bool = False
) -> None:
    """Load them into an open transaction. Their offers then wait, or pass, by their policy."""
    how: dict[str, Any] = {"reason": reason, "overwrite": overwrite}
    load_each(_PROFILE, given.get("profiles", []), report, complete=_complete_profile, **how)
    children = [each for each in given["connections"] if with_programs and _runs_program(each)]
    others = [each for each in given["connections"] if each not in children]
    load_each(_CONNECTION, others, report, complete=_complete, **how)
    load_each(_CHILD, children, report, complete=_complete_child, **how)
    for entry in given.get("secrets", []):
        if not isinstance(entry, dict) or not isinstance(entry.get("name"), str) or entry.keys() - _SECRET.keys():
            report.refused.append(("secrets", f"a secret has a name, and of {', '.join(_SECRET)} no other members."))
        else:
            report.missing_secrets.append(entry["name"])


def dump(*, with_programs: bool = False) -> dict[str, Json]:
    """Return the connections; approvals of their offers are not part of a bundle. Of secrets no value is given."""
    over_http = [each for each in entries.dump(_CONNECTION) if each["transport"] != spec.STDIO]
    if not with_programs:
        return {"connections": over_http}
    children = entries.dump_rows(_CHILD, McpConnection.objects.filter(transport=spec.STDIO).select_related("profile"))
    secrets = [{name: getattr(row, name) for name in _SECRET if getattr(row, name)} for row in Secret.objects.all()]
    return {"profiles": entries.dump(_PROFILE), "connections": [*over_http, *children], "secrets": secrets}


def _runs_program(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("transport") == spec.STDIO


def _complete_profile(entry: Any) -> dict[str, Json]:
    check_members(entry, _PROFILE)
    if missing := [name for name in ("name", "command") if not entry.get(name)]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return dict(entry)


def _complete_child(entry: Any) -> dict[str, Json]:
    check_members(entry, _CHILD)
    if missing := [name for name in ("slug", "profile") if not entry.get(name)]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return dict(entry)


def _complete(entry: Any) -> dict[str, Json]:
    check_members(entry, _CONNECTION)
    if entry.get("transport") == spec.STDIO:
        raise ValueError(f"transport: {WITH_PROGRAMS.words()}")
    if missing := [name for name in ("slug", "transport", "url") if not entry.get(name)]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return dict(entry)
