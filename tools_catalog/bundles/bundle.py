"""Bundles: the catalogue, or a part of it, as one JSON document (`mcphub-bundle/1`). Packs ship with us.

An entry of a Python function needs its reference only; missing members come from the function. An entry of an HTTP
tool is complete. A load is all or nothing. It follows the source of a tool, and keeps local edits: see `load`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module, resources
from typing import Any

from django.conf import settings
from django.db import transaction

from sessions_app.history.source import BUNDLE, edits_via
from sessions_app.protocol import json
from tools_catalog.backends import python
from tools_catalog.bundles import connections, content, entries, origins, selections
from tools_catalog.bundles.entries import Kind, Members, Report, check_members, load_each
from tools_catalog.call.base import Json
from tools_catalog.kinds import registry
from tools_catalog.models import McpToolDefinition, Secret

__all__ = ["FORMAT", "Report", "dump", "load", "packs", "read_pack", "shipped_packs"]

FORMAT = "mcphub-bundle/1"
KINDS = ("tools", *content.KINDS, *connections.KINDS, *selections.KINDS)

_WIRE = {"inputSchema": "input_schema", "outputSchema": "output_schema", "_meta": "meta"}
"""Members that have their MCP name in a bundle -> column; all others are called as their column."""

_DEFINITION: Members = {
    "name": str,
    "title": str,
    "description": str,
    "inputSchema": dict,
    "outputSchema": dict,
    "_meta": dict,
    "backend": str,
    "configuration": dict,
    "read_only": bool,
    "destructive": bool,
    "idempotent": bool,
    "open_world": bool,
    "timeout_seconds": (int, float),
    "task_support": str,
}
"""The members of a version."""

_OPERATION: Members = {
    "enabled": bool,
    "retry_safe": bool,
    "calls_per_minute": (int, type(None)),
    "requirements": dict,
    "groups": list,
}
"""How the tool is run here: the operator's own, once it exists."""


def _came_by(row: McpToolDefinition, reason: str) -> bool:
    newest = row.versions.first()
    return newest is not None and newest.reason == reason and not newest.author_label


def _check(wanted: dict[str, Json], report: Report) -> None:
    kind = registry.KINDS.get(wanted["backend"])
    if kind is not None:
        try:
            report.missing_secrets += [name for name, _to in kind.secrets(wanted["configuration"])]
        except ValueError as error:
            raise ValueError(f"configuration: {error}") from error


_TOOL = Kind(
    name="tool",
    model=McpToolDefinition,
    key="name",
    definition=_DEFINITION,
    operation=_OPERATION,
    wire=_WIRE,
    came_by=_came_by,
    check=_check,
    always=("configuration", "inputSchema"),
)


class _Refused(Exception):
    """Rolls the load back."""


@dataclass(frozen=True, slots=True)
class BundlePart:
    """A higher floor's addition to bundles: one more kind of entries."""

    kind: str
    load: Callable[..., None]
    """Gets the entries by kind, the report, `reason` and `overwrite`."""
    dump: Callable[[], list[dict[str, Json]]]


PARTS: list[BundlePart] = []
"""Appended to by the apps above when they are ready."""


def load(
    bundle: Json, *, reason: str, overwrite: bool = False, dry_run: bool = False, with_programs: bool = False
) -> Report:
    """Bring the content of `bundle` into the catalogue, all or none; `reason` is stored with each new version.

    With `dry_run` nothing is kept, and the report describes the would-be changes. `with_programs` lets launch
    profiles and connections that run them in: for the owner of the machine.

    A missing tool is created according to the bundle. One that is there follows the bundle in its definition if its
    newest version came by a load of the same `reason`; otherwise it is kept, unless `overwrite`. An operator's
    decisions about an existing tool (enabled, groups, limits) change with `overwrite` only.
    """
    report = Report()
    given = _entries(bundle, report, with_programs)
    given["tools"], imported = origins.taken(given["tools"])
    python.discover(_packs_named(given))
    try:
        with edits_via(BUNDLE), transaction.atomic():
            selections.load_services(given, report, reason=reason, overwrite=overwrite)
            load_each(_TOOL, given["tools"], report, complete=_complete, reason=reason, overwrite=overwrite)
            origins.load(imported, report, wire=_WIRE, overwrite=overwrite)
            content.load(given, report, reason=reason, overwrite=overwrite)
            connections.load(given, report, reason=reason, overwrite=overwrite, with_programs=with_programs)
            selections.load_toolsets(given, report, reason=reason, overwrite=overwrite)
            for part in PARTS:
                part.load(given, report, reason=reason, overwrite=overwrite)
            if report.refused or dry_run:
                raise _Refused
    except _Refused:
        if report.refused:
            return Report(refused=report.refused)
    report.missing_secrets = sorted(set(report.missing_secrets) - set(Secret.objects.values_list("name", flat=True)))
    return report


