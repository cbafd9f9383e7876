"""Services and toolsets in bundles: loaded before the tools, and made of them."""

from __future__ import annotations

import re

from tools_catalog.backends.http.configuration import parse_service, service_secrets
from tools_catalog.bundles import entries
from tools_catalog.bundles.entries import Kind, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.kinds.registry import by_approval
from tools_catalog.models import HttpService, McpPrompt, McpResource, McpToolDefinition, McpToolset
from tools_catalog.models.loadable import LoadableModel

KINDS = ("services", "toolsets")
_OFFERED = "upstream_tools"
"""Member of a toolset: picked tools of upstreams."""
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}\Z")


def _check(wanted: dict[str, Json], report: Report) -> None:
    parse_service(wanted["url"], wanted.get("headers", {}))
    report.missing_secrets += service_secrets(wanted.get("headers", {}))


_SERVICE = Kind(
    name="service",
    model=HttpService,
    key="slug",
    came_by=LoadableModel.came_by,
    check=_check,
    wire={},
    always=("enabled",),
    definition={
        "slug": str,
        "title": str,
        "url": str,
        "headers": dict,
        "account": str,
        "issuer": str,
        "authorization_url": str,
        "token_url": str,
        "client_id": str,
        "client_secret": str,
        "account_scopes": str,
        "kind": str,
        "version": str,
    },
    operation={"enabled": bool},
)
_TOOLSET = Kind(
    name="toolset",
    model=McpToolset,
    key="slug",
    came_by=LoadableModel.came_by,
    wire={},
    definition={
        "slug": str,
        "title": str,
        "description": str,
        "mode": str,
        "patterns": str,
        "tools": list,
        "reads": str,
        "read_patterns": str,
        "prompts": list,
        "resources": list,
    },
    operation={"enabled": bool, "groups": list},
)


def load_services(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    load_each(_SERVICE, given["services"], report, complete=_service, reason=reason, overwrite=overwrite)


def load_toolsets(given: dict[str, list[Json]], report: Report, *, reason: str, overwrite: bool) -> None:
    """Load them after the tools, which they name."""
    load_each(_TOOLSET, given["toolsets"], report, complete=_toolset, reason=reason, overwrite=overwrite)


def dump() -> dict[str, Json]:
    offered = set(McpToolDefinition.objects.filter(backend__in=by_approval()).values_list("name", flat=True))
    theirs = {
        "prompts": set(McpPrompt.objects.filter(backend="upstream").values_list("name", flat=True)),
        "resources": set(McpResource.objects.filter(backend="upstream").values_list("uri", flat=True)),
    }
    toolsets = [_parted(_with_patterns(each, theirs), offered) for each in entries.dump(_TOOLSET)]
    return {"services": entries.dump(_SERVICE), "toolsets": toolsets}


def _with_patterns(entry: dict[str, Json], theirs: dict[str, set[str]]) -> dict[str, Json]:
    """Name prompts and resources of upstreams by patterns: where the entry is loaded they may not be approved yet."""
    if entry.get("reads") == McpToolset.Reads.ALL:
        entry = {name: value for name, value in entry.items() if name != "reads"}
    patterns = entry.get("read_patterns", "").split()
    for name, offered in theirs.items():
        chosen = entry.pop(name, [])
        if ours := [each for each in chosen if each not in offered]:
            entry[name] = ours
        patterns += [each for each in chosen if each in offered and each not in patterns]
    return {**entry, **({"read_patterns": " ".join(patterns)} if patterns else {})}


def _parted(entry: dict[str, Json], offered: set[str]) -> dict[str, Json]:
    """Put the tools of upstreams into a member of their own: where the entry is loaded they may not be approved yet."""
    names: list[str] = entry.pop("tools", [])
    ours, theirs = [name for name in names if name not in offered], [name for name in names if name in offered]
    return {**entry, **({"tools": ours} if ours else {}), **({_OFFERED: theirs} if theirs else {})}


def _service(entry: Json) -> dict[str, Json]:
    check_members(entry, _SERVICE)
    if missing := [name for name in ("slug", "url") if not entry.get(name)]:
        raise ValueError(f"{missing[0]}: it is missing.")
    return dict(entry)


def _toolset(entry: Json) -> dict[str, Json]:
    given = dict(entry) if isinstance(entry, dict) else {"entry": entry}
    offered = given.pop(_OFFERED, [])
    check_members(given if isinstance(entry, dict) else entry, _TOOLSET)
    if not given.get("slug"):
        raise ValueError("slug: it is missing.")
    if not isinstance(offered, list) or not all(isinstance(name, str) and _NAME.match(name) for name in offered):
        raise ValueError(f"{_OFFERED}: it must be a list of names of tools.")
    if offered:
        there = set(McpToolDefinition.objects.filter(name__in=offered).values_list("name", flat=True))
        given["tools"] = sorted({*given.get("tools", []), *there})
        # A name is a pattern, too: what is not approved yet comes in when it is.
        later = [name for name in offered if name not in there]
        if later:
            given["patterns"] = " ".join([*given.get("patterns", "").split(), *later])
    return given
