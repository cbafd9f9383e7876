"""Bringing what a description offers into the catalogue: new, changed, gone, with what was written here kept.

Each tool keeps what was imported of it. A later import changes only the members that still say what the last one said,
so an operator's words stay, and what else changed in the description arrives.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from sessions_app.protocol import json
from tools_catalog.backends.http.configuration import parse_service
from tools_catalog.importers.candidates import Candidate, Found
from tools_catalog.importers.descriptions import GRAPHQL, OPENAPI, look
from tools_catalog.importers.documents import DocumentRefused
from tools_catalog.importers.entries import Report
from tools_catalog.kinds.http import HttpKind
from tools_catalog.models import HttpService, ImportedOperation, McpToolDefinition

__all__ = ["GRAPHQL", "OPENAPI", "Imported", "bring", "look"]


MOST_AT_ONCE = 3_000
"""Operations that one import brings."""


@dataclass(slots=True)
class Imported(Report):
    """What an import did or would do. `differences` are of what changes; `overridden` of what stays as written here."""

    offered: list[str] = field(default_factory=list)
    """Keys of operations that are there and were not chosen."""
    gone: list[str] = field(default_factory=list)
    """Names of tools whose operation the description no longer has: they are switched off."""
    overridden: dict[str, list[str]] = field(default_factory=dict)
    """Name of a tool -> members that differ from the description because somebody wrote them here."""
    notes: list[str] = field(default_factory=list)


class _Undone(Exception):
    """Rolls a dry run back."""


def bring(
    found: Found,
    slug: str,
    *,
    only: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    author: Any = None,
    url: str = "",
    reads_only: bool = False,
    dry_run: bool = False,
) -> Imported:
    """Bring the chosen operations in, all or none; those that came before follow in any case.

    `only` are patterns over keys and names; without them all are chosen at the first import, and later those that came
    before. With `tags` only those with one of them. `url` stands for the address that the description names; the
    service is made if it is not there. `reads_only` marks what queries as read-only, which is an operator's word.
    Raises DocumentRefused.
    """
    report = Imported(notes=list(found.notes), refused=[])
    try:
        with transaction.atomic():
            service = _service(found, slug, url, report)
            _bring(found, service, report, _chosen(found, service, only, tags), author, reads_only)
            if dry_run or report.refused:
                raise _Undone
    except _Undone:
        pass
    return report


def _service(found: Found, slug: str, url: str, report: Imported) -> HttpService:
    row = HttpService.objects.filter(slug=slug).first()
    if row is not None:
        sent = {name.lower() for name in row.headers}
        lacking = {name: value for name, value in found.headers.items() if name.lower() not in sent}
        if lacking:
            missing = ", ".join(f"{name}: {value}" for name, value in lacking.items())
            report.notes.append(
                f"The service {slug} stays as it is; the description asks for headers it has not: {missing}"
            )
        return row
    row = HttpService(slug=slug, title=found.title, url=url or found.url, headers=found.headers)
    if not row.url:
        note = found.notes[0] if found.notes else "The description names no server."
        raise DocumentRefused(f"{note} Say the address of the API.")
    try:
        parse_service(row.url, row.headers)
        row.full_clean()
    except ValidationError as error:
        raise DocumentRefused(" ".join(error.messages)) from error
    except ValueError as error:
        raise DocumentRefused(f"The service cannot be called: {error}") from error
    row.save()
    report.notes.append(f"The service {slug} is new: {row.url}")
    return row


def _chosen(found: Found, service: HttpService, only: Iterable[str] | None, tags: Iterable[str] | None) -> set[str]:
    """Give the keys of what is chosen; raises DocumentRefused for more than one import may bring."""
    if only is None and tags is None and service.operations.exists():
        return set()
    wanted = set(tags) if tags is not None else None
    patterns = {*only} if only is not None else {"*"}
    globs = [each for each in patterns if any(sign in each for sign in "*?[")]
    chosen = {
        each.key
        for each in found.candidates
        if (wanted is None or wanted & {*each.tags})
        and (
            {each.key, each.name} & patterns
            or any(fnmatchcase(each.key, glob) or fnmatchcase(each.name, glob) for glob in globs)
        )
    }
    if len(chosen) > MOST_AT_ONCE:
        raise DocumentRefused(
            f"{len(chosen)} operations are chosen, and {MOST_AT_ONCE} at most are imported at a time. Choose by "
            "method, path or tag."
        )
    return chosen


def _bring(
    found: Found, service: HttpService, report: Imported, chosen: set[str], author: Any, reads_only: bool
) -> None:
    known = {row.key: row for row in service.operations.select_related("tool")}
    resting: list[str] = []
    for candidate in found.candidates:
        row = known.pop(candidate.key, None)
        if row is None and candidate.key not in chosen:
            report.offered.append(candidate.key)
            continue
        if row is None or row.tool is None:
            row = ImportedOperation(service=service, key=candidate.key)
        definition = _completed(candidate, reads_only)
        try:
            _save(row, candidate, definition, author, report)
        except ValidationError as error:
            report.refused += [
                (candidate.key, f"{name}: {' '.join(messages)}") for name, messages in error.message_dict.items()
            ]
        if row.tool is not None and not row.tool.enabled:
            resting.append(row.tool.name)
    if resting:
        report.notes.append(f"In the description, and switched off here: {', '.join(resting)[:2000]}")
    for row in known.values():
        if row.tool is not None and row.tool.enabled:
            report.gone.append(row.tool.name)
            row.tool.enabled = False
            row.tool.change_reason = f"no longer in the description of {service.slug}"
            row.tool.save(update_fields=["enabled", "updated_at"])


def _completed(candidate: Candidate, reads_only: bool) -> dict[str, Any]:
    definition = {"name": candidate.name, **candidate.definition}
    reads = candidate.key.startswith(("GET ", "HEAD ", "query "))
    return {**definition, "read_only": reads and reads_only}


def _save(
    row: ImportedOperation, candidate: Candidate, definition: dict[str, Any], author: Any, report: Imported
) -> None:
    tool = row.tool
    reason = f"import of {row.service.slug}"
    if tool is None:
        tool = McpToolDefinition(backend=HttpKind.name, open_world=True, **definition)
        changes = dict(definition)
        report.created.append(candidate.name)
    else:
        # A name stays what it is: clients and the audit know it.
        definition["name"] = row.imported.get("name", tool.name)
        definition["read_only"] = row.imported.get("read_only", False)
        written = [name for name, value in definition.items() if not _same(getattr(tool, name), row.imported.get(name))]
        changes = {
            name: value
            for name, value in definition.items()
            if name not in written and not _same(getattr(tool, name), value)
        }
        if written:
            report.overridden[tool.name] = written
        if changes:
            report.differences[tool.name] = {name: (getattr(tool, name), value) for name, value in changes.items()}
            report.changed.append(tool.name)
        else:
            report.unchanged.append(tool.name)
    for name, value in changes.items():
        setattr(tool, name, value)
    if changes:
        tool.change_author, tool.change_reason = author, reason
        tool.full_clean()
        tool.save()
    row.tool, row.imported = tool, definition
    row.save()


def _same(one: Any, other: Any) -> bool:
    return json.canonical(one) == json.canonical(other)
