"""Where an imported tool came from, in bundles: the member `imported` of a tool.

`{"service": …, "key": …, "differs": {…}}` names the operation of the service's description, and the description's
values where the tool's differ. So an import into the next hub still recognizes local edits.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sessions_app.protocol import json
from tools_catalog.bundles.entries import Report
from tools_catalog.call.base import Json
from tools_catalog.models import HttpService, ImportedOperation, McpToolDefinition

MEMBER = "imported"
COLUMNS = ("name", "title", "description", "input_schema", "configuration", "destructive", "idempotent", "read_only")
"""A tool's imported columns."""

_LONGEST_KEY = 500


def taken(tools: list[Json]) -> tuple[list[Json], list[tuple[dict[str, Json], Json]]]:
    """Return the entries of tools without the member, and each that had one together with it."""
    found = [(entry, entry[MEMBER]) for entry in tools if isinstance(entry, dict) and MEMBER in entry]
    plain = [
        {name: value for name, value in entry.items() if name != MEMBER} if isinstance(entry, dict) else entry
        for entry in tools
    ]
    return plain, found


def load(
    found: Iterable[tuple[dict[str, Json], Json]], report: Report, *, wire: Mapping[str, str], overwrite: bool
) -> None:
    """Store the imported form of tools that have just been loaded. An import's record here stays,
    unless `overwrite`.
    """
    for entry, said in found:
        label = str(entry.get("name"))
        try:
            _load_one(label, entry, said, report, wire, overwrite)
        except ValueError as error:
            report.refused.append((label, f"{MEMBER}: {error}"))


def add(entries: list[dict[str, Json]], *, wire: Mapping[str, str]) -> list[dict[str, Json]]:
    """Add the member to the entries of tools that were imported."""
    rows = ImportedOperation.objects.select_related("service", "tool").filter(tool__isnull=False)
    members = {row.tool.name: _member(row, row.tool, wire) for row in rows if row.tool is not None}
    return [{**entry, MEMBER: members[entry["name"]]} if entry["name"] in members else entry for entry in entries]


def _member(row: ImportedOperation, tool: McpToolDefinition, wire: Mapping[str, str]) -> dict[str, Json]:
    members = {column: name for name, column in wire.items()}
    differs = {
        members.get(column, column): row.imported[column]
        for column in COLUMNS
        if column in row.imported and not _same(getattr(tool, column), row.imported[column])
    }
    return {"service": row.service.slug, "key": row.key, **({"differs": differs} if differs else {})}


def _load_one(
    label: str, entry: dict[str, Json], origin: Json, report: Report, wire: Mapping[str, str], overwrite: bool
) -> None:
    slug, key, differs = _checked(origin, wire)
    tool = McpToolDefinition.objects.filter(name=label).first()
    if tool is None:
        return  # refused, with a reason of its own
    service = HttpService.objects.filter(slug=slug).first()
    if service is None:
        raise ValueError(f"there is no service {slug!r} in the catalogue or in the bundle.")
    members = {column: name for name, column in wire.items()}
    empty = McpToolDefinition()
    original = {**entry, **differs}
    imported = {column: original.get(members.get(column, column), getattr(empty, column)) for column in COLUMNS}
    row = ImportedOperation.objects.filter(service=service, key=key).first()
    of_tool = ImportedOperation.objects.filter(tool=tool).first()
    if row is None and of_tool is None:
        ImportedOperation.objects.create(service=service, key=key, tool=tool, imported=imported)
    elif overwrite and row is not None and row == of_tool and not _same(row.imported, imported):
        report.differences.setdefault(label, {})[MEMBER] = (row.imported, imported)
        if label in report.unchanged:
            report.unchanged.remove(label)
            report.changed.append(label)
        row.imported = imported
        row.save()


def _checked(origin: Json, wire: Mapping[str, str]) -> tuple[str, str, dict[str, Json]]:
    if not isinstance(origin, dict) or not {"service", "key"} <= origin.keys() <= {"service", "key", "differs"}:
        raise ValueError('it must be an object with "service", "key" and, if there are any, "differs".')
    slug, key, differs = origin["service"], origin["key"], origin.get("differs", {})
    if not isinstance(slug, str) or not isinstance(key, str) or not 0 < len(key) <= _LONGEST_KEY:
        raise ValueError(f'"service" and "key" must be texts, the key of at most {_LONGEST_KEY} characters.')
    members = {column: name for name, column in wire.items()}
    known = {members.get(column, column) for column in COLUMNS}
    if not isinstance(differs, dict) or differs.keys() - known:
        raise ValueError(f'"differs" must be an object of these members: {", ".join(sorted(known))}.')
    return slug, key, differs


def _same(one: object, other: object) -> bool:
    return json.canonical(one) == json.canonical(other)
