"""Landlock: a process gives up files, TCP ports, signals and sockets for good, itself and all that it starts.

https://docs.kernel.org/userspace-api/landlock.html. A kernel's features follow from the version of its interface
(ABI): 1 files, 2 moving them, 3 truncating, 4 TCP by port, 5 ioctl of devices, 6 signals and abstract sockets.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys

from tools_catalog.upstream.confinement import kernel

FILES, TRUNCATION, TCP, SCOPES = 1, 3, 4, 6
"""The ABI from which each is known."""

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH, _NET_PORT = 1, 2
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE = 1 << 6, 1 << 11
_TRUNCATE, _DEVICE_IOCTL = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_IOCTL
"""The rights that a rule about a file, which is no folder, may name."""
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1
_RIGHTS_BY_ABI = ((1, 1 << 13), (2, 1 << 14), (3, 1 << 15), (5, 1 << 16))
"""From this ABI on all rights of files are below this bit."""

READ = _EXECUTE | _READ_FILE | _READ_DIRECTORY
WRITE = (1 << 16) - 1 & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE)
"""Everything in a folder but making devices."""
DEVICE = _READ_FILE | _WRITE_FILE | _DEVICE_IOCTL


class _Ruleset(ctypes.Structure):
    _fields_ = [("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scoped", ctypes.c_uint64)]


class _PathBeneath(ctypes.Structure):
    _pack_ = 1
    _layout_ = "ms"  # what _pack_ means, said as Python 3.14 wants it
    _fields_ = [("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32)]


class _NetPort(ctypes.Structure):
    _fields_ = [("allowed", ctypes.c_uint64), ("port", ctypes.c_uint64)]


def abi() -> int:
    """Return the version of the kernel's interface; 0 where it has none, or it is switched off."""
    if sys.platform != "linux":
        return 0
    try:
        return kernel.syscall(_CREATE_RULESET, None, 0, 1)
    except OSError:
        return 0


class Rules:
    """Files and TCP ports that stay allowed. `apply` gives up all others; that needs `no_new_privs`."""

    def __init__(self, *, limits_tcp: bool) -> None:
        self.abi = abi()
        self._handled = max(bit for least, bit in _RIGHTS_BY_ABI if least <= max(self.abi, 1)) - 1
        self._tcp = (_BIND_TCP | _CONNECT_TCP) if limits_tcp and self.abi >= TCP else 0
        scoped = (_ABSTRACT_SOCKETS | _SIGNALS) if self.abi >= SCOPES else 0
        size = 8 if self.abi < TCP else 16 if self.abi < SCOPES else 24
        self._ruleset = kernel.syscall(
            _CREATE_RULESET, ctypes.byref(_Ruleset(self._handled, self._tcp, scoped)), size, 0
        )

    def allow(self, path: str, rights: int) -> None:
        """Allow everything beneath a path; a missing or inaccessible one stays so."""
        try:
            found = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            return
        try:
            if rights == WRITE and os.readlink(f"/proc/self/fd/{found}") != path:
                raise OSError(errno.ELOOP, "a link leads elsewhere since the hub looked", path)
            if not stat.S_ISDIR(os.fstat(found).st_mode):
                rights &= _OF_FILES
            rule = _PathBeneath(rights & self._handled, found)
            kernel.syscall(_ADD_RULE, self._ruleset, _PATH_BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(found)

    def allow_connect(self, port: int) -> None:
        if self._tcp:
            kernel.syscall(_ADD_RULE, self._ruleset, _NET_PORT, ctypes.byref(_NetPort(_CONNECT_TCP, port)), 0)

    def apply(self) -> None:
        kernel.syscall(_RESTRICT_SELF, self._ruleset, 0)
        os.close(self._ruleset)
