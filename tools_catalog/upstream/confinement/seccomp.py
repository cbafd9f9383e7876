"""A filter of system calls that no MCP server needs and that reach past files: other processes, the kernel, sockets.

The filter is a program of the kernel's classic BPF: loads, comparisons, verdicts. It is written here because the
bindings of libseccomp need the C library, which slim images do not have.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from tools_catalog.upstream.confinement import kernel

NO_NETWORK, STREAMS, INTERNET = "none", "streams", "internet"
"""Families of sockets: none; TCP alone; TCP, UDP and netlink. Unix sockets are in none of them: that of a database or
of a container engine is a way out."""

_REFUSED = {
    "x86_64": {
        # into other processes
        "ptrace": 101, "process_vm_readv": 310, "process_vm_writev": 311, "process_madvise": 440, "kcmp": 312,
        "pidfd_getfd": 438, "process_mrelease": 448,
        # memory, semaphores and queues that others of the user name by number
        "shmget": 29, "shmat": 30, "shmctl": 31, "shmdt": 67, "semget": 64, "semop": 65, "semctl": 66,
        "semtimedop": 220, "msgget": 68, "msgsnd": 69, "msgrcv": 70, "msgctl": 71, "mq_open": 240, "mq_unlink": 241,
        # keys of the kernel
        "add_key": 248, "request_key": 249, "keyctl": 250,
        # into the kernel
        "bpf": 321, "userfaultfd": 323, "perf_event_open": 298, "io_uring_setup": 425, "io_uring_enter": 426,
        "io_uring_register": 427, "init_module": 175, "finit_module": 313, "delete_module": 176, "kexec_load": 246,
        "kexec_file_load": 320, "iopl": 172, "ioperm": 173, "modify_ldt": 154, "lookup_dcookie": 212, "syslog": 103,
        # mounts and namespaces
        "mount": 165, "umount2": 166, "pivot_root": 155, "chroot": 161, "unshare": 272, "setns": 308, "fsopen": 430,
        "fsconfig": 431, "fsmount": 432, "fspick": 433, "open_tree": 428, "move_mount": 429, "mount_setattr": 442,
        "open_tree_attr": 467, "name_to_handle_at": 303, "open_by_handle_at": 304, "fanotify_init": 300,
        # the machine
        "reboot": 169, "swapon": 167, "swapoff": 168, "sethostname": 170, "setdomainname": 171, "acct": 163,
        "quotactl": 179, "quotactl_fd": 443, "settimeofday": 164, "clock_settime": 227, "clock_adjtime": 305,
        "adjtimex": 159, "vhangup": 153,
    },
    "aarch64": {
        "ptrace": 117, "process_vm_readv": 270, "process_vm_writev": 271, "process_madvise": 440, "kcmp": 272,
        "pidfd_getfd": 438, "process_mrelease": 448,
        "shmget": 194, "shmat": 196, "shmctl": 195, "shmdt": 197, "semget": 190, "semop": 193, "semctl": 191,
        "semtimedop": 192, "msgget": 186, "msgsnd": 189, "msgrcv": 188, "msgctl": 187, "mq_open": 180, "mq_unlink": 181,
        "add_key": 217, "request_key": 218, "keyctl": 219,
        "bpf": 280, "userfaultfd": 282, "perf_event_open": 241, "io_uring_setup": 425, "io_uring_enter": 426,
        "io_uring_register": 427, "init_module": 105, "finit_module": 273, "delete_module": 106, "kexec_load": 104,
        "kexec_file_load": 294, "lookup_dcookie": 18, "syslog": 116,
        "mount": 40, "umount2": 39, "pivot_root": 41, "chroot": 51, "unshare": 97, "setns": 268, "fsopen": 430,
        "fsconfig": 431, "fsmount": 432, "fspick": 433, "open_tree": 428, "move_mount": 429, "mount_setattr": 442,
        "open_tree_attr": 467, "name_to_handle_at": 264, "open_by_handle_at": 265, "fanotify_init": 262,
        "reboot": 142, "swapon": 224, "swapoff": 225, "sethostname": 161, "setdomainname": 162, "acct": 89,
        "quotactl": 60, "quotactl_fd": 443, "settimeofday": 170, "clock_settime": 112, "clock_adjtime": 266,
        "adjtimex": 171, "vhangup": 58,
    },
}  # fmt: skip
"""Machine -> system calls that end in EPERM. Numbers are for ever: arch/x86/entry/syscalls/syscall_64.tbl and
include/uapi/asm-generic/unistd.h."""
_OF_PROCESS = {
    "x86_64": {
        "prlimit64": 302, "sched_setaffinity": 203, "sched_setscheduler": 144, "sched_setparam": 142,
        "sched_setattr": 314, "migrate_pages": 256, "move_pages": 279, "get_robust_list": 274,
    },
    "aarch64": {
        "prlimit64": 261, "sched_setaffinity": 122, "sched_setscheduler": 119, "sched_setparam": 118,
        "sched_setattr": 274, "migrate_pages": 238, "move_pages": 239, "get_robust_list": 100,
    },
}  # fmt: skip
"""Calls that change, or look into, the process that the first argument names. To the kernel a child of the hub's user
may do so to the hub: end it by a limit of processor time, or its audit by one of file sizes."""
_OF_KIND = {"x86_64": {"setpriority": (141, 0), "ioprio_set": (251, 1)},
            "aarch64": {"setpriority": (140, 0), "ioprio_set": (30, 1)}}  # fmt: skip
"""The same, for calls whose first argument defines the kind of the second one; the number that means a process."""
_LAST = 467
"""The last system call that was judged here. To a child, later system calls of the kernel do not exist."""
_CLONE3 = 435
_OTHERS = {
    "x86_64": {"clone": 56, "socket": 41, "socketpair": 53, "truncate": 76},
    "aarch64": {"clone": 220, "socket": 198, "socketpair": 199, "truncate": 45},
}
_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_CLONED = 0x7E028080
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET, NEWTIME; and CLONE_PARENT, a child of the hub."""
_UNIX, _INET, _INET6, _NETLINK = 1, 2, 10, 16
_SOCK_STREAM, _SOCK_DGRAM, _SOCK_TYPE = 1, 2, 0xF

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_KILL, _ALLOW, _ERRNO = 0x80000000, 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16
_SET_MODE_FILTER = 2


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("instructions", ctypes.POINTER(_Instruction))]


