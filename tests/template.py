"""An SQLite database with every migration applied, made once for this code and copied by whoever starts from nothing.

A hub or a test run that migrates by itself spends more processor time on that than on most of its tests. What the
copy leaves out, the first start on an empty directory, has tests of its own (`tests/mcphub/test_cli_serve.py`).
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
from pathlib import Path

import django

ROOT = Path(__file__).resolve().parent.parent
_KEPT_SECONDS = 86_400
_PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")


def copy_to(path: Path) -> None:
    """Put a migrated database there, unless there is one, and beside it the mark that tells a start so."""
    if path.exists():
        return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    folder = Path(tempfile.gettempdir()) / f"mcphub-templates-{os.getuid()}"
    folder.mkdir(exist_ok=True, mode=0o700)
    template = folder / f"{_fingerprint()}.sqlite3"
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not template.exists():
            for old in folder.glob("*.*"):
                if old.stat().st_mtime < time.time() - _KEPT_SECONDS:
                    old.unlink()
            _make(template)
        shutil.copyfile(template, path)
        shutil.copyfile(template.with_suffix(".mark"), path.with_name("migrated"))


def _make(path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="mcphub-template-") as data:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
        environment |= {"MCPHUB_DATA_DIR": data, "DJANGO_SETTINGS_MODULE": "mcphub.settings"}
        subprocess.run(
            [sys.executable, "-c", "import django; django.setup(); from mcphub.first_run import migrate; migrate()"],
            cwd=ROOT, env=environment, check=True, capture_output=True,
        )  # fmt: skip
        made = Path(data) / "hub.sqlite3"
        connection = sqlite3.connect(made)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.close()
        shutil.move(Path(data) / "migrated", path.with_suffix(".mark"))
        shutil.move(made, path)


def _fingerprint() -> str:
    """Tell apart what may make other tables, rules and rows: all code, the interpreter and Django."""
    digest = hashlib.sha256(f"{sys.version} {django.VERSION}".encode())
    for package in _PACKAGES:
        for source in sorted((ROOT / package).rglob("*.py")):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
