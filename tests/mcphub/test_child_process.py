"""The child process in which a start migrates, and the errors that reach its parent."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.in_process import ROOT, environment
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.program

_CHILD = """
import os, signal
from mcphub.commands.stop import Stop
from mcphub.process import apart

class Unreadable(Exception):
    def __init__(self, one, *, two):
        super().__init__(one)

def stops():
    raise Stop("a sentence", status=2)

def fails():
    raise Unreadable("why", two=2)

def is_killed():
    os.kill(os.getpid(), signal.SIGKILL)

for work in (stops, fails, is_killed, lambda: print("own", os.getpid())):
    try:
        apart.run(work)
    except Exception as error:
        print(type(error).__name__, getattr(error, "status", ""), str(error).strip().splitlines()[-1])
print("parent", os.getpid())
"""

_START = """
import sys, django
django.setup()
from mcphub.process import first_run
made = first_run.prepare(is_alone=True)
assert made.username and made.key
print([name for name in sys.modules if ".migrations.0" in name])
"""


def _output(program: str, **variables: str) -> list[str]:
    ended = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **variables},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.splitlines()


def test_errors_of_the_child_are_raised_in_the_parent() -> None:
    stopped, failed, killed, own, parent = _output(_CHILD)
    assert stopped == "Stop 2 a sentence"
    assert (failed.split()[0], failed.split()[-1]) == ("ChildProcessError", "why")
    assert killed == f"ChildProcessError  its process ended with status {-signal.SIGKILL}"
    assert own.split()[1] != parent.split()[1]


def test_the_process_that_serves_loads_no_migration_on_its_first_start(tmp_path: Path) -> None:
    """The models of each state are three times the memory of a hub, and Python does not give them back."""
    home = tmp_path / "home"
    assert _output(_START, **environment(home, DJANGO_SETTINGS_MODULE="mcphub.settings")) == ["[]"]
    with closing(sqlite3.connect(home / "hub.sqlite3")) as database:
        [applied] = database.execute("SELECT count(*) FROM django_migrations").fetchone()
    assert applied > 0
