"""Build sdist and wheel as a release has them, and try both where nothing of the checkout is in reach.

The wheel holds every file that git knows in the packages; two builds, one of them from the sdist, give the same bytes.
It is installed in an empty environment with nothing but what deploy/hashes allows, and serves a first audited call in
an empty folder. `--all` tries pipx and uvx as well, which resolve by themselves.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
import zipfile
from pathlib import Path

from deploy.release import first_call, hashes, packing, sbom

PACKAGES = ("mcphub", "invocations", "tools_catalog", "sessions_app")
LINKED = ("templates", "docs")
DIST = hashes.HOME / "dist"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true", help="try pipx and uvx too")
    parser.add_argument("--build-only", action="store_true", help="write dist/ and look at it, install nothing")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcphub-release-") as name:
        scratch = Path(name)
        wheel = build(scratch)
        if not options.build_only:
            try_installed(wheel, scratch)
            if options.all:
                try_tools(wheel, scratch)
    return 0


def build(scratch: Path) -> Path:
    """Write dist/; give the wheel. SystemExit: it lacks a file, or a second build differs."""
    epoch = int(sbom.made_at().timestamp())
    for old in [*DIST.glob("mcphub-*.whl"), *DIST.glob("mcphub-*.tar.gz")]:
        old.unlink()
    wheel, sdist = packing.python_files(hashes.HOME, DIST, epoch)
    missing = _files_of_git() - set(zipfile.ZipFile(wheel).namelist())
    if missing:
        sys.exit(f"{wheel.name} lacks {', '.join(sorted(missing))}")
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    (source,) = scratch.glob("mcphub-*")
    time.sleep(2)  # zip's times have steps of two seconds
    packing.python_files(source, scratch / "again", epoch)
    if wheel.read_bytes() != (scratch / "again" / wheel.name).read_bytes():
        sys.exit(f"{wheel.name} is another one when it is built again, from the sdist.")
    print(f"dist/{wheel.name}: {wheel.stat().st_size // 1024} KiB, equal when built again from dist/{sdist.name}")
    return wheel


def try_installed(wheel: Path, scratch: Path) -> None:
    """Install with digests demanded in an empty environment, and call."""
    home = scratch / "environment"
    venv.create(home, with_pip=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _run([*pip, "--require-hashes", "-r", str(hashes.FOLDER / "mcphub.txt")])
    _run([*pip, "--no-deps", str(wheel)])
    mcphub = str(home / "bin" / "mcphub")
    version = subprocess.run([mcphub, "--version"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"pip, with digests: {version}:", _first_call([mcphub, "serve"], scratch / "by-pip"))
    verified = ["audit", "verify", "--data-dir", str(scratch / "by-pip" / "var")]
    _run([mcphub, *verified], cwd=scratch / "by-pip")


def try_tools(wheel: Path, scratch: Path) -> None:
    home = scratch / "tools"
    venv.create(home, with_pip=True)
    pip = [str(home / "bin" / "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check"]
    _run([*pip, "pipx", "uv"])
    own = os.environ | {"PIPX_HOME": str(scratch / "pipx"), "PIPX_BIN_DIR": str(scratch / "pipx-bin")}
    _run([str(home / "bin" / "pipx"), "install", str(wheel)], env=own)
    print("pipx:", _first_call([str(scratch / "pipx-bin" / "mcphub"), "serve"], scratch / "by-pipx"))
    uvx = [str(home / "bin" / "uvx"), "--python", sys.executable, "--from", str(wheel), "mcphub", "serve"]
    print("uvx:", _first_call(uvx, scratch / "by-uvx"))


def _first_call(command: list[str], folder: Path) -> str:
    folder.mkdir()
    plain = {name: value for name, value in os.environ.items() if not name.startswith(("MCPHUB_", "PYTHON", "DJANGO"))}
    return first_call.serve_and_call(command, folder, first_call.free_port(), plain)


def _files_of_git() -> set[str]:
    """Return what a checkout has in the packages; templates and documents stand in them by links."""
    names = _run(["git", "ls-files", *PACKAGES, *LINKED], cwd=hashes.HOME).split()
    linked = {f"mcphub/{name}" if name.split("/")[0] in LINKED else name for name in names}
    return linked - {f"mcphub/{name}" for name in LINKED}


def _run(command: list[str], cwd: Path | None = None, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout


if __name__ == "__main__":
    try:
        sys.exit(main())
    except first_call.NotAsShipped as fault:
        sys.exit(str(fault))
