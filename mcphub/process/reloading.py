"""`mcphub serve --reload`, for authors of tools: the hub restarts when a source of an app in MCPHUB_APPS changes.

This process watches the sources and runs the server as its child, so that a mistake in a source ends the child only.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

_LOOK_SECONDS = 0.5
_STOP_SECONDS = 60

Sources = dict[str, tuple[int, int]]
"""Path -> time of the last change in ns, and size."""


def serve(apps: Iterable[str]) -> int:
    """Run `mcphub serve` with this environment, again after each change; return its exit status once stopped."""
    folders = list(_folders(apps))
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    environment = {**os.environ, "MCPHUB_RELOAD": "1"}
    while True:
        seen = _sources(folders)
        child = subprocess.Popen([sys.executable, "-m", "mcphub.cli", "serve"], env=environment)
        ended = False
        while not stopping and _sources(folders) == seen:
            try:
                child.wait(_LOOK_SECONDS)
            except subprocess.TimeoutExpired:
                continue
            if not ended:
                print("The hub has ended. It starts again when a source changes.", file=sys.stderr, flush=True)
                ended = True
            time.sleep(_LOOK_SECONDS)
        status = _end(child)
        if stopping:
            return status
        print("A source has changed. The hub restarts.", file=sys.stderr, flush=True)


def _end(child: subprocess.Popen[bytes]) -> int:
    if child.poll() is None:
        child.send_signal(signal.SIGTERM)
    try:
        return child.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        child.kill()
        return child.wait()


def _folders(apps: Iterable[str]) -> Iterable[Path]:
    for app in apps:
        spec = importlib.util.find_spec(app)
        for place in (spec.submodule_search_locations or ()) if spec is not None else ():
            yield Path(place)


def _sources(folders: Iterable[Path]) -> Sources:
    found: Sources = {}
    for folder in folders:
        for path in sorted(folder.rglob("*.py")):
            try:
                status = path.stat()
            except FileNotFoundError:  # an editor is replacing it
                continue
            found[str(path)] = status.st_mtime_ns, status.st_size
    return found
