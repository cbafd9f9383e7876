"""Bundles: the catalogue, or a part of it, as one JSON document (`mcphub-bundle/1`). Packs ship with us.

An entry of a Python tool needs its function only; what it leaves out comes from the function. An entry of an
HTTP tool says everything. A load is all or nothing. It follows the source of a tool, and leaves alone what
was edited here: see `load`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib import resources
from typing import Any

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import transaction

from sessions_app.protocol import json
from tools_catalog.backends import python
from tools_catalog.backends.base import Json
from tools_catalog.backends.http import HttpConfiguration
from tools_catalog.models import Backend, McpToolDefinition, Secret

FORMAT = "mcphub-bundle/1"

_WIRE = {"inputSchema": "input_schema", "outputSchema": "output_schema", "_meta": "meta"}
"""Members that have their MCP name in a bundle -> column; all others are called as their column."""

_DEFINITION: dict[str, type | tuple[type, ...]] = {
    "name": str, "title": str, "description": str, "inputSchema": dict, "outputSchema": dict, "_meta": dict,
    "backend": str, "configuration": dict, "read_only": bool, "destructive": bool, "idempotent": bool,
    "open_world": bool, "timeout_seconds": (int, float),
}  # fmt: skip
"""What a version is made of."""

_OPERATION: dict[str, type | tuple[type, ...]] = {
    "enabled": bool, "retry_safe": bool, "calls_per_minute": (int, type(None)), "requirements": dict,
    "groups": list,
}  # fmt: skip
"""How the tool is run here: the operator's own, once it exists."""

_MEMBERS = {**_DEFINITION, **_OPERATION}
_JSON_NAMES = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}


@dataclass(slots=True)
class Report:
    """What a load did, as tool names. With anything in `refused`, nothing was changed."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    """Differ from the bundle and were edited here or come from another source."""
    refused: list[tuple[str, str]] = field(default_factory=list)
    """Entry and why."""
    missing_secrets: list[str] = field(default_factory=list)
    """Secrets that HTTP tools of the bundle name and that do not exist here."""


class _Refused(Exception):
    """Rolls the load back."""


def load(bundle: Json, *, reason: str, overwrite: bool = False) -> Report:
    """Bring the tools of `bundle` into the catalogue, all or none; `reason` is kept with each version made.

    A tool that is not there is created as the bundle says. One that is there follows the bundle in its
    definition if its newest version came by a load of the same `reason`; otherwise it is kept, unless
    `overwrite`. What an operator decides about an existing tool (enabled, groups, limits) changes with
    `overwrite` only.
    """
    report = Report()
    entries = _entries(bundle, report)
    python.discover(_packs_named(entries))
    try:
        with transaction.atomic():
            seen: set[str] = set()
            for index, entry in enumerate(entries):
                _load_entry(index, entry, seen, report, reason=reason, overwrite=overwrite)
            if report.refused:
                raise _Refused
    except _Refused:
        return Report(refused=report.refused)
    report.missing_secrets = sorted(set(report.missing_secrets) - set(Secret.objects.values_list("name", flat=True)))
    return report


def dump() -> dict[str, Json]:
    """Give the whole catalogue as a bundle. Secrets are named in it, never contained."""
    rows = McpToolDefinition.objects.prefetch_related("groups").order_by("name")
    return {"format": FORMAT, "tools": [_entry(row) for row in rows]}


def packs() -> list[str]:
    """Name the packs that ship."""
    shelf = resources.files("tools_catalog.packs")
    return sorted(box.name for box in shelf.iterdir() if box.is_dir() and (box / "bundle.json").is_file())


def read_pack(name: str) -> Json:
    """Give a pack's bundle; raise LookupError, with the names there are, for one that does not ship."""
    if name not in packs():
        raise LookupError(f"There is no pack {name!r}. Packs: {', '.join(packs())}.")
    return json.loads((resources.files("tools_catalog.packs") / name / "bundle.json").read_bytes())


def _entries(bundle: Json, report: Report) -> list[Json]:
    if not isinstance(bundle, dict) or bundle.get("format") != FORMAT:
        report.refused.append(("bundle", f'format: it must be an object with "format": "{FORMAT}".'))
    elif not isinstance(bundle.get("tools"), list):
        report.refused.append(("bundle", "tools: there must be a list of tools."))
    elif unknown := bundle.keys() - {"format", "tools"}:
        report.refused.append(("bundle", f"{sorted(unknown)[0]}: a bundle has no such member."))
    else:
        return list(bundle["tools"])
    return []


def _packs_named(entries: list[Json]) -> set[str]:
    """The packs whose functions the entries name; no other module is imported."""
    named = set()
    for entry in entries:
        configuration = entry.get("configuration") if isinstance(entry, dict) else None
        reference = configuration.get("function") if isinstance(configuration, dict) else None
        if isinstance(reference, str) and reference.startswith("tools_catalog.packs."):
            named.add(reference.split(".")[2])
    return named & set(packs())


