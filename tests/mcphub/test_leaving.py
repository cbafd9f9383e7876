"""A signal while a process starts ends it, wherever the start is at that moment."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.waiting import PATIENCE_SECONDS

IN_A_FINALIZER = """
import os, weakref
from mcphub.process import leaving

class Thing: pass

leaving.at_once()
thing = Thing()
weakref.finalize(thing, lambda: os.kill(os.getpid(), leaving.NUMBERS[{number}]))
del thing
print("goes on", flush=True)
leaving.if_signalled()
print("is lost", flush=True)
"""


@pytest.mark.program
@pytest.mark.parametrize("number", [0, 1], ids=["SIGTERM", "SIGINT"])
def test_a_signal_whose_exception_python_drops_ends_the_start(number: int) -> None:
    program = [sys.executable, "-c", IN_A_FINALIZER.format(number=number)]
    ended = subprocess.run(program, capture_output=True, text=True, timeout=PATIENCE_SECONDS)
    assert (ended.returncode, ended.stdout) == (0, "goes on\n")
    assert "Exception ignored" in ended.stderr
