"""`mcphub audit search`: finds archived calls by the line that the console's list of calls has; needs no database."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mcphub.commands.rows import print_json, print_line
from mcphub.commands.stop import Stop, start_django

if TYPE_CHECKING:
    from mcphub.features.archive.searching import ArchivePage

_MOST = 500


def declare(verbs: Any) -> None:
    parser = verbs.add_parser("search", help="find archived calls, without their bodies; needs no database")
    parser.add_argument("line", metavar="LINE", help="as in the console: 'tool:pay status:error time:2026-10-31'")
    parser.add_argument("--archive", metavar="PLACE", help="a folder, or s3://bucket/prefix (MCPHUB_ARCHIVE_DIR)")
    parser.add_argument("--key", type=Path, metavar="FILE", help="public keys to trust (public.keys of this hub)")
    parser.add_argument("--limit", type=_limit, default=50, metavar="N", help=f"the newest, at most {_MOST} (50)")
    parser.add_argument("--before", type=_position, metavar="POSITION", help="go on where an answer ended")
    parser.add_argument("--json", action="store_true", help="as JSON")


def run(options: argparse.Namespace) -> int:
    start_django()
    from django.db import Error

    from invocations.chain.verifier import Bad
    from mcphub.features.archive.duck import NoDuckDB
    from mcphub.features.archive.searching import ArchiveProblem, NoArchive

    try:
        return _print(_page(options), options)
    except NoArchive as problem:
        raise Stop(f"mcphub audit search: {_place(options)}: {problem}", status=2) from problem
    except (ArchiveProblem, NoDuckDB) as problem:
        raise Stop(f"mcphub audit search: {problem}", status=2) from problem
    except Bad as bad:
        raise Stop(f"BAD: {bad} Nothing was found. `mcphub audit verify --archive` checks all of it.") from bad
    except Error as error:
        raise Stop(
            "mcphub audit search: names of callers are looked up in the database, which cannot be used here; write "
            "caller:key:1 or caller:user:1.",
            status=2,
        ) from error
    except OSError as error:
        raise Stop(f"mcphub audit search: {error.filename}: {error.strerror}.", status=2) from error


def _place(options: argparse.Namespace) -> str:
    from django.conf import settings

    place: str = options.archive or settings.MCPHUB_ARCHIVE_DIR
    return place


def _page(options: argparse.Namespace) -> ArchivePage:
    from invocations.chain import service
    from invocations.chain.verifier import read_keys
    from mcphub.features.archive.searching import Bounds, read_line, search

    return search(
        _place(options),
        read_keys((options.key or service.keys().public).read_text()),
        read_line(options.line),
        most=options.limit,
        bounds=Bounds.of_settings(),
        before=options.before,
    )


def _print(page: ArchivePage, options: argparse.Namespace) -> int:
    from mcphub.features.archive.answers import told_page

    told = told_page(page, hidden=True)
    if options.json:
        return print_json(told)
    for each in told["results"]:
        archived = each["archived"]
        outcome = each["error_code"] or each["status"]
        what = each["tool_name"] or each["method"]
        caller = each["caller_label"] or each["principal"]
        took = "-" if each["duration_ms"] is None else f"{each['duration_ms']} ms"
        where = f"{archived['month']}/{archived['file']}:{archived['position']}"
        print_line([each["started_at"], each["invocation_id"], outcome, what, caller, took, where])
    print(_words(page), file=sys.stderr)
    return 0


def _words(page: ArchivePage) -> str:
    read = f"Calls found: {len(page.calls)}. Files read: {page.files} ({page.bytes} bytes)"
    read += f", of {', '.join(page.months)}." if page.months else "."
    return read if page.next is None else f"{read} There may be more: --before {page.next}."


def _limit(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 4 or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of calls, 1 to {_MOST}")
    return int(text)


def _position(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or len(text) > 18:
        raise argparse.ArgumentTypeError(f"{text!r} is not a position, as an answer names it")
    return int(text)
