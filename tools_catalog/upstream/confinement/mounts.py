"""Mounts of the child's own, with the hub's hidden paths read-only: nobody changes a mode, an owner or a time there.

Landlock does not look at these, and to the kernel a child of the hub's user owns the hub's files. Needs a mount
namespace: root may make one, others within a user namespace, where the machine admits that.
"""

from __future__ import annotations

import os

from tools_catalog.upstream.confinement import kernel

_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_READ_ONLY, _REMOUNT, _BIND, _RECURSIVE, _SLAVE = 1, 32, 4096, 16384, 1 << 19
_KEPT = {2: 2, 4: 4, 8: 8, 1024: 1024, 2048: 2048, 4096: 1 << 21}
"""Flags of statvfs -> flags of mount: those that another mount than root's own may not drop."""


def can_protect() -> bool:
    """Return whether this machine lets this user make such mounts. Tried in a copy of the process, which has one
    thread.
    """
    child = os.fork()
    if child == 0:
        try:
            _own_mounts()
            _bind("/", read_only=True)
        except OSError:
            os._exit(1)
        os._exit(0)
    return os.waitpid(child, 0)[1] == 0


def protect(hidden: list[str], writable: list[str]) -> None:
    """Make the hidden paths read-only for this process and its children, except those in `writable`."""
    _own_mounts()
    hidden = [path for path in map(os.path.realpath, hidden) if os.path.exists(path)]
    for path in hidden:
        if not any(_is_in(path, each) for each in hidden):
            _bind(path, read_only=True)
    for path in map(os.path.realpath, writable):
        if os.path.isdir(path) and any(_is_in(path, each) for each in hidden):
            _bind(path, read_only=False)


def _own_mounts() -> None:
    if os.geteuid() == 0:
        kernel.unshare(_NEW_MOUNTS)
    else:
        uid, gid = os.geteuid(), os.getegid()
        kernel.unshare(_NEW_MOUNTS | _NEW_USER)
        for name, words in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(words)
    # What is unmounted on the machine goes here too; nothing goes the other way.
    kernel.mount("none", "/", _RECURSIVE | _SLAVE)


def _is_in(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _bind(path: str, *, read_only: bool) -> None:
    kernel.mount(path, path, _BIND | _RECURSIVE)  # else the kernel refuses what has mounts in it
    found = os.statvfs(path).f_flag
    kept = sum(flag for told, flag in _KEPT.items() if found & told)
    kernel.mount("none", path, _BIND | _REMOUNT | kept | (_READ_ONLY if read_only else 0))
