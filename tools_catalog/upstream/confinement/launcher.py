"""Becomes a child process of the hub: confines itself, then turns into the command.

Run as a script, isolated: `launcher.py RULE=VALUE … -- PROGRAM WORDS`, where the words begin with the name that the
program is called by. It is a program of its own because rules that a parent sets between fork and exec run in a
copy of a process with threads. It imports as little as it can: each start of a child waits for it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import sys

_NO_PROGRAM, _NOT_CONFINED = 127, 126
"""The exit statuses of shells for a missing command, and for one that may not be run."""
_LIMITS = {
    "memory": resource.RLIMIT_AS,
    "cpu": resource.RLIMIT_CPU,
    "files": resource.RLIMIT_NOFILE,
    "file-size": resource.RLIMIT_FSIZE,
    "core": resource.RLIMIT_CORE,
}


def main(words: list[str]) -> int:
    end = words.index("--")
    program, *command = words[end + 1 :]
    rules: dict[str, list[str]] = {}
    for word in words[:end]:
        name, _, value = word.partition("=")
        rules.setdefault(name, []).append(value)
    if "can-protect" in rules:
        return _can_protect()
    _close_inherited()
    os.umask(0o077)
    reason = "its limits cannot be set"
    try:
        for name, kind in _LIMITS.items():
            _limit(kind, rules.get(name))
        if "confined" in rules:
            reason = "the kernel cannot confine it"
            for reason, confine in _steps(rules):  # noqa: B007 - said where one fails
                confine()
        else:
            _limit(resource.RLIMIT_NPROC, rules.get("processes"))
        for folder in rules.get("folder", ()):
            reason = f"the folder {folder} cannot be entered"
            os.chdir(folder)
    except OSError as error:
        print(f"mcphub: the child was not started, as {reason}: {error.strerror}.", file=sys.stderr)
        return _NOT_CONFINED
    try:
        os.execve(program, command, os.environ)  # noqa: S606 - no shell is the point
    except OSError as error:
        print(f"{command[0]}: {error.strerror}: {program!r}", file=sys.stderr)
        return _NO_PROGRAM


def _can_protect() -> int:
    _find_packages()
    from tools_catalog.upstream.confinement import mounts

    return 0 if mounts.can_protect() else _NOT_CONFINED


def _find_packages() -> None:
    sys.path.append(os.path.dirname(os.path.abspath(__file__)).removesuffix("/tools_catalog/upstream/confinement"))


def _steps(rules: dict[str, list[str]]):  # type: ignore[no-untyped-def]  # typing takes milliseconds to import
    """Return the steps that sandbox this process, in order, with their error messages."""
    _find_packages()
    from tools_catalog.upstream.confinement import kernel, landlock, mounts, seccomp

    sockets = rules["sockets"][0]
    if "hidden" in rules and mounts.can_protect():
        writable = rules.get("write", [])
        yield "what the hub hides cannot be made read-only", lambda: mounts.protect(rules["hidden"], writable)
    yield "it cannot give up new privileges", lambda: kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    if landlock.abi() == 0:
        raise OSError(0, "the kernel has no Landlock")
    files = landlock.Rules(limits_tcp=sockets != seccomp.INTERNET)
    for name, rights in (("read", landlock.READ), ("write", landlock.WRITE), ("device", landlock.DEVICE)):
        for path in rules.get(name, ()):
            files.allow(path, rights)
    yield "Landlock refuses its rules", files.apply
    if os.geteuid() == 0:
        yield "its capabilities cannot be dropped", lambda: _bound_capabilities(kernel)
    user = rules.get("user")
    if user:
        uid, gid = map(int, user[0].split(":"))
        yield f"it cannot become the user {uid}", lambda: _become(uid, gid)
    yield "its capabilities cannot be dropped", kernel.drop_capabilities
    yield "its processes cannot be limited", lambda: _limit(resource.RLIMIT_NPROC, rules.get("processes"))
    if seccomp.is_known():
        refuses = files.abi < landlock.TRUNCATION
        yield "the filter of system calls is refused", lambda: seccomp.apply(sockets, refuses_truncate=refuses)


def _limit(kind: int, wanted: list[str] | None) -> None:
    if wanted:
        highest = resource.getrlimit(kind)[1]
        least = int(wanted[0]) if highest == resource.RLIM_INFINITY else min(int(wanted[0]), highest)
        resource.setrlimit(kind, (least, least))


def _bound_capabilities(kernel) -> None:  # type: ignore[no-untyped-def]
    """Keep programs started from here on from gaining root's capabilities."""
    kernel.prctl(kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL)
    for capability in range(64):
        try:
            held = kernel.prctl(kernel.PR_CAPBSET_READ, capability)
        except OSError:  # beyond the last one
            return
        if held:
            kernel.prctl(kernel.PR_CAPBSET_DROP, capability)


def _become(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _close_inherited() -> None:
    """uvloop lets a child inherit its pipes a second time, and then closing them goes unnoticed."""
    for name in os.listdir("/dev/fd"):  # not up to the limit of open files, which may be a thousand million
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing itself
                os.close(int(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
