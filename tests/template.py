"""A database with every migration applied, made once for this code and copied by whoever starts from nothing.

A hub or a test run that migrates by itself spends more processor time on that than on most of its tests; a hub whose
tools come from a bundle spends as much on loading that as on its own start. What the copies leave out, the first start
on an empty directory or database and `catalog load`, has tests of its own (`tests/mcphub/test_cli_serve.py`,
`test_cli.py`). PostgreSQL keeps its template as a database, `mcphub_template_…`.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

import django
import psycopg

from tests.waiting import PATIENCE_SECONDS

ROOT = Path(__file__).resolve().parent.parent
_KEPT_SECONDS = 86_400
_OF_POSTGRESQL = "mcphub_template_"
_MIGRATE = "import django; django.setup(); from mcphub.process.first_run import migrate; migrate()"
is_making = False
"""Whether a template is being made, by programs that no test asked for."""
_PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")


def copy_to(path: Path, *, bundle: Path | None = None, apps: str = "") -> None:
    """Put a migrated database there, unless there is one, and beside it the mark that tells a start so.

    With `bundle`, what it holds is in the database as `mcphub catalog load` put it there, by the functions of `apps`.
    """
    if path.exists():
        return
    sys.audit("tests.database", str(path))
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.gettempdir()) / f"mcphub-templates-{os.getuid()}"
    folder.mkdir(exist_ok=True, mode=0o700)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        template = folder / f"{_fingerprint(_PACKAGES)}.sqlite3"
        if not template.exists():
            for old in folder.glob("*.*"):
                if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                    old.unlink()
            _make(template, ["-c", _MIGRATE])
        if bundle is not None:
            migrated, sources = template, (*_PACKAGES, *filter(None, apps.replace(".", "/").split(",")))
            template = folder / f"{_fingerprint(sources, apps.encode() + bundle.read_bytes())}.sqlite3"
            if not template.exists():
                load = ["-m", "mcphub.cli", "catalog", "load", str(bundle)]
                _make(template, load, begin=migrated, MCPHUB_APPS=apps)
        shutil.copyfile(template, path)
        shutil.copyfile(template.with_suffix(".mark"), path.with_name("migrated"))


def copy_in(server: str, name: str) -> None:
    """Make a migrated database of this name on a PostgreSQL server; `server` is its address without a database."""
    sys.audit("tests.database", name)
    template = f"{_OF_POSTGRESQL}{_fingerprint(_PACKAGES)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True, connect_timeout=PATIENCE_SECONDS) as connection:
        connection.execute("SELECT pg_advisory_lock(hashtext(%s))", [_OF_POSTGRESQL])  # until the connection ends
        found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [template]).fetchone()
        if found is None:
            _drop_old(connection)
            with tempfile.TemporaryDirectory(prefix="mcphub-template-") as data:
                connection.execute(f"CREATE DATABASE {template}_made")  # type: ignore[call-overload]
                address = f"{server}/{template}_made"
                _run(["-c", _MIGRATE], MCPHUB_DATA_DIR=data, MCPHUB_DATABASE_URL=address)
            connection.execute(f"COMMENT ON DATABASE {template}_made IS '{time.time():.0f}'")  # type: ignore[call-overload]
            connection.execute(f"ALTER DATABASE {template}_made RENAME TO {template}")  # type: ignore[call-overload]
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")  # type: ignore[call-overload]


def _drop_old(connection: psycopg.Connection) -> None:
    """Drop templates of other code, and what is left of one whose making was interrupted."""
    told = connection.execute(
        "SELECT datname, shobj_description(oid, 'pg_database') FROM pg_database WHERE datname LIKE %s",
        [_OF_POSTGRESQL.replace("_", r"\_") + "%"],
    )
    for name, made_at in told.fetchall():
        if made_at is None or int(made_at) < time.time() - _KEPT_SECONDS:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


def _make(path: Path, words: list[str], *, begin: Path | None = None, **variables: str) -> None:
    with tempfile.TemporaryDirectory(prefix="mcphub-template-") as data:
        made, mark = Path(data) / "hub.sqlite3", Path(data) / "migrated"
        if begin is not None:
            shutil.copyfile(begin, made)
            shutil.copyfile(begin.with_suffix(".mark"), mark)
        _run(words, MCPHUB_DATA_DIR=data, **variables)
        connection = sqlite3.connect(made)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        shutil.move(mark, path.with_suffix(".mark"))
        shutil.move(made, path)


def _run(words: list[str], **variables: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    environment |= {"DJANGO_SETTINGS_MODULE": "mcphub.settings", **variables}
    global is_making
    is_making = True
    try:
        done = subprocess.run(
            [sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
    finally:
        is_making = False
    assert done.returncode == 0, done.stderr


def _fingerprint(sources: Iterable[str], more: bytes = b"") -> str:
    """Tell apart what may make other tables, rules and rows: all code, the interpreter and Django."""
    digest = hashlib.sha256(f"{sys.version} {django.VERSION}".encode() + more)
    for package in sources:
        for source in sorted((ROOT / package).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
