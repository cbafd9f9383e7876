"""The filter of system calls of children, run as the kernel runs it."""

from __future__ import annotations

import errno
from collections.abc import Sequence

import pytest

from tools_catalog.upstream.confinement import seccomp, strict

OWN, OTHER = 4711, 4712
ALLOWED, KILLED = "allowed", "killed"
NUMBERS = {
    "x86_64": {"read": 0, "prlimit64": 302, "setpriority": 141, "ioprio_set": 251, "sched_setaffinity": 203,
               "sched_setscheduler": 144, "sched_setparam": 142, "sched_setattr": 314, "migrate_pages": 256,
               "move_pages": 279, "get_robust_list": 274, "clone": 56, "kill": 62, "ptrace": 101, "shmget": 29,
               "socket": 41, "process_mrelease": 448, "pidfd_getfd": 438},
    "aarch64": {"read": 63, "prlimit64": 261, "setpriority": 140, "ioprio_set": 30, "sched_setaffinity": 122,
                "sched_setscheduler": 119, "sched_setparam": 118, "sched_setattr": 274, "migrate_pages": 238,
                "move_pages": 239, "get_robust_list": 100, "clone": 220, "kill": 129, "ptrace": 117, "shmget": 194,
                "socket": 198, "process_mrelease": 448, "pidfd_getfd": 438},
}  # fmt: skip
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}


def verdict(
    machine: str, number: int, *arguments: int, architecture: int | None = None, lines: Sequence[seccomp.Line] = ()
) -> str:
    """Run the filter over one call."""
    lines = lines or seccomp.program(machine, seccomp.NO_NETWORK, OWN)
    words = {0: number, 4: ARCHITECTURES[machine] if architecture is None else architecture}
    words |= {16 + 8 * at: value & 0xFFFFFFFF for at, value in enumerate((*arguments, 0, 0, 0, 0, 0, 0)[:6])}
    loaded = at = 0
    while True:
        code, if_true, if_false, value = lines[at]
        at += 1
        if code == 0x20:
            loaded = words[value]
        elif code == 0x54:
            loaded &= value
        elif code == 0x06:
            kind = value & 0xFFFF0000
            return {0x7FFF0000: ALLOWED, 0x80000000: KILLED}.get(kind) or errno.errorcode[value & 0xFFFF]
        else:
            holds = {0x15: loaded == value, 0x35: loaded >= value, 0x45: bool(loaded & value)}[code]
            at += if_true if holds else if_false


machines = pytest.mark.parametrize("machine", list(NUMBERS))
TAKES_A_NUMBER = ("prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr",
                  "migrate_pages", "move_pages", "get_robust_list")  # fmt: skip


@machines
@pytest.mark.parametrize("name", TAKES_A_NUMBER)
def test_a_call_that_names_a_process_is_for_the_one_that_asks(machine: str, name: str) -> None:
    number = NUMBERS[machine][name]
    assert [verdict(machine, number, named) for named in (0, OWN)] == [ALLOWED] * 2
    for other in (OTHER, 1, -1, OWN + 2**20):
        assert verdict(machine, number, other) == "EPERM"


@machines
def test_a_priority_is_that_of_a_process_and_of_no_group_or_user(machine: str) -> None:
    for name, process in (("setpriority", 0), ("ioprio_set", 1)):
        number = NUMBERS[machine][name]
        assert verdict(machine, number, process, 0) == verdict(machine, number, process, OWN) == ALLOWED
        assert verdict(machine, number, process, OTHER) == "EPERM"
        for kind in {0, 1, 2, 3} - {process}:
            assert verdict(machine, number, kind, 0) == "EPERM"


@machines
def test_calls_into_other_processes_are_refused_whatever_they_name(machine: str) -> None:
    for name in ("ptrace", "shmget", "process_mrelease", "pidfd_getfd"):
        assert verdict(machine, NUMBERS[machine][name], OWN) == "EPERM"


@machines
def test_what_programs_need_is_allowed(machine: str) -> None:
    for name in ("read", "kill"):
        assert verdict(machine, NUMBERS[machine][name], OTHER) == ALLOWED
    assert verdict(machine, NUMBERS[machine]["clone"], 0x3D0F00) == ALLOWED  # a thread
    assert verdict(machine, NUMBERS[machine]["clone"], 0x8011) == "EPERM"  # a child of the parent
    assert verdict(machine, NUMBERS[machine]["clone"], 0x10000011) == "EPERM"  # another user namespace
    assert verdict(machine, NUMBERS[machine]["socket"], 2, 1) == "EACCES"


@machines
def test_calls_that_are_newer_than_the_filter_are_not_there(machine: str) -> None:
    for number in (468, 469, 500, 600, 0x40000000, 0x40000000 + 101, 0xFFFFFFFF):
        assert verdict(machine, number) == "ENOSYS"
    assert verdict(machine, 467) == "EPERM"  # open_tree_attr


@machines
def test_a_call_by_another_hardwares_numbers_ends_the_child(machine: str) -> None:
    assert verdict(machine, 0, architecture=0x40000003) == KILLED


@machines
def test_a_child_that_only_computes_reads_and_does_nothing_else(machine: str) -> None:
    lines = strict.program(machine)
    assert verdict(machine, NUMBERS[machine]["read"], lines=lines) == ALLOWED
    for name in NUMBERS[machine].keys() - {"read"}:
        assert verdict(machine, NUMBERS[machine][name], lines=lines) == "EPERM"
    assert verdict(machine, NUMBERS[machine]["read"] + 0x40000000, lines=lines) == "EPERM"
    assert verdict(machine, NUMBERS[machine]["read"], architecture=1, lines=lines) == KILLED