def dump(*, with_programs: bool = False) -> dict[str, Json]:
    """Return the whole catalogue as a bundle. Secrets are named in it, never contained."""
    # What upstreams offer comes back by their own lists, and by approval.
    tools = [entry for entry in entries.dump(_TOOL) if entry["backend"] not in registry.by_approval()]
    tools = origins.add(tools, wire=_WIRE)
    others = {part.kind: part.dump() for part in PARTS}
    reached = connections.dump(with_programs=with_programs)
    return {"format": FORMAT, **selections.dump(), "tools": tools, **content.dump(), **reached, **others}


def dump_tools(tools: Any) -> dict[str, Json]:
    """Return the tools of a queryset as a bundle, with the services that they name; those of upstreams are left out."""
    chosen = entries.dump_rows(_TOOL, tools.exclude(backend__in=registry.by_approval()))
    named = {entry["configuration"].get("service") for entry in chosen}
    services = [entry for entry in selections.dump()["services"] if entry["slug"] in named]
    tools_of_it = origins.add(chosen, wire=_WIRE)
    return {"format": FORMAT, **({"services": services} if services else {}), "tools": tools_of_it}


def packs() -> list[str]:
    """Name the packs: those that ship, then the apps of the operator's own that have a bundle."""
    return [*shipped_packs(), *(app for app in settings.MCPHUB_APPS if _has_bundle(app))]


def _has_bundle(app: str) -> bool:
    """Return whether an app of the operator's is a package with a bundle; an app may be a single module, too."""
    found = import_module(app)
    return hasattr(found, "__path__") and (resources.files(found) / "bundle.json").is_file()


def shipped_packs() -> list[str]:
    """Name the packs that ship."""
    shelf = resources.files("tools_catalog.packs")
    # A user who may not write here may not read the cache of another's Python either.
    boxes = [box for box in shelf.iterdir() if not box.name.startswith("_")]
    return sorted(box.name for box in boxes if box.is_dir() and (box / "bundle.json").is_file())


def read_pack(name: str) -> Json:
    """Return a pack's bundle; raise LookupError, with the names there are, for one that is not there."""
    if name not in packs():
        raise LookupError(f"There is no pack {name!r}. Packs: {', '.join(packs())}.")
    package = f"tools_catalog.packs.{name}" if name in shipped_packs() else name
    return json.loads((resources.files(package) / "bundle.json").read_bytes())


def _entries(bundle: Json, report: Report, with_programs: bool) -> dict[str, list[Json]]:
    """Return the entries by kind."""
    kinds = (*KINDS, *(part.kind for part in PARTS), *(connections.PROGRAMS if with_programs else ()))
    given: dict[str, list[Json]] = {kind: [] for kind in kinds}
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        report.refused.append(("bundle", f'format: it must be an object with "format": "{FORMAT}".'))
    elif programs := sorted(bundle.keys() & set(connections.PROGRAMS) - set(kinds)):
        report.refused.append(("bundle", f"{programs[0]}: {connections.WITH_PROGRAMS.words()}"))
    elif unknown := bundle.keys() - {"format", *kinds}:
        report.refused.append(("bundle", f"{sorted(unknown)[0]}: a bundle has no such member."))
    elif not bundle.keys() & set(kinds):
        report.refused.append(("bundle", f"tools: there must be a list of {', or of '.join(kinds)}."))
    else:
        for kind in kinds:
            if isinstance(bundle.get(kind, []), list):
                given[kind] = list(bundle.get(kind, []))
            else:
                report.refused.append(("bundle", f"{kind}: it must be a list."))
    return given


def _packs_named(given: dict[str, list[Json]]) -> set[str]:
    """The packs with named functions; no other module is imported."""
    named = re.findall(r"\btools_catalog\.packs\.(\w+)\.\w+:", json.dumps(given).decode())
    return set(named) & set(shipped_packs())


def _complete(entry: Any) -> dict[str, Json]:
    """Check the members' names and kinds, and fill in the kind of tool's defaults."""
    check_members(entry, _TOOL)
    if "backend" not in entry:
        raise ValueError(f"backend: it is missing. Backends: {', '.join(registry.KINDS)}.")
    kind = registry.KINDS.get(entry["backend"]) or registry.ToolKind()  # the model refuses a kind that is not there
    return kind.completed(entry, _TOOL.members)
