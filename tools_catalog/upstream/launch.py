"""Becomes a child process of the hub: sets its limits, then turns into the command. Standard library only.

Run as a script, isolated, with the limits as JSON and the command's words as arguments. It is a program of
its own because limits that a parent sets between fork and exec run in a copy of a process with threads.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys

_NO_PROGRAM = 127
"""What shells answer for a command that is not there."""


def main(words: list[str]) -> int:
    limits, *command = json.loads(words[0]), *words[1:]
    _close_inherited()
    for kind, value in (
        (resource.RLIMIT_AS, limits.get("memory_mb", 0) * 1024 * 1024),
        (resource.RLIMIT_CPU, limits.get("cpu_seconds", 0)),
        (resource.RLIMIT_NOFILE, limits.get("open_files", 0)),
        (resource.RLIMIT_CORE, -1),
    ):
        if value:
            wanted = 0 if value < 0 else value
            highest = resource.getrlimit(kind)[1]
            least = wanted if highest == resource.RLIM_INFINITY else min(wanted, highest)
            resource.setrlimit(kind, (least, least))
    os.umask(0o077)
    try:
        os.execvpe(command[0], command, os.environ)  # noqa: S606 - no shell is the point
    except OSError as error:
        print(f"{command[0]}: {error.strerror}", file=sys.stderr)
        return _NO_PROGRAM


def _close_inherited() -> None:
    """uvloop lets a child inherit its pipes a second time, and then nobody hears that it has closed them."""
    for name in os.listdir("/dev/fd"):  # not up to the limit of open files, which may be a thousand million
        if int(name) > 2:
            with contextlib.suppress(OSError):  # the listing itself
                os.close(int(name))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
