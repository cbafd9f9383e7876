"""Archives that are the same bytes wherever and by whomever they are packed: sorted, one time, one owner, two modes."""

from __future__ import annotations

import gzip
import io
import os
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path

import yaml

from deploy.release import hashes

TOOLS = hashes.HOME / "deploy" / "release" / "build-constraints.txt"
"""The packages that build, with digests: another version of setuptools may write other bytes."""


def checkout(commit: str, to: Path) -> Path:
    """Write the files of a commit, and nothing else that lies in the folder, into `to`."""
    archive = subprocess.run(
        ["git", "archive", "--format=tar", commit], cwd=hashes.HOME, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        tar.extractall(to, filter="data")
    for path in [to, *to.rglob("*")]:
        if not path.is_symlink():
            path.chmod(0o755 if path.is_dir() or path.stat().st_mode & 0o100 else 0o644)
    return to


def python_files(source: Path, to: Path, epoch: int) -> tuple[Path, Path]:
    """Build wheel and sdist of a folder."""
    fixed = {"SOURCE_DATE_EPOCH": str(epoch), "PYTHONHASHSEED": "0", "TZ": "UTC", "LC_ALL": "C.UTF-8"}
    environment = os.environ | fixed | {"PIP_CONSTRAINT": str(TOOLS)}
    command = [sys.executable, "-m", "build", "--outdir", str(to), str(source)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, umask=0o022)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    (wheel,), (sdist,) = to.glob("mcphub-*.whl"), to.glob("mcphub-*.tar.gz")
    with tarfile.open(sdist) as tar:
        members = {each.name: (_content(tar, each), each.mode) for each in tar if each.isfile()}
    sdist.write_bytes(tar_gz(members, epoch))
    return wheel, sdist


def chart(source: Path, to: Path, epoch: int) -> Path:
    """Pack a chart as Helm names and arranges it."""
    about = yaml.safe_load((source / "Chart.yaml").read_text())
    members = {
        f"{about['name']}/{path.relative_to(source).as_posix()}": (path.read_bytes(), 0o644)
        for path in source.rglob("*")
        if path.is_file()
    }
    packed = to / f"{about['name']}-chart-{about['version']}.tgz"
    packed.write_bytes(tar_gz(members, epoch))
    return packed


def tar_gz(members: Mapping[str, tuple[bytes, int]], epoch: int) -> bytes:
    """Return an archive of name -> content and mode."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile("", "wb", 9, packed, mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(members):
            content, mode = members[name]
            member = tarfile.TarInfo(name)
            member.size, member.mtime, member.mode = len(content), epoch, 0o755 if mode & 0o100 else 0o644
            tar.addfile(member, io.BytesIO(content))
    return packed.getvalue()


def tar_folder(folder: Path, to: Path, epoch: int) -> None:
    """Write the files below a folder into an archive."""
    with tarfile.open(to, "w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            member.size, member.mtime, member.mode = path.stat().st_size, epoch, 0o644
            with path.open("rb") as file:
                tar.addfile(member, file)


def _content(tar: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    file = tar.extractfile(member)
    assert file is not None
    return file.read()
