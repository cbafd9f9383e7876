"""Runs commands of `mcphub` over a data directory in the process of the test: no start of Python, no imports.

The command reads the settings that its environment makes and works on that directory's SQLite database; its exit status
and output are those of a program. What is about a program itself (its start, signals, mask, an operator's apps) needs
one: `tests.mcphub.running.run`.
"""

from __future__ import annotations

import contextlib
import io
import logging.config
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import connection
from django.utils.functional import empty

from mcphub import cli

ROOT = Path(__file__).resolve().parent.parent
_unblock: Any = None


@pytest.fixture(scope="session", autouse=True)
def _open_to_commands(django_db_blocker: Any) -> None:
    """Open the database to commands, as it is to a program."""
    global _unblock
    _unblock = django_db_blocker.unblock


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    """Return the environment of a command: that of the tests without the hub's variables."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    own = {"MCPHUB_DATA_DIR": str(data_dir), "MCPHUB_ALLOW_NOT_DURABLE": "1", "PYTHONUNBUFFERED": "1"}
    return {**inherited, **own, **more}


@contextlib.contextmanager
def inside(data_dir: Path, **variables: str) -> Iterator[None]:
    """Read and write the rows of a data directory; the settings are read anew at the first look, as in a program."""
    assert not connection.in_atomic_block, "the test's own transaction is open"
    assert connection.vendor == "sqlite", "another database needs a program"
    kept, read, module = dict(os.environ), settings._wrapped, sys.modules.pop("mcphub.settings")
    former = connection.settings_dict["NAME"]
    os.environ.clear()
    os.environ.update(environment(data_dir, DJANGO_SETTINGS_MODULE="mcphub.settings", **variables))
    connection.close()
    connection.settings_dict["NAME"] = data_dir / "hub.sqlite3"  # the one dictionary of every thread
    settings._wrapped = empty
    try:
        with _unblock():
            yield
    finally:
        connection.close()
        connection.settings_dict["NAME"] = former
        settings._wrapped, sys.modules["mcphub.settings"] = read, module
        os.environ.clear()
        os.environ.update(kept)


def run(data_dir: Path, *words: str, stdin: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    given, told, errors = (io.BytesIO(text) for text in (stdin.encode(), b"", b""))
    mask, replaced = os.umask(0o077), (sys.stdin, sys.stdout, sys.stderr)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(each, encoding="utf-8", write_through=True) for each in (given, told, errors)
    )
    try:
        with inside(_named_by(words) or data_dir, **variables):
            status = cli.main(words)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
    finally:
        streams = sys.stdin, sys.stdout, sys.stderr
        sys.stdin, sys.stdout, sys.stderr = replaced
        os.umask(mask)
        logging.config.dictConfig(settings.LOGGING)  # a command's log goes to its own standard error
    for stream in streams:
        stream.detach()
    return subprocess.CompletedProcess(["mcphub", *words], status, told.getvalue().decode(), errors.getvalue().decode())


def _named_by(words: Sequence[str]) -> Path | None:
    return Path(words[words.index("--data-dir") + 1]) if "--data-dir" in words[:-1] else None
