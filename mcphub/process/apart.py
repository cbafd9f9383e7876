"""Work in a child process that ends with it, so that all memory that it took goes back to the system."""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import NoReturn

from mcphub.process import leaving
from tools_catalog.upstream.confinement import kernel


def run(work: Callable[[], None]) -> None:
    """Call `work` in a copy of this process, and raise its error here.

    This process must have one thread, and no open connection that `work` uses. A signal that ends it ends the copy.
    """
    parent = os.getpid()
    reader, writer = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        _be_child(work, parent, writer)
    os.close(writer)
    try:
        with open(reader, "rb") as pipe:
            raised = pipe.read()
    except BaseException:
        os.kill(child, signal.SIGTERM)
        raise
    finally:
        status = os.waitpid(child, 0)[1]
    leaving.if_signalled()
    if raised:
        raise pickle.loads(raised)  # noqa: S301 - of this program's own copy
    if status:
        raise ChildProcessError(f"its process ended with status {os.waitstatus_to_exitcode(status)}")


def _be_child(work: Callable[[], None], parent: int, writer: int) -> NoReturn:
    status = 1
    try:
        for number in leaving.NUMBERS:
            signal.signal(number, signal.SIG_DFL)
        with contextlib.suppress(AttributeError, OSError):  # Linux alone ends a process with its parent
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() == parent:
            work()
            status = 0
    except BaseException as error:
        _send(error, writer)
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(status)


def _send(error: BaseException, writer: int) -> None:
    error.add_note("".join(traceback.format_exception(error)))  # it does not travel by itself
    try:
        text = pickle.dumps(error)
        pickle.loads(text)  # noqa: S301 - some can be written and not read
    except Exception:
        text = pickle.dumps(ChildProcessError("".join(traceback.format_exception(error))))
    with open(writer, "wb") as pipe:
        pipe.write(text)
