"""How a child is started: the launcher's words, the environment, and the folders, from a launch profile."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from sessions_app.protocol.errors import ConnectionFailed
from tools_catalog.upstream import children, scripts
from tools_catalog.upstream.confinement import launcher, machine, paths, seccomp
from tools_catalog.upstream.confinement.folders import ChildFolders
from tools_catalog.upstream.spec import LaunchSpec

_PASSED: Final = ("LANG", "LC_ALL", "PATH", "TZ")
"""Variables of the hub that every child gets: none of them is about the hub or its user."""
_OF_THE_USER: Final = ("HOME", "LOGNAME", "TMPDIR", "USER")
"""Also given to a child without a sandbox: it may use their targets."""


@dataclass(frozen=True, slots=True)
class Start:
    """`words` is the command line of the launcher; `folders` end with the child."""

    words: tuple[str, ...]
    environment: dict[str, str]
    folders: ChildFolders | None


def start_of(spec: LaunchSpec, rendered: Mapping[str, str]) -> Start:
    """Prepare the start of a child; `rendered` is the environment that its profile gives.

    Raises ConnectionFailed with the next step. Blocks for an instant.
    """
    if path := scripts.without_folder(spec.command, spec.arguments, spec.directory):
        raise ConnectionFailed(
            f"The launch profile {spec.name} names {path}, a relative path, and no directory in which it starts. Name "
            "the absolute path, or the directory."
        )
    names = (*_PASSED, *_OF_THE_USER) if spec.is_unconfined else _PASSED
    environment = {name: os.environ[name] for name in names if name in os.environ}
    rules = list(_limits(spec))
    folders = None
    if not spec.is_unconfined:
        if not machine.this_machine().can_confine:
            raise ConnectionFailed(machine.CANNOT)
        owner = _owner(spec)
        _check(spec)
        try:
            folders = ChildFolders.made(spec.folder, owner)
        except OSError as error:
            raise ConnectionFailed(
                f"The folder of the launch profile cannot be made: {error.strerror}: {error.filename}."
            ) from error
        environment |= {"HOME": folders.home, "TMPDIR": folders.temporary}
    environment |= rendered
    environment[children.MARK] = children.own_mark()
    directory = spec.directory or (folders.home if folders else os.getcwd())
    program = paths.program_of(spec.command, directory, environment)
    if folders is not None:
        rules += _confinement(spec, program, folders, environment)
        if owner is not None:
            rules.append(f"user={owner[0]}:{owner[1]}")
    rules.append(f"folder={directory}")
    words = (sys.executable, "-I", "-S", str(Path(launcher.__file__)), *rules, "--", program, spec.command)
    return Start((*words, *spec.arguments), environment, folders)


def _limits(spec: LaunchSpec) -> Iterator[str]:
    yield "core=0"
    for name, value in (
        ("memory", spec.memory_mb * 2**20),
        ("cpu", spec.cpu_seconds),
        ("files", spec.open_files),
        ("file-size", spec.file_mb * 2**20),
        ("processes", spec.max_processes),
    ):
        if value:
            yield f"{name}={value}"


def _confinement(spec: LaunchSpec, program: str, folders: ChildFolders, environment: dict[str, str]) -> Iterator[str]:
    yield "confined"
    yield f"sockets={seccomp.INTERNET if spec.network == spec.OPEN else seccomp.NO_NETWORK}"
    for path in spec.hidden:
        yield f"hidden={path}"
    directory = os.path.realpath(spec.directory) if spec.directory else ""
    writes = directory and not _problem_of_writable(directory, spec)
    reads = (*spec.readable, *([directory] if directory and not writes else []))
    for path in (*paths.read_only(program, spec.arguments, environment, spec.hidden), *reads):
        yield f"read={path}"
    for path in (folders.home, folders.temporary, *([directory] if writes else []), *spec.writable):
        yield f"write={os.path.realpath(path)}"
    for path in paths.DEVICES:
        yield f"device={path}"


def _check(spec: LaunchSpec) -> None:
    """Repeat the checks of saving the profile: files and links may have changed since."""
    for path in filter(None, (spec.directory, *spec.readable, *spec.writable)):
        problem = paths.problem_of(path, spec.hidden)
        if path in spec.writable:
            problem = problem or _problem_of_writable(path, spec)
        if problem:
            raise ConnectionFailed(f"The launch profile {spec.name}: {problem}")
        if not os.path.exists(path):
            raise ConnectionFailed(f"The launch profile {spec.name} names {path}, which is not there.")


def _problem_of_writable(path: str, spec: LaunchSpec) -> str:
    return paths.problem_of_writable(path, spec.hidden, spec.roots, paths.executed(os.environ))


def _owner(spec: LaunchSpec) -> tuple[int, int] | None:
    """Return the numbers of the user that the profile names, and of its group."""
    if not spec.user:
        return None
    if os.geteuid() != 0:
        raise ConnectionFailed(
            f"The launch profile {spec.name} names the user {spec.user}, but only a hub that runs as root can start "
            "a program as another user."
        )
    if spec.user.isdecimal():
        return int(spec.user), int(spec.user)
    try:
        found = pwd.getpwnam(spec.user)
    except KeyError:
        raise ConnectionFailed(
            f"The launch profile {spec.name} names the user {spec.user}, whom this machine does not know."
        ) from None
    return found.pw_uid, found.pw_gid
