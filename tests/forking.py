"""Starts `mcphub` and its like as forks of one process that has imported the libraries and nothing of the hub.

A start of Python that imports what the hub needs takes more processor time than most tests, and the suite has hundreds.
A forked program has its own environment, directory, descriptors, signals and end, and is a child of the test like any
other; it reads the settings and imports the hub itself. `tests/mcphub/test_cli.py` starts each command without a fork.

    python -m tests.forking DESCRIPTOR    the process that forks; a request is one message with three descriptors
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
_LIBRARIES = (
    "asyncio cryptography.fernet cryptography.hazmat.primitives.asymmetric.ed25519 django.core.management"
    " django.core.serializers.json django.db.models django.forms django.http django.template django.urls h11"
    " http.cookiejar httpcore2 httptools httpx2 jsonschema_rs logging.config orjson prometheus_client"
    " pydantic.json_schema pydantic.types pygments sqlite3 sqlparse uvicorn uvloop yaml"
)
"""What the hub imports in any case, and what reads no settings."""
_ADOPT = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_LONGEST_REQUEST = 1 << 20


def is_possible(environment: Mapping[str, str]) -> bool:
    """Tell whether a program with this environment needs no interpreter of its own.

    An interpreter reads its variables when it starts. Those of a forked program are the ones that `_forker` gives, and
    the path, which can be changed later.
    """
    return _of_interpreter(environment) == _of_interpreter(_environment())


def start(module: str, *words: str, env: Mapping[str, str], **options: Any) -> subprocess.Popen[Any]:
    """Start `python -m MODULE WORDS…`, by a fork where that is possible."""
    kind = _Forked if is_possible(env) else subprocess.Popen
    return kind([sys.executable, "-m", module, *words], cwd=ROOT, env=env, **options)


def run(
    module: str, *words: str, env: Mapping[str, str], timeout: float, input: str | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does with captured output."""
    given = subprocess.DEVNULL if input is None else subprocess.PIPE
    pipes = {"stdin": given, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with start(module, *words, env=env, text=True, **pipes) as process:
        try:
            told, errors = process.communicate(input, timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, told, errors)


class _Forked(subprocess.Popen[Any]):
    """A Popen whose child is forked elsewhere and becomes this process's child."""

    def _execute_child(self, args: Sequence[str], *rest: Any) -> None:
        executable, _, _, _, cwd, env, _, _, _, *pipes = rest[:15]
        sys.audit("subprocess.Popen", executable, args, cwd, env)
        stdin, _, _, stdout, _, stderr = pipes
        own = [end if end != -1 else ours for end, ours in ((stdin, 0), (stdout, 1), (stderr, 2))]
        request = json.dumps({"words": list(args[2:]), "environment": dict(env), "folder": str(cwd)}).encode()
        channel = _forker()
        prctl = ctypes.CDLL(None).prctl
        prctl(_ADOPT, 1, 0, 0, 0)
        try:
            socket.send_fds(channel, [request], own)
            self.pid = int(channel.recv(32))
            channel.recv(32)
        finally:
            prctl(_ADOPT, 0, 0, 0, 0)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


@cache
def _forker() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
        cwd=ROOT,
        env=_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        pass_fds=[theirs.fileno()],
    )
    theirs.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def _environment() -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def _of_interpreter(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith("PYTHON") and name != "PYTHONPATH"}


def _fork_on_request(channel: socket.socket) -> dict[str, Any]:
    """Fork for each request until nobody asks any more; give the request, in the forked process."""
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _LONGEST_REQUEST, 3)
        if not message:
            sys.exit()
        may_begin, adopted = os.pipe()
        between = os.fork()
        if between == 0:
            child = os.fork()
            if child:
                channel.send(str(child).encode())
                os._exit(0)  # whose children go to the test that asked
            os.close(adopted)
            os.read(may_begin, 1)
            os.close(may_begin)
            channel.close()
            for number, descriptor in enumerate(descriptors):
                os.dup2(descriptor, number)
                os.close(descriptor)
            return dict(json.loads(message))
        os.waitpid(between, 0)
        channel.send(b"adopted")
        for descriptor in (may_begin, adopted, *descriptors):
            os.close(descriptor)


def _become(request: dict[str, Any]) -> None:
    """Go on as the program that was asked for."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    more = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:1] = [request["folder"], *(path for path in more if path not in sys.path)]
    module, *words = request["words"]
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    for name in _LIBRARIES.split():
        importlib.import_module(name)
    gc.freeze()
    with socket.socket(fileno=int(sys.argv[1])) as asked:
        told = _fork_on_request(asked)
    _become(told)
