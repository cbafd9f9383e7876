"""The interpreters of the benchmark: one environment for each peer, all made from the same Python.

They live outside the tree, under `$XDG_CACHE_HOME/mcphub-bench`, and stay for the next run. A folder is named
after its pins, so that a changed pin makes a new one.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "mcphub-bench"

# The server under all of them is the hub's: uvicorn with uvloop and httptools.
_SERVER = ("uvicorn", "uvloop", "httptools")
PEERS = {"sdk": ("mcp==2.3.0",), "fast": ("fastmcp==4.1.2",)}
"""Peer -> what is installed, besides the server."""

_TOLD = ("mcp", "fastmcp", "pydantic", "starlette", "uvicorn", "uvloop", "httptools", "Django", "orjson", "psycopg")
_FACTS = f"""
import json, platform, sqlite3
from importlib import metadata
found = {{"python": platform.python_version(), "sqlite": sqlite3.sqlite_version}}
for name in {_TOLD!r}:
    try:
        found[name] = metadata.version(name)
    except metadata.PackageNotFoundError:
        pass
print(json.dumps(found))
"""


class NoEnvironment(Exception):
    """An environment cannot be made; the words say why."""


@dataclass(frozen=True)
class Environments:
    """The interpreters of hub and peers."""

    hub: Path
    sdk: Path
    fast: Path

    def versions(self) -> dict[str, dict[str, str]]:
        return {name: facts(getattr(self, name)) for name in ("hub", "sdk", "fast")}


def prepare(wanted: str | None) -> Environments:
    """Make what is missing, from the interpreter `wanted` or the newest there is."""
    interpreter = _base(wanted)
    return Environments(hub=_hub(interpreter), sdk=_peer("sdk", interpreter), fast=_peer("fast", interpreter))


def of_revision(revision: str, wanted: str | None) -> tuple[Path, Path]:
    """Make an earlier hub from the repository's history; give its interpreter and the folder of its source."""
    named = subprocess.run(
        ["git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}"], capture_output=True, text=True, cwd=ROOT
    )
    if named.returncode:
        raise NoEnvironment(f"{revision} is no commit of this repository; name another with --before.")
    commit = named.stdout.strip()
    source = CACHE / f"source-{commit[:12]}"
    if not (source / "constraints.txt").exists():
        source.mkdir(parents=True, exist_ok=True)
        archive = subprocess.run(["git", "archive", commit], capture_output=True, cwd=ROOT, check=True).stdout
        subprocess.run(["tar", "--extract"], input=archive, cwd=source, check=True)
    constraints = source / "constraints.txt"
    return _made("before", _base(wanted), [commit], ["-c", str(constraints), "-e", str(source)]), source


def facts(python: Path) -> dict[str, str]:
    """Return the versions of what an interpreter has."""
    found: dict[str, str] = json.loads(subprocess.check_output([python, "-c", _FACTS], text=True))
    return found


def _base(wanted: str | None) -> str:
    """Return the interpreter that all environments are made from; a name that only stands there does not count."""
    for name in [wanted] if wanted else ["python3.13", "python3"]:
        path = shutil.which(name)
        if path and _version(path):
            return path
    raise NoEnvironment(f"No interpreter {wanted or 'python3'} runs here; name another with --python.")


def _version(python: str | Path) -> str:
    """Return the version, such as 3.13.0; an empty text for what does not run."""
    code = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
    try:
        return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def _hub(interpreter: str) -> Path:
    """Return the hub's interpreter: that of this run if it is the same Python, else one of the cache."""
    if _version(sys.executable) == _version(interpreter) and _can_run_the_hub(sys.executable):
        return Path(sys.executable)
    constraints = ROOT / "constraints.txt"
    marks = (constraints.read_text(), (ROOT / "pyproject.toml").read_text(), str(ROOT))
    return _made("hub", interpreter, marks, ["-c", str(constraints), "-e", str(ROOT)])


def _can_run_the_hub(python: str) -> bool:
    code = "import channels, django, orjson, psycopg, uvicorn, uvloop"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def _peer(name: str, interpreter: str) -> Path:
    pins = [*PEERS[name], *_server_pins()]
    return _made(name, interpreter, pins, pins)


def _server_pins() -> list[str]:
    """The server's pins of the hub, so that all run on the same one."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    return [line for line in lines if line.partition("==")[0].lower() in _SERVER]


def _made(name: str, interpreter: str, marks: list[str] | tuple[str, ...], install: list[str]) -> Path:
    version = _version(interpreter)
    digest = hashlib.sha256("\n".join([version, *marks]).encode()).hexdigest()[:12]
    folder = CACHE / f"{name}-{version}-{digest}"
    python = folder / "bin/python"
    if (folder / "complete").exists():
        return python
    print(f"Making the environment of {name}, Python {version} ...", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    folder.parent.mkdir(parents=True, exist_ok=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *install]
    for command in ([interpreter, "-m", "venv", str(folder)], pip):
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NoEnvironment(f"The environment of {name} cannot be made:\n{done.stderr[-2000:]}")
    (folder / "complete").touch()
    return python
