"""The files that a child may reach: those of every program, its own program, and the paths of its profile.

Landlock only allows; it cannot make exceptions. So where a folder that is allowed holds something of the hub's, its
other entries are allowed one by one.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
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
"""Files of interpreters and libraries. Of /proc, Landlock and the kernel keep a child from memory, environment and
open files of processes that are not its own.
"""
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
_SYSTEM_ROOTS: Final = (
    *("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc", "/boot", "/proc", "/sys"),
    *("/var/spool/cron", "/var/lib/systemd", "/run/systemd"),
)
"""Programs and files of the machine, whoever may write there."""
_OF_CHILDREN: Final = frozenset({"MCPHUB_CHILDREN_DIR", "MCPHUB_CHILDREN_WRITABLE"})
_DEEPEST_SCRIPT: Final = 4
"""Scripts that name each other as their interpreters."""


def program_of(command: str, directory: str, environment: Mapping[str, str]) -> str:
    """Return where the program is; the command itself where it is nowhere."""
    if "/" in command:
        return os.path.normpath(os.path.join(directory, command))
    return shutil.which(command, path=environment.get("PATH", os.defpath)) or command


def read_only(program: str, words: Iterable[str], environment: Mapping[str, str], hidden: Iterable[str]) -> list[str]:
    """Return a child's readable and executable paths: the system, its program with its libraries, files among its
    words.
    """
    hides = [os.path.realpath(path) for path in hidden]
    own = [*_program(program, environment), *(word for word in words if word.startswith("/") and os.path.isfile(word))]
    found: dict[str, None] = {}
    for path in (*_SYSTEM, *own):
        found.update(dict.fromkeys(_around(os.path.realpath(path), hides)))
    return list(found)


def problem_of(path: str, hidden: Iterable[str]) -> str:
    """Return the reason if a profile cannot name this path; empty otherwise."""
    if not path.startswith("/") or "\x00" in path:
        return f"{path!r} is no absolute path."
    real = os.path.realpath(path)
    if real == "/":
        return "The whole file system is no confinement. Name the folders that the program needs."
    for each in map(os.path.realpath, hidden):
        if _holds(real, each) or _holds(each, real):
            return f"{path}: the hub keeps its own data there ({each}). Name another folder."
    return ""


def problem_of_writable(path: str, hidden: Iterable[str], roots: Iterable[str], executed: Iterable[str]) -> str:
    """Return the reason if a child cannot write to this path; empty otherwise.

    `roots` are the folders beneath which the deployment lets children write, `executed` the hub's own programs and
    files.
    """
    if problem := problem_of(path, hidden):
        return problem
    real = os.path.realpath(path)
    if not is_beneath(real, roots):
        named = " ".join(roots)
        where = f"beneath {named}" if named else "in their own folders (HOME, TMPDIR)"
        return (
            f"{path}: children of this hub write {where} only. Name a folder there, or let whoever deploys the hub add "
            "this one to MCPHUB_CHILDREN_WRITABLE."
        )
    for each in map(os.path.realpath, executed):
        if _holds(real, each) or _holds(each, real):
            return f"{path}: the hub runs or reads {each} at its start. Name another folder."
    return ""


def is_beneath(path: str, roots: Iterable[str]) -> bool:
    real = os.path.realpath(path)
    return any(_holds(os.path.realpath(root), real) for root in roots)


def executed(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the files that this process and its children execute and read at their start."""
    own = Path(__file__).resolve().parents[3]
    found: dict[str, None] = dict.fromkeys(_SYSTEM_ROOTS)
    pythons = (str(own), *sys.path, sys.prefix, sys.base_prefix, os.path.dirname(sys.executable))
    for path in (*pythons, *os.get_exec_path()):
        if os.path.isabs(path) and os.path.realpath(path) != "/":
            found[path] = None
    for name, value in environment.items():
        if name.startswith("MCPHUB_") and name not in _OF_CHILDREN and value.startswith("/") and os.path.isfile(value):
            found[value] = None
    home = os.path.expanduser("~")
    with contextlib.suppress(OSError):
        found |= dict.fromkeys(entry.path for entry in os.scandir(home) if entry.name.startswith("."))
    return tuple(found)


def _around(path: str, hidden: list[str]) -> Iterator[str]:
    """Return the path, or the parts of it without anything hidden."""
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
    """Return a program, the targets of its links, the installation of each, and the interpreter of a script."""
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
    """Return the folder of libraries that a program in `bin` brings along, where its marks are those of one."""
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
    """Return the program that the first line of a script names; `env` is looked through."""
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