Line = tuple[int, int, int, int]
"""Code, lines to skip if true, if false, value."""


def is_known() -> bool:
    """Return whether this machine's system calls can be filtered."""
    if sys.platform != "linux" or os.uname().machine not in _REFUSED:
        return False
    try:
        kernel.prctl(kernel.PR_GET_SECCOMP)
    except OSError:
        return False
    return sys.maxsize > 2**32


def apply(sockets: str, *, refuses_truncate: bool) -> None:
    """Filter this process and all that it starts, for good. Needs `no_new_privs`."""
    install(program(os.uname().machine, sockets, os.getpid(), refuses_truncate=refuses_truncate))


def install(lines: list[Line]) -> None:
    """Filter this process and all that it starts by a program, for good. Needs `no_new_privs`."""
    array = (_Instruction * len(lines))(*(_Instruction(*line) for line in lines))
    kernel.prctl(kernel.PR_SET_SECCOMP, _SET_MODE_FILTER, ctypes.byref(_Program(len(lines), array)))


def program(machine: str, sockets: str, own: int, *, refuses_truncate: bool = False) -> list[Line]:
    """Return the filter for a machine and the process of number `own`.

    Landlock refuses to truncate a file by its name only from ABI 3 on. Numbers past the last one that is known here,
    among them those of another interface of x86-64, by which every refused call has a second name, are not there.
    """
    other = _OTHERS[machine]
    lines: list[Line] = [*_of_machine(machine), (_AT_LEAST, 0, 1, _LAST + 1), _refuse(errno.ENOSYS)]
    refused = [*_REFUSED[machine].values(), *([other["truncate"]] if refuses_truncate else [])]
    for number in refused:
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
    # Its flags stand in memory, which a filter cannot read; C libraries go back to clone.
    lines += [(_EQUAL, 0, 1, _CLONE3), (_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]
    lines += _when(other["clone"], [_argument(0), (_ANY_BIT, 0, 1, _CLONED), _refuse(errno.EPERM)])
    for number in _OF_PROCESS[machine].values():
        lines += _when(number, _itself(0, own))
    for number, process in _OF_KIND[machine].values():
        kind: list[Line] = [_argument(0), (_EQUAL, 1, 0, process), _refuse(errno.EPERM)]
        lines += _when(number, [*kind, *_itself(1, own)])
    lines += _when(other["socket"], _of_sockets(sockets))
    # A datagram socket can be pointed at any unix socket that has a name; a pair of streams cannot.
    pair: list[Line] = [
        *_typed(_SOCK_DGRAM, when_so=_refuse(errno.EACCES)),
        _argument(0),
        (_EQUAL, 1, 0, _UNIX),
        _refuse(errno.EACCES),
    ]
    lines += _when(other["socketpair"], pair)
    return [*lines, (_RETURN, 0, 0, _ALLOW)]


def only(machine: str, numbers: list[int]) -> list[Line]:
    """Return the filter that allows these system calls of a machine and refuses all others with EPERM."""
    allowed = [line for number in numbers for line in ((_EQUAL, 0, 1, number), (_RETURN, 0, 0, _ALLOW))]
    return [*_of_machine(machine), *allowed, _refuse(errno.EPERM)]


def _of_machine(machine: str) -> list[Line]:
    """End a process that calls by the numbers of another machine, and load the number of the call."""
    return [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]


def _of_sockets(sockets: str) -> list[Line]:
    families = {NO_NETWORK: (), STREAMS: (_INET, _INET6), INTERNET: (_INET, _INET6, _NETLINK)}[sockets]
    lines: list[Line] = []
    if sockets == STREAMS:
        lines = [_argument(1), (_AND, 0, 0, _SOCK_TYPE), (_EQUAL, 1, 0, _SOCK_STREAM), _refuse(errno.EACCES)]
    lines.append(_argument(0))
    for family in families:
        lines += [(_EQUAL, 0, 1, family), (_RETURN, 0, 0, _ALLOW)]
    return [*lines, _refuse(errno.EACCES)]


def _itself(position: int, own: int) -> list[Line]:
    """Refuse calls that name another process than the caller: allow 0, or the number of the started program."""
    return [_argument(position), (_EQUAL, 2, 0, 0), (_EQUAL, 1, 0, own), _refuse(errno.EPERM)]


def _typed(kind: int, *, when_so: Line) -> list[Line]:
    return [_argument(1), (_AND, 0, 0, _SOCK_TYPE), (_EQUAL, 0, 1, kind), when_so]


def _when(number: int, lines: list[Line]) -> list[Line]:
    """Judge one call; the calls that its lines pass continue with the number loaded again."""
    judged = [*lines, (_LOAD, 0, 0, _NUMBER)]
    return [(_EQUAL, 0, len(judged), number), *judged]


def _argument(position: int) -> Line:
    return (_LOAD, 0, 0, _ARGUMENTS + 8 * position)  # its lower half: both machines are little-endian


def _refuse(number: int) -> Line:
    return (_RETURN, 0, 0, _ERRNO | number)
