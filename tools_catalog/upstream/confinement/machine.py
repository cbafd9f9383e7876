"""The parts of a launch profile's sandbox that this machine supports. Found at run time: kernels and containers
differ.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from django.utils.translation.trans_null import gettext_noop  # the other one asks for settings, which not all have

from tools_catalog.upstream.confinement import landlock, launcher, seccomp
from tools_catalog.upstream.spec import LaunchSpec

_TRY_SECONDS = 5


@dataclass(frozen=True, slots=True)
class Machine:
    """`landlock_abi` is 0 where the kernel has no Landlock."""

    landlock_abi: int
    filters_calls: bool
    is_root: bool
    makes_mounts: bool
    """A child can have mounts of its own, in which the hub's data is read-only."""

    @property
    def can_confine(self) -> bool:
        return self.landlock_abi >= landlock.FILES


@dataclass(frozen=True, slots=True)
class Held:
    """One thing that a child may not do, in words; `is_held` is false where nothing keeps it from doing so."""

    subject: str
    is_held: bool
    how: str


CANNOT = gettext_noop(
    "This machine cannot confine a child process: its kernel has no Landlock (Linux 5.13 or newer, with landlock among "
    "the security modules). Run the hub on one that has, or let a superuser mark the launch profile as unconfined."
)


@functools.cache
def this_machine() -> Machine:
    """Ask the kernel, once in a process: it does not change."""
    abi = landlock.abi()
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    return Machine(abi, seccomp.is_known(), is_root, abi >= landlock.FILES and _makes_mounts())


def _makes_mounts() -> bool:
    """Try it in a program of its own: this process has threads."""
    words = [sys.executable, "-I", "-S", str(Path(launcher.__file__)), "can-protect", "--", "-"]
    try:
        return subprocess.run(words, capture_output=True, timeout=_TRY_SECONDS, check=False).returncode == 0  # noqa: S603
    except (OSError, subprocess.TimeoutExpired):
        return False


def held(spec: LaunchSpec, machine: Machine) -> Iterator[Held]:
    """Return the parts of a profile's sandbox that hold on a machine, and the missing ones."""
    if spec.is_unconfined:
        yield Held("files, network, processes", False, "a superuser marked the profile as unconfined")
        yield _limits(spec, machine)
        return
    if not machine.can_confine:
        yield Held("files, network, processes", False, CANNOT)
        return
    abi = machine.landlock_abi
    yield Held("files", True, f"Landlock, version {abi}: its own folders, what its profile names, the system read-only")
    if not spec.user and machine.is_root:
        yield Held("user", False, "it runs as root without capabilities; name a user of its own in the profile")
    yield _network(spec, machine)
    if abi >= landlock.SCOPES:
        yield Held("processes", True, "Landlock: no signal, no trace, no abstract socket beyond its own processes")
    elif spec.user:
        yield Held("processes", True, "a user of its own; Landlock keeps it from tracing others")
    else:
        yield Held(
            "processes", False, f"Landlock, version {abi}, does not keep it from signals to processes of the hub's user"
        )
    yield Held(
        "system calls",
        machine.filters_calls,
        "a filter without mounts, namespaces, kernel keys, tracing and unix sockets"
        if machine.filters_calls
        else f"no filter is known for {os.uname().machine}",
    )
    yield _modes(spec, machine)
    yield _limits(spec, machine)


def _modes(spec: LaunchSpec, machine: Machine) -> Held:
    subject = "modes and owners of files"
    if machine.makes_mounts:
        return Held(subject, True, "mounts of its own, in which the hub's data is read-only")
    if spec.user:
        return Held(subject, True, "a user of its own, to whom no file of the hub belongs")
    return Held(
        subject,
        False,
        "it may change modes of the hub's files, as this machine lets the hub make no mount namespace; name a user of "
        "its own in the profile",
    )


def _network(spec: LaunchSpec, machine: Machine) -> Held:
    if spec.network == spec.OPEN:
        return Held("network", False, "open by its profile: also to this machine's own services")
    if machine.filters_calls:
        return Held("network", True, "none: the filter of system calls refuses sockets")
    if machine.landlock_abi >= landlock.TCP:
        return Held("network", False, "no TCP, by Landlock; nothing here keeps it from UDP")
    return Held("network", False, "nothing here keeps it from the network")


def _limits(spec: LaunchSpec, machine: Machine) -> Held:
    bounds = (("memory", spec.memory_mb), ("processor time", spec.cpu_seconds), ("processes", spec.max_processes))
    missing = [name for name, value in bounds if not value]
    if missing:
        return Held("limits", False, f"the profile sets none for {', '.join(missing)}")
    if machine.is_root and not spec.user:
        return Held("limits", False, "the kernel does not limit the processes of root")
    return Held("limits", True, "memory, processor time, processes, open files, file size")
