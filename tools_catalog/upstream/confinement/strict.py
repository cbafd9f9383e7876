"""A filter of system calls for a child that only computes: it reads and writes what it has open, and nothing else."""

from __future__ import annotations

import errno
import os

from tools_catalog.upstream.confinement import landlock, seccomp

_COMPUTES = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "fstat": 5, "lseek": 8, "readv": 19, "writev": 20,
        "mmap": 9, "mprotect": 10, "munmap": 11, "brk": 12, "mremap": 25, "madvise": 28,
        "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sigaltstack": 131,
        "sched_yield": 24, "futex": 202, "nanosleep": 35, "clock_nanosleep": 230, "restart_syscall": 219,
        "getpid": 39, "gettid": 186, "gettimeofday": 96, "time": 201, "clock_gettime": 228, "clock_getres": 229,
        "getrusage": 98, "times": 100, "getrandom": 318, "membarrier": 324, "rseq": 334,
        "exit": 60, "exit_group": 231,
    },
    "aarch64": {
        "read": 63, "write": 64, "close": 57, "fstat": 80, "lseek": 62, "readv": 65, "writev": 66,
        "mmap": 222, "mprotect": 226, "munmap": 215, "brk": 214, "mremap": 216, "madvise": 233,
        "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "sigaltstack": 132,
        "sched_yield": 124, "futex": 98, "nanosleep": 101, "clock_nanosleep": 115, "restart_syscall": 128,
        "getpid": 172, "gettid": 178, "gettimeofday": 169, "clock_gettime": 113, "clock_getres": 114,
        "getrusage": 165, "times": 153, "getrandom": 278, "membarrier": 283, "rseq": 293,
        "exit": 93, "exit_group": 94,
    },
}  # fmt: skip
"""Machine -> the system calls that remain. All others end in EPERM: no file can be opened, no socket made, no process
started, signalled or looked into, no limit raised."""


def give_up_all() -> None:
    """Renounce all files, sockets and processes for good. What is open stays open. Needs `no_new_privs`.

    Raises OSError where the kernel cannot enforce it.
    """
    if not seccomp.is_known():
        raise OSError(errno.ENOSYS, "no filter of system calls is known for this machine")
    landlock.Rules(limits_tcp=True).apply()
    seccomp.install(program(os.uname().machine))


def program(machine: str) -> list[seccomp.Line]:
    """Return the filter for a machine."""
    return seccomp.only(machine, list(_COMPUTES[machine].values()))
