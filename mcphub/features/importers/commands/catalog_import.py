"""`mcphub catalog import`: an OpenAPI or GraphQL description becomes a service and its tools."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands.catalog_report import differences
from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from django.contrib.auth.models import Group

    from tools_catalog.models import McpToolset


def declare(verbs: Any) -> None:
    parser = verbs.add_parser("import", help="make tools of an OpenAPI or GraphQL description")
    parser.add_argument("kind", choices=["openapi", "graphql"], help="what the description is")
    parser.add_argument(
        "source", metavar="FILE|URL", help="a file, - for standard input, or the address of the description or endpoint"
    )
    parser.add_argument(
        "--service", required=True, metavar="NAME", help="the service that the tools call; created if it does not exist"
    )
    parser.add_argument("--prefix", help="put this before the names of the tools (default: the service's name and _)")
    parser.add_argument("--url", default="", help="address of the API, where the description does not say it")
    parser.add_argument("--only", action="append", metavar="PATTERN", help='operations to choose: "GET /pets*", list_*')
    parser.add_argument("--tag", action="append", metavar="TAG", help="of these only operations with this tag")
    parser.add_argument("--enable", action="store_true", help="enable new tools now (default: they stay off)")
    parser.add_argument("--toolset", metavar="NAME", help="put new tools into this toolset")
    parser.add_argument(
        "--group", action="append", metavar="NAME", help="reserve new tools to this group; repeat for more"
    )
    parser.add_argument("--reads-only", action="store_true", help=argparse.SUPPRESS)  # 1.0 asked; now the words decide
    parser.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return _import(options)


def _import(options: argparse.Namespace) -> int:
    from mcphub.features.importers import operations, worker
    from mcphub.features.importers.documents import DocumentRefused

    try:
        raw, source = _read(options)
        prefix = options.prefix if options.prefix is not None else f"{options.service}_"
        found = worker.look(raw, options.kind, slug=options.service, prefix=prefix, source=source)
        url = options.url or (source if options.kind == "graphql" else "")
        report = operations.bring(
            found,
            options.service,
            only=options.only,
            tags=options.tag,
            url=url,
            enable=options.enable,
            groups=_groups(options.group or []),
            toolset=_toolset(options.toolset),
            dry_run=options.dry_run,
        )
    except DocumentRefused as error:
        raise Stop(f"mcphub catalog import: {error}") from error
    for key, why in found.refused:
        print(f"{key}: left out. {why}", file=sys.stderr)
    for key, why in report.refused:
        print(f"{key}: {why}", file=sys.stderr)
    if report.refused:
        raise Stop(f"mcphub catalog import: nothing was imported; refused operations: {len(report.refused)}.")
    for note in report.notes:
        print(note, file=sys.stderr)
    if options.dry_run:
        for line in differences(report):
            print(line)
        for key in report.offered:
            print(f"  not chosen: {key}")
    for name, members in report.overridden.items():
        print(f"{name}: {', '.join(members)} stay as written here.", file=sys.stderr)
    for name in report.gone:
        print(f"{name}: no longer in the description, switched off.", file=sys.stderr)
    counts: dict[str, Sized] = {
        "new": report.created,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "gone": report.gone,
        "not chosen": report.offered,
        "left out": found.refused,
    }
    words = ", ".join(f"{len(names)} {word}" for word, names in counts.items())
    if report.created and not options.enable:
        print("The new tools are off. Review them, and enable them with mcphub tool enable NAME.", file=sys.stderr)
    print(f"{words}; dry run, nothing was changed" if options.dry_run else words)
    return 0


def _groups(names: list[str]) -> list[Group]:
    from django.contrib.auth.models import Group

    found = {group.name: group for group in Group.objects.filter(name__in=names)}
    for name in names:
        if name not in found:
            raise Stop(
                f"mcphub catalog import: there is no group {name!r}. Create it in the console under Access, Groups, or "
                "let a login provider or a directory bring it."
            )
    return list(found.values())


def _toolset(name: str | None) -> McpToolset | None:
    from tools_catalog.models import McpToolset

    found = McpToolset.objects.filter(slug=name).first() if name else None
    if name and found is None:
        raise Stop(
            f"mcphub catalog import: there is no toolset {name!r}. Create it in the console under Toolsets, or load it "
            "with `mcphub catalog load FILE`."
        )
    return found


def _read(options: argparse.Namespace) -> tuple[bytes, str]:
    """Return the description, and its address where it has one."""
    from mcphub.features.importers import fetching, worker

    source = options.source
    if source.startswith(("https://", "http://")):
        return asyncio.run(fetching.fetch(source, options.kind, options.service)), source
    try:
        most = worker.most_raw_bytes() + 1
        if source == "-":
            return sys.stdin.buffer.read(most), ""
        with Path(source).open("rb") as file:
            return file.read(most), ""
    except OSError as error:
        raise Stop(f"mcphub catalog import: {source!r} cannot be read: {error.strerror}.", status=2) from error
