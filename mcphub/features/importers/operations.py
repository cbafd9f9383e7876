"""Bringing a description's operations into the catalogue: new, changed, gone, with local edits kept.

Each tool keeps its imported form. A later import changes only members that equal the last import, so an operator's
edits stay, and other changes of the description arrive.

An import is checked whole before anything is written. It is then written in short transactions: calls must not wait for
a thousand tools, and on SQLite there is one writer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any, Literal

from django.contrib.auth.models import Group
from django.core.exceptions import ValidationError
from django.db import IntegrityError

from mcphub.features.importers import short_writes
from mcphub.features.importers.candidates import Candidate, Found
from mcphub.features.importers.descriptions import GRAPHQL, OPENAPI, look
from mcphub.features.importers.documents import DocumentRefused
from sessions_app.advice import Advice
from sessions_app.protocol import json
from tools_catalog.backends.http.configuration import parse_service
from tools_catalog.bundles.entries import Report
from tools_catalog.kinds.http import HttpKind
from tools_catalog.models import HttpService, ImportedOperation, McpToolDefinition, McpToolset
from tools_catalog.models.services import proposed

__all__ = ["GRAPHQL", "OPENAPI", "Imported", "bring", "look"]


_CHOOSE_ACCOUNT = Advice(
    page=(
        "Instead of a secret you can choose an account on the page of {slug}. Remove the header Authorization there."
    ),
    command=(
        "Instead of a secret you can give {slug} an `account` in a bundle, without the header Authorization, and load "
        "it with `mcphub catalog load FILE --overwrite`."
    ),
    neutral="Instead of a secret {slug} can have an account, without the header Authorization.",
)
MOST_AT_ONCE = 3_000
"""Operations that one import brings."""
_WORD_EACH_SECONDS = 0.25

Told = Callable[[Literal["checked", "written"], int, int], None]
"""Receives the step of an import, and its completed and total operations."""


@dataclass(slots=True)
class Imported(Report):
    """The effect of an import, made or planned. `differences` are of changes; `overridden` of local edits that stay."""

    offered: list[str] = field(default_factory=list)
    """Keys of operations that are there and were not chosen."""
    gone: list[str] = field(default_factory=list)
    """Names of tools with an operation that the description no longer has: they are disabled."""
    overridden: dict[str, list[str]] = field(default_factory=dict)
    """Name of a tool -> members that differ from the description because somebody wrote them here."""
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Step:
    """One operation that was checked and is to be written."""

    row: ImportedOperation
    tool: McpToolDefinition
    definition: dict[str, Any]
    is_changed: bool


def bring(
    found: Found,
    slug: str,
    *,
    only: Iterable[str] | None = None,
    tags: Iterable[str] | None = None,
    author: Any = None,
    url: str = "",
    enable: bool = False,
    groups: Iterable[Group] = (),
    toolset: McpToolset | None = None,
    dry_run: bool = False,
    told: Told = lambda step, done, total: None,
) -> Imported:
    """Bring the chosen operations in; those that came before follow in any case. With one that is refused nothing is
    written.

    `only` are patterns over keys and names; without them all are chosen at the first import, and later those that
    came before. With `tags` only those with one of them. `url` stands for the address that the description names; the
    service is made if it is not there. New tools are switched off unless `enable`, reserved to `groups`, and in
    `toolset`. `told` receives the progress now and then: checked, then written operations. Raises DocumentRefused;
    also if somebody edited a tool during the import, which keeps the part written until then: the same import
    continues from there.
    """
    report = Imported(notes=list(found.notes), refused=[])
    service = _service(found, slug, url, report)
    with proposed(service):
        chosen = _chosen(found, service, only, tags)
        steps, gone = _checked(found, service, report, chosen, author, told, enable=enable)
    if dry_run or report.refused:
        return report
    if service.pk is None:
        service.save()
    kept = list(groups)
    deeds = [
        *(partial(_save, step, kept, toolset) for step in steps),
        *(partial(_switch_off, tool, slug) for tool in gone),
    ]
    _write(deeds, lambda done: told("written", done, len(deeds)))
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
    row = HttpService(slug=slug, title=found.title, url=url or found.url, headers=found.headers, **found.account)
    if found.account and (problems := row.problems_of_issuer()):
        report.notes.append(f"What the description says of accounts is left out: {next(iter(problems.values()))}")
        for name in found.account:
            setattr(row, name, "")
    elif found.account:
        report.notes.append(
            f"The API accepts accounts (OAuth), and its issuer is entered. {_CHOOSE_ACCOUNT.words(slug=slug)}"
        )
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
    report.notes.append(f"The service {slug} is new: {row.url}")
    return row


def _chosen(found: Found, service: HttpService, only: Iterable[str] | None, tags: Iterable[str] | None) -> set[str]:
    """Return the keys of the selected operations; raises DocumentRefused for more than one import allows."""
    if only is None and tags is None and service.pk is not None and service.operations.exists():
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


def _checked(
    found: Found, service: HttpService, report: Imported, chosen: set[str], author: Any, told: Told, *, enable: bool
) -> tuple[list[_Step], list[McpToolDefinition]]:
    """Return the operations to write, and the tools of vanished operations. Operations that cannot be written are in
    the report.
    """
    operations = service.operations.select_related("tool") if service.pk is not None else ()
    known = {row.key: row for row in operations}
    resting: list[str] = []
    steps: list[_Step] = []
    names: set[str] = set()
    total = sum(each.key in known or each.key in chosen for each in found.candidates)
    done, next_word_at = 0, time.monotonic()
    for candidate in found.candidates:
        row = known.pop(candidate.key, None)
        if row is None and candidate.key not in chosen:
            report.offered.append(candidate.key)
            continue
        if time.monotonic() >= next_word_at:
            told("checked", done, total)
            next_word_at = time.monotonic() + _WORD_EACH_SECONDS
        done += 1
        if row is None or row.tool is None:
            row = ImportedOperation(service=service, key=candidate.key)
        definition = {"name": candidate.name, **candidate.definition}
        try:
            step = _check(row, candidate, definition, author, report, enable=enable)
            if step.tool.name in names:
                raise ValidationError({"name": "Another operation of the description has this name."})
            names.add(step.tool.name)
            steps.append(step)
        except ValidationError as error:
            report.refused += [
                (candidate.key, f"{name}: {' '.join(messages)}") for name, messages in error.message_dict.items()
            ]
        if row.tool is not None and not row.tool.enabled:
            resting.append(row.tool.name)
    if resting:
        report.notes.append(f"In the description, and switched off here: {', '.join(resting)[:2000]}")
    gone = [row.tool for row in known.values() if row.tool is not None and row.tool.enabled]
    report.gone += [tool.name for tool in gone]
    return steps, gone


def _write(deeds: Sequence[Callable[[], None]], told: Callable[[int], None]) -> None:
    """Do these in transactions that are short. Raises DocumentRefused where one of them can no longer be done."""
    try:
        short_writes.in_turns(deeds, told=told)
    except (_Edited, IntegrityError) as error:
        raise DocumentRefused(
            "Somebody edited the catalogue while the import was written. Part of it is there; import it again, and the "
            "rest follows."
        ) from error


def _switch_off(tool: McpToolDefinition, slug: str) -> None:
    tool.enabled = False
    tool.change_reason = f"no longer in the description of {slug}"
    tool.save(update_fields=["enabled", "updated_at"])


class _Edited(Exception):
    """A tool is no longer as it was when the import was checked."""


def _save(step: _Step, groups: list[Group], toolset: McpToolset | None) -> None:
    row, tool = step.row, step.tool
    is_new = tool.pk is None
    if step.is_changed:
        as_read = McpToolDefinition.objects.select_for_update().filter(pk=tool.pk, updated_at=tool.updated_at)
        if not is_new and not as_read.exists():
            raise _Edited
        tool.save()
    if is_new and groups:
        tool.groups.set(groups)
    if is_new and toolset is not None:
        toolset.add_tools([tool])
    # Of a service that was new when the row was made.
    row.service = row.service
    row.tool, row.imported = tool, step.definition
    row.save()


def _check(
    row: ImportedOperation,
    candidate: Candidate,
    definition: dict[str, Any],
    author: Any,
    report: Imported,
    *,
    enable: bool,
) -> _Step:
    tool = row.tool
    reason = f"import of {row.service.slug}"
    if tool is None:
        tool = McpToolDefinition(backend=HttpKind.name, open_world=True, enabled=enable, **definition)
        changes = dict(definition)
        report.created.append(candidate.name)
    else:
        # A name stays what it is: clients and the audit know it.
        definition["name"] = row.imported.get("name", tool.name)
        # How calls are recorded hangs on this, so only an operator changes it.
        definition["read_only"] = row.imported.get("read_only", False)
        definition["destructive"] = definition["destructive"] and not definition["read_only"]
        # Most descriptions have no examples of use, and those of an import before may be gone.
        before = {"meta": {}, **row.imported}
        if before["meta"]:
            definition.setdefault("meta", {})
        written = [name for name, value in definition.items() if not _same(getattr(tool, name), before.get(name))]
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
    return _Step(row, tool, definition, bool(changes))


def _same(one: Any, other: Any) -> bool:
    return json.canonical(one) == json.canonical(other)
