"""`mcphub database move`: a stopped hub taken from SQLite to PostgreSQL, with its record verified on both sides."""

from __future__ import annotations

import argparse
import os
import sqlite3
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

from mcphub import environment as env
from mcphub import moved
from mcphub.commands.stop import Stop, start_django

_ONLY = "A move leads from SQLite to PostgreSQL, and nowhere else."


def declare(parser: argparse.ArgumentParser) -> None:
    verbs = parser.add_subparsers(metavar="move", required=True, title="verbs", dest="verb")
    move = verbs.add_parser("move", help="copy the database of a stopped hub from SQLite to PostgreSQL, and verify it")
    move.add_argument(
        "--to", required=True, metavar="ADDRESS", help="an empty database: postgres://user@host/name (PGPASSWORD)"
    )


def run(options: argparse.Namespace) -> int:
    path = _source()
    _check_target(options.to)
    os.environ["MCPHUB_DATABASE_URL"] = options.to  # from here on the target is this process's database
    for further in ("MCPHUB_DATABASE_DIRECT_URL", "MCPHUB_AUDIT_DATABASE_URL"):
        os.environ.pop(further, None)  # they may lead elsewhere
    start_django(with_every_feature=True)
    from django.conf import settings
    from django.db import Error

    from invocations.chain.keys import KeyProblem
    from invocations.chain.verifier import Bad, describe
    from mcphub.features.backup import moving
    from mcphub.features.backup.sqlite_source import InUse
    from mcphub.process import first_run
    from sessions_app.kit.database import driver

    if settings.MCPHUB_EMBEDDED:
        raise Stop("mcphub database move: the settings of your Django project name its database; move it with them.")
    shown = _without_password(options.to)
    try:
        with first_run.one_at_a_time():  # a hub that starts meanwhile waits, on either side
            first_run.check_durability()
            done = moving.move(path, shown)
    except Bad as bad:
        raise Stop(f"BAD: {bad} {path} is as it was.") from bad
    except first_run.BehindPooler as why:
        raise Stop("mcphub database move: --to leads to a pooler. Name PostgreSQL itself for the move.") from why
    except (moving.CannotMove, InUse, KeyProblem, first_run.CannotStart) as why:
        raise Stop(f"mcphub database move: {why} {path} is as it was.") from why
    except (Error, driver().Error, sqlite3.Error, OSError) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0].rstrip(".")
        raise Stop(
            f"mcphub database move: {reason}. {path} is as it was; when that is mended, run the command again, and it "
            "begins anew."
        ) from error
    print(f"Moved: {done.tables} tables, {done.rows} rows. The audit on both sides, with the root {done.audit.root}:")
    print(describe(done.audit.summary) if done.audit.summary else "Nothing was sealed yet.")
    print(f"{path} is kept, and no hub starts on it. To go back, without what is recorded from now on, delete")
    print(f"{moved.mark_of(path)}. Start the hub with the same data directory, which has its keys, and with")
    print(f"MCPHUB_DATABASE_URL={shown}")
    return 0


def _source() -> Path:
    """Return the file of SQLite that a hub with these settings uses. Stop: it uses something else, or there is none."""
    default = f"sqlite:///{Path(env.text('MCPHUB_DATA_DIR', 'var')).absolute() / 'hub.sqlite3'}"
    try:
        configured = env.database("MCPHUB_DATABASE_URL", env.text("MCPHUB_DATABASE_URL", default))
    except ImproperlyConfigured as error:
        raise Stop(f"mcphub database move: {error}", status=2) from error
    if not configured["ENGINE"].endswith("sqlite3"):
        raise Stop(
            f"mcphub database move: MCPHUB_DATABASE_URL does not name SQLite. {_ONLY} Leave it out to move the file in "
            "the data directory.",
            status=2,
        )
    path = Path(configured["NAME"]).absolute()
    if not path.is_file():
        raise Stop(f"mcphub database move: there is no {path}; name the hub's folder with --data-dir.", status=2)
    return path


def _check_target(address: str) -> None:
    try:
        engine = str(env.database("--to", address)["ENGINE"])
    except ImproperlyConfigured as error:
        raise Stop(f"mcphub database move: {error}", status=2) from error
    if not engine.endswith("postgresql"):
        raise Stop(f"mcphub database move: --to does not name PostgreSQL. {_ONLY}", status=2)


def _without_password(address: str) -> str:
    parts = urlsplit(address)
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return parts._replace(netloc=f"{name}{colon and ':PASSWORD'}{at}{host}").geturl()
