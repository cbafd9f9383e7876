"""System calls that Python has no function for. Linux; the launcher imports this, so it imports almost nothing."""

from __future__ import annotations

import ctypes
import os

_libc = ctypes.CDLL(None, use_errno=True)

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_GET_SECCOMP = 21
PR_SET_SECCOMP = 22
PR_CAPBSET_READ = 23
PR_CAPBSET_DROP = 24
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4
_CAPABILITY_VERSION = 0x20080522


def syscall(number: int, *arguments: object) -> int:
    """Make a system call; raise OSError where it fails."""
    return _checked(_libc.syscall(ctypes.c_long(number), *map(_passed, arguments)))


def prctl(option: int, *arguments: object) -> int:
    """Change or ask something of this process; raise OSError where it fails. Omitted arguments are zero."""
    four = (*arguments, 0, 0, 0, 0)[:4]
    return _checked(_libc.prctl(ctypes.c_int(option), *map(_passed, four)))


def unshare(flags: int) -> None:
    """Leave namespaces for new ones."""
    _checked(_libc.unshare(ctypes.c_int(flags)))


def mount(source: str, target: str, flags: int) -> None:
    """Mount without a file system of its own: bind, or change an existing mount."""
    _checked(_libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(flags), None))


def be_undumpable() -> None:
    """Keep processes of the same user from reading this one's memory, environment and open files in /proc."""
    prctl(PR_SET_DUMPABLE, 0)


def drop_capabilities() -> None:
    """Drop this process's root capabilities, inheritable ones included."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
    _checked(_libc.capset(ctypes.byref(header), ctypes.byref((ctypes.c_uint32 * 6)())))


def _passed(argument: object) -> object:
    return ctypes.c_ulong(argument) if isinstance(argument, int) else argument


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
