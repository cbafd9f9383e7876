"""Puts foreign programs into environments of their own: MCP clients of several years, the conformance suite.

They live outside the tree, under `$XDG_CACHE_HOME/mcphub-tests`, and stay for the next run. An environment is
named after its pins, so that a changed pin makes a new one.

    python -m tests.clients.install
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path

HERE = Path(__file__).parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcphub-tests"

# Before 1.13 the SDK cannot be imported with a newer pydantic.
_OLD = ("pydantic<2.12", "pydantic-settings<2.9")
PYTHON = {
    "2.3.0": ("mcp==2.3.0",),
    "1.30.0": ("mcp==1.30.0",),
    "1.12.4": ("mcp==1.12.4", *_OLD),
    "1.9.4": ("mcp==1.9.4", *_OLD),
    "1.2.0": ("mcp==1.2.0", *_OLD),
}
"""Version of Python's `mcp` -> what is installed."""


def node(*, install: bool = True) -> Path | None:
    """Give the folder whose `node_modules` holds the JavaScript programs; None where it is not installed."""
    manifest = (HERE / "package.json").read_bytes()
    folder = CACHE / f"node-{hashlib.sha256(manifest).hexdigest()[:12]}"
    with _making(folder, install=install) as is_new:
        if is_new:
            shutil.copy(HERE / "package.json", folder)
            npm = shutil.which("npm")
            if npm is None:
                raise SystemExit("npm is needed to install the JavaScript clients.")
            flags = ["--no-package-lock", "--no-audit", "--no-fund", "--loglevel=error"]
            _run([npm, "install", *flags], cwd=folder)
    return folder if _is_made(folder) else None


def python(version: str, *, install: bool = True) -> Path | None:
    """Give the interpreter that has this version of `mcp`; None where it is not installed."""
    pins = PYTHON[version]
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    digest = hashlib.sha256("\n".join((running, *pins)).encode()).hexdigest()[:12]
    folder = CACHE / f"mcp-{version}-{digest}"
    with _making(folder, install=install) as is_new:
        if is_new:
            venv.create(folder, with_pip=True)
            _run([str(folder / "bin/python"), "-m", "pip", "install", "--quiet", *pins], cwd=folder)
    return folder / "bin/python" if _is_made(folder) else None


def node_environment(folder: Path) -> dict[str, str]:
    """The environment in which the programs of `folder` find its node instead of the system's."""
    return {**os.environ, "PATH": f"{folder / 'node_modules/.bin'}{os.pathsep}{os.environ.get('PATH', '')}"}


@contextlib.contextmanager
def _making(folder: Path, *, install: bool) -> Iterator[bool]:
    """Say whether the environment is to be made now; two runs at once make it once."""
    if _is_made(folder) or not install:
        yield False
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "install.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if _is_made(folder):
            yield False
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        yield True
        (folder / "complete").touch()


def _is_made(folder: Path) -> bool:
    return (folder / "complete").exists()


def _run(command: list[str], *, cwd: Path) -> None:
    subprocess.run(command, cwd=cwd, check=True, timeout=600)


if __name__ == "__main__":
    print(node())
    for each in PYTHON:
        print(python(each))
