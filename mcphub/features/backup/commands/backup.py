"""`mcphub backup`: database and keys of one moment in one file, encrypted whole under a passphrase."""

from __future__ import annotations

import argparse
import errno
import getpass
import sys
from pathlib import Path

from mcphub.commands.stop import Stop, database_or_stop, start_django

_SHORTEST = 12
_LONGEST = 4096


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="what to write; it must not exist")
    declare_passphrase(parser)


def declare_passphrase(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--passphrase-file",
        metavar="FILE",
        help="a file whose first line is the passphrase; - is standard input (default: it is asked for)",
    )


def run(options: argparse.Namespace) -> int:
    passphrase = passphrase_of(options, "backup", is_new=True)
    start_django()
    from mcphub.features.backup import making
    from mcphub.process import known_data

    try:
        with database_or_stop():
            known_data.check()
            _tell(options.file)
            made = making.write(options.file, passphrase)
    except OSError as error:
        raise Stop(f"mcphub backup: {why(error, options.file)} Nothing was kept.") from error
    print(f"{options.file}: {made.tables} tables, {made.size / 2**20:.1f} MiB")
    if made.left_out:
        print(f"{made.left_out} Keep a copy of it.", file=sys.stderr)
    print("Without the passphrase nobody can read it, you neither.", file=sys.stderr)
    return 0


def passphrase_of(options: argparse.Namespace, command: str, *, is_new: bool = False) -> str:
    """Read the passphrase from its file, or ask for it. Stop: there is none, or a new one is too short."""
    if options.passphrase_file:
        try:
            path = Path(options.passphrase_file)
            with sys.stdin if path == Path("-") else path.open() as file:
                given = file.readline(_LONGEST).rstrip("\r\n")
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise Stop(f"mcphub {command}: {options.passphrase_file}: {reason}.", status=2) from error
    elif sys.stdin.isatty():
        given = getpass.getpass("Passphrase: ")
        if is_new and given != getpass.getpass("Once more: "):
            raise Stop(f"mcphub {command}: the two differ; nothing was done.", status=2)
    else:
        raise Stop(f"mcphub {command}: name a file with the passphrase: --passphrase-file FILE.", status=2)
    if is_new and len(given) < _SHORTEST:
        raise Stop(
            f"mcphub {command}: the passphrase is too short; it protects every secret of the hub, so take at least "
            f"{_SHORTEST} characters.",
            status=2,
        )
    return given


def why(error: OSError, path: Path) -> str:
    """Return a sentence for an error of a file."""
    if isinstance(error, FileExistsError):
        return f"{error.filename or path} exists; name another file."
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"The disk is full; {path} needs more room."
    return f"{error.filename or path}: {error.strerror or error}."


def _tell(path: Path) -> None:
    """Record that a copy of everything is taken, before it is; a database of an older version cannot record it."""
    from django.db import connection
    from django.db.migrations.executor import MigrationExecutor

    from sessions_app.history import events

    executor = MigrationExecutor(connection)
    if not executor.migration_plan(executor.loader.graph.leaf_nodes()):
        events.record("hub.backed_up", actor=events.on_the_machine(), label=str(path.absolute()))
