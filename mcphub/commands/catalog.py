"""`mcphub catalog load` and `mcphub catalog dump`: the catalogue as a JSON bundle, in and out."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands.stop import Stop, database_or_stop, start_django

if TYPE_CHECKING:
    from tools_catalog.importers.entries import Report

_LONGEST_SHOWN = 200
"""Characters of a value in the difference."""


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="load|dump", required=True, title="verbs", dest="verb")
    load = verbs.add_parser("load", help="bring in the tools of a pack or of a bundle file")
    load.add_argument("source", metavar="FILE|PACK", help="a file, - for standard input, or a pack's name")
    load.add_argument(
        "--overwrite",
        action="store_true",
        help="also replace what was edited here or came otherwise",
    )
    load.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    verbs.add_parser("dump", help="print the catalogue as a bundle, without secrets")


def run(options: argparse.Namespace) -> int:
    start_django()
    from mcphub import first_run

    with database_or_stop():
        first_run.migrate()
        return _load(options.source, options.overwrite, options.dry_run) if options.verb == "load" else _dump()


def _load(source: str, overwrite: bool, dry_run: bool) -> int:
    from tools_catalog.importers import bundle

    document, reason = _read(source)
    return tell(bundle.load(document, reason=reason, overwrite=overwrite, dry_run=dry_run), dry_run=dry_run)


def tell(report: Report, *, dry_run: bool) -> int:
    """Print what a load did or would do; Stop where something was refused."""
    for name, why in report.refused:
        print(f"{name}: {why}", file=sys.stderr)
    if report.refused:
        raise Stop(f"mcphub catalog load: nothing was loaded, {len(report.refused)} entries were refused.")
    for name in report.kept:
        print(f"{name}: kept as it was edited here; --overwrite replaces it.", file=sys.stderr)
    for name in report.missing_secrets:
        print(f"The secret {name} does not exist yet; add it in the admin.", file=sys.stderr)
    if dry_run:
        for line in told(report):
            print(line)
    counts = {
        "new": report.created,
        "changed": report.changed,
        "unchanged": report.unchanged,
        "kept": report.kept,
    }
    words = ", ".join(f"{len(names)} {word}" for word, names in counts.items())
    print(f"{words}; nothing was changed: this was a dry run" if dry_run else words)
    return 0


def told(report: Report) -> Iterator[str]:
    """Give what is new, and of what differs each member as it is and as it would be, a line each."""
    for name in report.created:
        yield f"+ {name}"
    for name, members in report.differences.items():
        yield f"{'=' if name in report.kept else '~'} {name}"
        for member, (before, after) in members.items():
            yield f"    {member}: {_short(before)} -> {_short(after)}"


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_SHOWN else text[:_LONGEST_SHOWN] + "…"


def _read(source: str) -> tuple[Any, str]:
    from sessions_app.protocol import json as strict
    from sessions_app.protocol.errors import ParseError
    from tools_catalog.importers import bundle

    if source in bundle.packs() and not Path(source).is_file():
        return bundle.read_pack(source), f"pack {source}"
    try:
        raw = sys.stdin.buffer.read() if source == "-" else Path(source).read_bytes()
    except OSError as error:
        raise Stop(
            f"mcphub catalog load: {source!r} is neither a pack ({', '.join(bundle.packs())}) nor a file "
            f"that can be read: {error.strerror}.",
            status=2,
        ) from error
    try:
        return strict.loads(raw), f"bundle {Path(source).name}"
    except ParseError as error:
        raise Stop(f"mcphub catalog load: {source} is not valid JSON: {error}") from error


def _dump() -> int:
    from tools_catalog.importers import bundle

    print(json.dumps(bundle.dump(), ensure_ascii=False, indent=2))
    return 0
