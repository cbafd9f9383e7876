"""`mcphub catalog load` and `mcphub catalog dump`: the catalogue as a JSON bundle, in and out."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mcphub.commands.catalog_report import tell
from mcphub.commands.stop import Stop, migrated_database

if TYPE_CHECKING:
    from sessions_app.protocol.json import Json


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="load|dump", required=True, title="verbs", dest="verb")
    load = verbs.add_parser("load", help="bring in the tools of a pack or of a bundle file")
    load.add_argument("source", metavar="FILE|PACK", help="a file, - for standard input, or a pack's name")
    load.add_argument(
        "--overwrite", action="store_true", help="also replace entries that were edited here or loaded from elsewhere"
    )
    load.add_argument("--dry-run", action="store_true", help="say what would change, and change nothing")
    load.add_argument(
        "--with-programs", action="store_true", help="take launch profiles too, and connections that run them"
    )
    dump = verbs.add_parser("dump", help="print the catalogue as a bundle, without secrets")
    dump.add_argument(
        "--with-programs", action="store_true", help="launch profiles too, connections that run them, names of secrets"
    )


def run(options: argparse.Namespace) -> int:
    with migrated_database():
        return _load(options) if options.verb == "load" else _dump(options.with_programs)


def _load(options: argparse.Namespace) -> int:
    from tools_catalog.bundles import bundle

    document, reason = _read(options.source)
    report = bundle.load(
        document,
        reason=reason,
        overwrite=options.overwrite,
        dry_run=options.dry_run,
        with_programs=options.with_programs,
    )
    return tell(report, dry_run=options.dry_run)


def _read(source: str) -> tuple[Json, str]:
    from sessions_app.protocol import json as strict
    from sessions_app.protocol.errors import ParseError
    from tools_catalog.bundles import bundle

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


def _dump(with_programs: bool) -> int:
    from tools_catalog.bundles import bundle

    print(json.dumps(bundle.dump(with_programs=with_programs), ensure_ascii=False, indent=2))
    return 0
