"""The files that a child may reach: what every program needs, its own program, and what its profile names.

Landlock only allows; it cannot except anything from what is allowed. So where a folder that is allowed holds
something of the hub's, its other entries are allowed one by one.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

_ETC: Final = (
    *("alternatives", "ca-certificates", "crypto-policies", "fonts", "gai.conf", "gitconfig", "group", "host.conf"),
    *("hosts", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ld.so.preload", "locale.alias", "localtime", "magic"),
    *("mime.types", "npmrc", "nsswitch.conf", "os-release", "passwd", "pki", "protocols", "resolv.conf", "services"),
    *("ssl", "terminfo", "timezone"),
)
_SYSTEM: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store"),
    *("/proc", "/sys/devices/system/cpu", "/sys/fs/cgroup", "/sys/kernel/mm/transparent_hugepage"),
    *(f"/etc/{name}" for name in _ETC),
)
"""What interpreters and libraries read. Of /proc, Landlock and the kernel keep a child from memory, environment and
open files of processes that are not its own."""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_DEEPEST_SCRIPT: Final = 4
"""Scripts that name each other as their interpreters."""


def program_of(command: str, directory: str, environment: Mapping[str, str]) -> str:
    """Give where the program is; the command itself where it is nowhere."""
    if "/" in command:
        return os.path.normpath(os.path.join(directory, command))
    return shutil.which(command, path=environment.get("PATH", os.defpath)) or command


def read_only(program: str, words: Iterable[str], environment: Mapping[str, str], hidden: Iterable[str]) -> list[str]:
    """Give what a child reads and runs: the system, its program with its libraries, files among its words."""
    hides = [os.path.realpath(path) for path in hidden]
    own = [*_program(program, environment), *(word for word in words if word.startswith("/") and os.path.isfile(word))]
    found: dict[str, None] = {}
    for path in (*_SYSTEM, *own):
        found.update(dict.fromkeys(_around(os.path.realpath(path), hides)))
    return list(found)


def problem_of(path: str, hidden: Iterable[str]) -> str:
    """Say why a profile cannot name this path; empty where it can."""
    if not path.startswith("/") or "\x00" in path:
        return f"{path!r} is no absolute path."
    real = os.path.realpath(path)
    if real == "/":
        return "The whole file system is no confinement. Name the folders that the program needs."
    for each in map(os.path.realpath, hidden):
        if _holds(real, each) or _holds(each, real):
            return f"{path}: the hub keeps its own data there ({each}). Name another folder."
    return ""


def _around(path: str, hidden: list[str]) -> Iterator[str]:
    """Give the path, or what of it holds nothing hidden."""
    if any(_holds(each, path) for each in hidden):
        return
    if not any(_holds(path, each) for each in hidden):
        yield path
        return
    try:
        entries = sorted(entry.path for entry in os.scandir(path) if not entry.is_symlink())
    except OSError:
        return
    for entry in entries:
        yield from _around(entry, hidden)


def _holds(folder: str, path: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def _program(program: str, environment: Mapping[str, str], depth: int = 0) -> Iterator[str]:
    """Give a program, what its links lead to, the installation of each, and the interpreter of a script."""
    seen = Path(program)
    for _ in range(40):  # as many links as the kernel follows
        yield str(seen)
        yield from _installation(seen)
        if not seen.is_symlink():
            break
        seen = Path(os.path.normpath(seen.parent / os.readlink(seen)))
    interpreter = _interpreter(seen, environment)
    if interpreter and depth < _DEEPEST_SCRIPT:
        yield from _program(interpreter, environment, depth + 1)


def _installation(program: Path) -> Iterator[str]:
    """Give the folder of libraries that a program in `bin` brings along, where its marks are those of one."""
    root = program.parent.parent
    if (root / "pyvenv.cfg").is_file():
        yield str(root)
        for line in (root / "pyvenv.cfg").read_text(errors="replace").splitlines():
            name, _, value = line.partition("=")
            if name.strip() == "home":
                yield from _installation(Path(value.strip()) / "python")
    elif program.parent.name == "bin" and (
        (root / "lib" / "node_modules").is_dir() or any(root.glob("lib/python3*/os.py"))
    ):
        yield str(root)
    modules = [parent for parent in program.parents if parent.name == "node_modules"]
    if modules:
        yield str(modules[-1])


def _interpreter(script: Path, environment: Mapping[str, str]) -> str:
    """Give the program that the first line of a script names; `env` is looked through."""
    try:
        with script.open("rb") as file:
            line = file.readline(256)
    except OSError:
        return ""
    words = line[2:].decode(errors="replace").split() if line.startswith(b"#!") else []
    if not words:
        return ""
    if Path(words[0]).name != "env":
        return words[0]
    named = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    return shutil.which(named[0], path=environment.get("PATH", os.defpath)) or "" if named else ""