def _load_entry(index: int, entry: Json, seen: set[str], report: Report, *, reason: str, overwrite: bool) -> None:
    label = f"tools[{index}]"
    try:
        wanted = _complete(entry)
        label = wanted["name"]
        if label in seen:
            raise ValueError("name: the bundle has this tool twice.")
        seen.add(label)
        _save(wanted, report, reason=reason, overwrite=overwrite)
    except ValidationError as error:
        wire = {column: name for name, column in _WIRE.items()}
        report.refused += [
            (label, f"{wire.get(column, column)}: {message}")
            for column in error.message_dict
            for message in error.message_dict[column]
        ]
    except (ValueError, LookupError) as error:
        report.refused.append((label, str(error)))


def _complete(entry: Json) -> dict[str, Json]:
    """Check the members' names and kinds, and fill in what the function of a Python tool knows."""
    if not isinstance(entry, dict):
        raise ValueError("it must be an object.")
    for name, value in entry.items():
        if name not in _MEMBERS:
            raise ValueError(f"{name}: a tool has no such member. Members: {', '.join(_MEMBERS)}.")
        _check_kind(name, value)
    if "backend" not in entry:
        raise ValueError(f"backend: it is missing. Backends: {', '.join(Backend.values)}.")
    if entry["backend"] != Backend.PYTHON:
        if missing := [name for name in ("name", "description", "inputSchema", "configuration") if name not in entry]:
            raise ValueError(f"{missing[0]}: it is missing.")
        return entry
    reference = entry.get("configuration", {}).get("function")
    if not isinstance(reference, str):
        raise ValueError('configuration: a python tool needs {"function": "module:name"}.')
    try:
        known = python.definition(reference)
    except LookupError as error:
        raise ValueError(f"configuration: {error}") from error
    return {
        **{name: value for name, value in known.items() if name in _MEMBERS and value is not None},
        **entry,
    }


def _check_kind(name: str, value: Json) -> None:
    kind = _MEMBERS[name]
    is_number = kind in ((int, float), (int, type(None)))
    is_right: bool = isinstance(value, kind) and not (is_number and isinstance(value, bool))
    if not is_right:
        words = "a number" if is_number else _JSON_NAMES[kind]  # type: ignore[index]
        raise ValueError(f"{name}: it must be {words}.")
    if name == "groups" and not all(isinstance(group, str) and 0 < len(group) <= 150 for group in value):
        raise ValueError("groups: it must be a list of names.")


def _save(wanted: dict[str, Json], report: Report, *, reason: str, overwrite: bool) -> None:
    name = wanted["name"]
    row = McpToolDefinition.objects.filter(name=name).first()
    is_new = row is None
    row = row or McpToolDefinition(name=name)
    group_names: list[str] | None = sorted(set(wanted["groups"])) if "groups" in wanted else None
    if wanted["backend"] == Backend.HTTP:
        try:
            report.missing_secrets += HttpConfiguration.parse(wanted["configuration"]).secret_names
        except ValueError as error:
            raise ValueError(f"configuration: {error}") from error

    changes = _differences(row, wanted, _MEMBERS if is_new or overwrite else _DEFINITION)
    regroups = (is_new or overwrite) and group_names is not None and group_names != _group_names(row)
    for column, value in changes.items():
        setattr(row, column, value)
    if is_new or changes or regroups:
        row.full_clean()
    if not is_new and changes and not overwrite and not _came_by(row, reason):
        report.kept.append(name)
        return
    if not is_new and not changes and not regroups:
        report.unchanged.append(name)
        return
    row.change_reason = reason
    row._change_reason = reason[:100]  # kept by simple_history
    row.save()
    if regroups and group_names is not None:
        row.groups.set([Group.objects.get_or_create(name=group)[0] for group in group_names])
    (report.created if is_new else report.changed).append(name)


def _differences(row: McpToolDefinition, wanted: dict[str, Json], members: dict[str, Any]) -> dict[str, Json]:
    columns = {_WIRE.get(name, name): value for name, value in wanted.items() if name in members and name != "groups"}
    return {column: value for column, value in columns.items() if not _same(getattr(row, column), value)}


def _same(one: Json, other: Json) -> bool:
    """Whether two JSON values are equal; a number's kind is not told apart, the order of names is."""
    if isinstance(one, (int, float)) and isinstance(other, (int, float)):
        return one == other
    return (one is not None and other is not None and json.dumps(one) == json.dumps(other)) or one is other


def _group_names(row: McpToolDefinition) -> list[str]:
    return sorted(group.name for group in row.groups.all()) if row.pk else []


def _came_by(row: McpToolDefinition, reason: str) -> bool:
    newest = row.versions.first()
    return newest is not None and newest.reason == reason and not newest.author_label


def _entry(row: McpToolDefinition) -> dict[str, Json]:
    """Every member of a stored tool; those that say nothing are left out."""
    entry: dict[str, Json] = {}
    for name in _MEMBERS:
        value = _group_names(row) if name == "groups" else getattr(row, _WIRE.get(name, name))
        if value in ({}, [], "", None) and name not in ("configuration", "inputSchema"):
            continue
        entry[name] = value
    return entry
