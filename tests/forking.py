"""Starts `mcphub` and its like as forks of a process that has imported the hub.

A start of Python that imports what the hub needs takes more processor time than most tests, and the suite has hundreds.
A forked program has its own environment, directory, descriptors, signals and end, and is a child of the test like any
other; it reads the settings itself. One process forks those that load the same applications: what a hub imports depends
on the variables in `_SHAPING` alone. `tests/mcphub/test_cli.py` starts each command without a fork.

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
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests import costs

ROOT = Path(__file__).resolve().parent.parent
_LIBRARIES = (
    "asyncio cryptography.fernet cryptography.hazmat.primitives.asymmetric.ed25519 django.core.management"
    " django.core.serializers.json django.db.models django.forms django.http django.template django.urls h11"
    " http.cookiejar httpcore2 httptools httpx2 jsonschema_rs logging.config orjson prometheus_client"
    " pydantic.json_schema pydantic.types pygments sqlite3 sqlparse uvicorn uvloop yaml"
    " charset_normalizer cryptography.x509 fido2.server jwcrypto.jwk jwt oauthlib.oauth2 re2 requests segno"
    " snowballstemmer urllib3"
)
"""What the hub imports in any case, and what reads no settings."""
_HUB = ("mcphub.cli", "mcphub.commands.serve", "mcphub.process.connections", "mcphub.routing", "mcphub.urls")
_SHAPING = ("MCPHUB_APPS", "MCPHUB_FEATURES", "MCPHUB_COMPLIANCE", "DJANGO_SETTINGS_MODULE", "PYTHONPATH")
"""Variables that decide what is imported; the kind of database does, too."""
_OFTEN = ("", "tests.toolbox", "tests.toolbox,tests.conformance.fixtures")
"""Applications with which most programs start."""
_SELDOM = 2
"""The number of programs of another shape that import the hub themselves; to import it for fewer would cost more."""
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
        prctl = ctypes.CDLL(None).prctl
        with _one_at_a_time:
            channel = _forker_for(env)
            prctl(_ADOPT, 1, 0, 0, 0)
            try:
                socket.send_fds(channel, [request], own)
                made = channel.recv(32)
                assert made, "The process that forks has ended; its standard error says why."
                self.pid = int(made)
                channel.recv(32)
            finally:
                prctl(_ADOPT, 0, 0, 0, 0)
        self._child_created = True
        self._close_pipe_fds(*pipes)  # type: ignore[attr-defined]


_one_at_a_time = threading.Lock()
_asked_for: Counter[tuple[str, ...]] = Counter()


def _forker_for(environment: Mapping[str, str]) -> socket.socket:
    """Return what forks a program of this environment: it has the hub imported where others load the same."""
    shape = tuple(environment.get(name, "") for name in _SHAPING)
    kind = "postgres" if environment.get("MCPHUB_DATABASE_URL", "").startswith("postgres") else ""
    apps, features, compliance, _settings, path = shape
    _asked_for[(*shape, kind)] += 1
    is_usual = apps in _OFTEN and not (features or compliance or path)
    return _forker(*shape, kind) if is_usual or _asked_for[(*shape, kind)] > _SELDOM else _forker()


@cache
def _forker(*shape: str) -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.forking", str(theirs.fileno()), *shape],
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
    if not hasattr(sys.modules.get(module), "__path__"):  # of a package its `__main__` runs, which nothing imports
        sys.modules.pop(module, None)
    sys.argv = [module, *words]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _import_hub(shape: Sequence[str]) -> None:
    """Load the applications, and leave nothing of the settings that they were loaded with."""
    *values, kind = shape
    former = dict(os.environ)
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update({name: value for name, value in zip(_SHAPING, values, strict=True) if value})
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
        os.environ["MCPHUB_DATA_DIR"] = folder
        if kind:
            os.environ["MCPHUB_DATABASE_URL"] = "postgres://nobody@127.0.0.1/nothing"
        sys.path[1:1] = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path not in sys.path]
        import django

        django.setup()
        for name in _HUB:
            importlib.import_module(name)
    _forget_settings()
    os.environ.clear()
    os.environ.update(former)


def _forget_settings() -> None:
    """Let each program read the settings, and make what Django makes of them, anew."""
    from django.conf import settings
    from django.db import connections
    from django.template import engines
    from django.urls import clear_url_caches
    from django.utils.functional import empty
    from oauth2_provider.settings import oauth2_settings

    made = {name for name in sys.modules if name.startswith("mcphub.") and name.endswith(".urls")}
    for name in made | {os.environ["DJANGO_SETTINGS_MODULE"]}:
        del sys.modules[name]
    clear_url_caches()
    for handler, read in ((connections, "settings"), (engines, "templates")):
        handler.__dict__.pop(read, None)
        handler.__init__()  # type: ignore[misc] - Django has no other way to reset one
    for name in oauth2_settings._cached_attrs:
        delattr(oauth2_settings, name)
    oauth2_settings._cached_attrs.clear()
    oauth2_settings.__dict__.pop("_user_settings", None)
    settings._wrapped = empty


if __name__ == "__main__":
    descriptor, *shape = sys.argv[1:]
    for name in _LIBRARIES.split():
        importlib.import_module(name)
    costs.hash_quickly()
    if shape:
        _import_hub(shape)
    gc.freeze()
    with socket.socket(fileno=int(descriptor)) as asked:
        told = _fork_on_request(asked)
    _become(told)
