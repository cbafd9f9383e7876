"""The folders that a child may write: its home, which stays, and a temporary one, which ends with it."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools_catalog.upstream import children

_numbers: Final = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ChildFolders:
    """Create them with `made`; `remove` the ones that end with the child."""

    home: str
    temporary: str

    @classmethod
    def made(cls, folder: str, owner: tuple[int, int] | None) -> ChildFolders:
        """Make the folders of one child beneath that of its profile. Raises OSError."""
        root = Path(folder)
        root.mkdir(mode=0o711, parents=True, exist_ok=True)
        _remove_left_behind(root)
        home, temporary = root / "home", root / f"tmp-{_mark()}-{next(_numbers)}"
        for path in (home, temporary):
            path.mkdir(mode=0o700, exist_ok=path == home)
            if owner is not None and path.stat().st_uid != owner[0]:
                os.chown(path, *owner)
        return cls(str(home), str(temporary))

    def remove(self) -> None:
        shutil.rmtree(self.temporary, ignore_errors=True)


def _mark() -> str:
    """Return the owner of the folder: machine, number and start of this process."""
    pid, started, machine = children.own_mark().split(":", 2)
    return f"{hashlib.sha256(machine.encode()).hexdigest()[:12]}-{pid}-{started}"


def _remove_left_behind(root: Path) -> None:
    """Remove the temporary folders of hubs of this machine that were killed."""
    machine = _mark().partition("-")[0]
    for path in root.glob(f"tmp-{machine}-*"):
        _, _, pid, started, _ = path.name.split("-", 4)
        if pid.isdecimal() and started and children.start_mark(int(pid)) != started:
            with contextlib.suppress(OSError):
                shutil.rmtree(path, ignore_errors=True)
