"""`mcphub skill`: skills of the hub, added from a folder, a zip or a SKILL.md, listed, shown, switched and removed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands import rows
from mcphub.commands.rows import RowKind
from mcphub.commands.stop import Stop, migrated_database
from mcphub.commands.workspace import KIND as WORKSPACES

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from mcphub.features.skills.contents import SkillContents
    from mcphub.features.skills.models import Skill


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(
        metavar="list|show|add|enable|disable|remove", required=True, title="verbs", dest="verb"
    )
    rows.declare_list(verbs, KIND)
    rows.declare_show(verbs, KIND)
    add = verbs.add_parser("add", help="add a skill, or a new version of it")
    add.add_argument(
        "source", metavar="PATH", help="a folder, a zip or a SKILL.md, or the address of one of these files"
    )
    add.add_argument(
        "--path", metavar="PATH", help="where it is served: acme/refunds for skill://acme/refunds/SKILL.md"
    )
    add.add_argument("--group", action="append", metavar="GROUP", help="who may read it; may be given several times")
    add.add_argument("--toolset", action="append", metavar="NAME", help="a toolset that has it, beside its patterns")
    workspace = add.add_argument("--workspace", metavar="NAME", help="to which it belongs")
    rows.completes(workspace, WORKSPACES)
    add.add_argument(
        "--nested", action="append", metavar="FOLDER", help="a folder inside that is served as a skill, too"
    )
    add.add_argument("--prompt", action="store_true", help="also a prompt, for clients without the extension")
    add.add_argument("--disabled", action="store_true", help="clients do not see it before it is enabled")
    add.add_argument("--reason", default="", metavar="WORDS", help="kept in the history")
    add.add_argument("--json", action="store_true", help="as JSON")
    rows.declare_deed(verbs, KIND, "enable", "let clients see skills again")
    rows.declare_deed(verbs, KIND, "disable", "hide skills from clients")
    rows.declare_deed(verbs, KIND, "remove", "delete skills with all their versions")


def run(options: argparse.Namespace) -> int:
    if options.verb in rows.VERBS:
        return rows.do(KIND, options)
    with migrated_database():
        return rows.remove(KIND, options) if options.verb == "remove" else _add(options)


def _add(options: argparse.Namespace) -> int:
    from django.db import transaction

    from mcphub.features.skills.contents import SkillRefused
    from mcphub.features.skills.findings import findings
    from mcphub.features.skills.models import Skill

    try:
        given = _read(options.source)
        place = (options.path or given.name).strip("/")
        row = Skill.objects.filter(path=place).first() or Skill(path=place)
        is_new, before = row.pk is None, row.version
        row.take(given)
        if options.nested is not None:
            row.nested = sorted({folder.strip("/") for folder in options.nested})
        if options.workspace is not None:
            row.workspace = rows.named(WORKSPACES, [options.workspace])[0]
        if options.prompt:
            row.as_prompt = True
        if options.disabled:
            row.enabled = False
        row.change_reason = options.reason[:500]
        row.full_clean()
    except SkillRefused as error:
        raise Stop(f"mcphub skill add: {error}") from None
    with transaction.atomic():
        row.save()
        if options.group is not None:
            row.groups.set(_named("auth.Group", "name", options.group))
        if options.toolset is not None:
            row.toolsets.set(_named("tools_catalog.McpToolset", "slug", options.toolset))
    for path in given.left_out:
        print(f"{rows.plain(path)} is left out.", file=sys.stderr)
    for path, found in findings(row.current()).items():
        print(f"Look closely at {rows.plain(path)}: {found}.", file=sys.stderr)
    is_same = not is_new and row.version == before
    done = "is added" if is_new else f"has no new file, and stays version {before}" if is_same else _versions(row)
    return rows.tell(KIND, [row], [True], options, done=done, before="")


def _versions(row: Skill) -> str:
    return f"is version {row.version} now"


def _read(source: str) -> SkillContents:
    from asgiref.sync import async_to_sync

    from mcphub.features.skills import contents, fetching

    if source.startswith(fetching.SCHEMES):
        return async_to_sync(fetching.fetched)(source)
    path = Path(source)
    try:
        if path.is_dir():
            return contents.of_folder(path)
        with path.open("rb") as file:
            return contents.of_file(file)
    except OSError as error:
        raise Stop(f"mcphub skill add: {source} cannot be read: {error.strerror}") from error


def _named(model: str, key: str, names: list[str]) -> list[Any]:
    from django.apps import apps

    kind = apps.get_model(model)
    found = {getattr(row, key): row for row in kind._default_manager.filter(**{f"{key}__in": names})}
    for name in names:
        if name not in found:
            raise Stop(f"mcphub skill add: there is no {kind._meta.verbose_name} {rows.plain(name)!r}.")
    return list(found.values())


def _rows() -> QuerySet[Any]:
    from mcphub.features.skills.models import Skill

    return Skill.objects.select_related("workspace", "offer__connection").prefetch_related("groups", "toolsets")


def _told(row: Skill) -> Mapping[str, Any]:
    from mcphub.features.skills.findings import findings

    version = row.current()
    files = version.files.order_by("path").values_list("path", "content_id", "size")
    return {
        "path": row.path,
        "uri": row.uri,
        "origin": row.origin,
        "description": row.description,
        "enabled": row.enabled,
        "version": row.version,
        "workspace": row.workspace.slug if row.workspace is not None else None,
        "groups": sorted(group.name for group in row.groups.all()),
        "toolsets": sorted(toolset.slug for toolset in row.toolsets.all()),
        "nested": row.nested,
        "as_prompt": row.as_prompt,
        "frontmatter": row.frontmatter,
        "files": [{"path": path, "digest": digest, "size": size} for path, digest, size in files],
        "warnings": findings(version),
        "updated_at": row.updated_at.isoformat(),
    }


def _line(told: Mapping[str, Any]) -> list[object]:
    state = "enabled" if told["enabled"] else "disabled"
    return [told["path"], state, f"version {told['version']}", f"files: {len(told['files'])}", told["description"]]


KIND = RowKind(
    command="skill",
    noun="skill",
    nouns="skills",
    key="path",
    rows=_rows,
    told=_told,
    line=_line,
    none="There is no skill. `mcphub skill add PATH` adds one from a folder, a zip or a SKILL.md.",
    metavar="PATH",
)
