"""Write deploy/hashes: what a hub installs, pinned as in constraints.txt, with the digests of each release's files.

`uv` resolves and asks the package index for the digests, once for each Python below; no address of an index is
written. `pip install --require-hashes -r deploy/hashes/mcphub.txt` then takes no other file. Each extra has a list of
its own, which holds the hub's as well.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

HOME = Path(__file__).resolve().parents[2]
FOLDER = HOME / "deploy" / "hashes"
INSTALLER = "uv.txt"
"""A list beside those of the hub: what installs what they name. See deploy/release/install.sh."""
PYTHONS = ("3.11", "3.13")
"""A release that only one of them needs is in the list, with the marker that constraints.txt gives it."""
HEAD = "# Made by `make hashes` from constraints.txt. Install with: pip install --require-hashes -r {name}\n"

Pin = tuple[str, str]
"""Name in lower case with `-` alone, and version."""


def constraints() -> dict[Pin, str]:
    """Return what constraints.txt pins: the marker of each release, "" for none."""
    pins = {}
    for line in (HOME / "constraints.txt").read_text().splitlines():
        requirement, _, marker = line.partition(";")
        name, equals, version = requirement.strip().partition("==")
        if equals:
            pins[canonical(name), version] = marker.strip()
    return pins


def canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lists() -> dict[str, tuple[str, ...]]:
    """Return the file names of the lists, each with the extras it includes."""
    extras = tomllib.loads((HOME / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    return {"mcphub.txt": ()} | {f"mcphub-{extra}.txt": (extra,) for extra in sorted(extras) if extra != "dev"}


def read(text: str) -> dict[Pin, set[str]]:
    """Return the releases of a list with their digests in hexadecimal."""
    found: dict[Pin, set[str]] = {}
    for entry in text.replace("\\\n", " ").splitlines():
        if entry.strip() and not entry.startswith("#"):
            pinned = re.match(r"([\w.-]+)(?:\[[^]]*\])?==(\S+)", entry)
            assert pinned is not None, entry
            found[canonical(pinned[1]), pinned[2]] = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", entry))
    return found


def asked_extras(text: str) -> dict[str, str]:
    """Return the extras that releases of a list are asked for with, in brackets: pip takes a list with digests
    only where
    it names them."""
    named = re.findall(r"^([\w.-]+)(\[[^]]+\])==", text, re.MULTILINE)
    return {canonical(name): extras.replace(" ", "") for name, extras in named}


def resolve(sources: list[str], python: str) -> str:
    """Return the list of one Python as `uv` writes it."""
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python-version", python, "--generate-hashes"]
    command += ["--python-platform", "linux", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command += ["--no-strip-extras"]
    command += ["--constraint", str(HOME / "constraints.txt"), *sources]
    return subprocess.run(command, check=True, capture_output=True, text=True, input="uv\n").stdout


def _sources() -> dict[str, list[str]]:
    """Return the file names of all lists, each with what `uv` makes it of."""
    project = str(HOME / "pyproject.toml")
    of_hub = {
        name: [project, *(word for extra in extras for word in ("--extra", extra))] for name, extras in lists().items()
    }
    return of_hub | {INSTALLER: ["-"]}


def main() -> int:
    pins = constraints()
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.txt"):
        if old.name not in (*lists(), INSTALLER):
            old.unlink()
    for name, sources in _sources().items():
        releases: dict[Pin, set[str]] = {}
        asked: dict[str, str] = {}
        for python in PYTHONS:
            resolved = resolve(sources, python)
            releases |= read(resolved)
            asked |= asked_extras(resolved)
        unpinned = sorted("==".join(release) for release in releases.keys() - pins.keys())
        if unpinned:
            print(f"constraints.txt does not pin {', '.join(unpinned)}: add a line for each.", file=sys.stderr)
            return 1
        entries = []
        for (package, version), digests in sorted(releases.items()):
            marker = f" ; {pins[package, version]}" if pins[package, version] else ""
            allowed = [f"--hash=sha256:{each}" for each in sorted(digests)]
            entries.append(" \\\n    ".join([f"{package}{asked.get(package, '')}=={version}{marker}", *allowed]))
        (FOLDER / name).write_text(HEAD.format(name=name) + "\n".join(entries) + "\n")
        print(f"deploy/hashes/{name}: {len(releases)} releases")
    return 0


if __name__ == "__main__":
    sys.exit(main())
