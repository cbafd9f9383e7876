"""The shipping process: `python -m mcphub.features.audit_export.process`, started where a target is switched on.

A process of its own, as sealing is: compressing, encrypting and waiting for others take nothing from calls. Each
target has a thread, so one that is away holds none of the others up. It ends when its input ends, or when no target
is left. It writes its messages to the hub's log as JSON lines: [level, sentence].
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys

TAKEN = 3
"""Exit status: another process ships."""
_LOOK_SECONDS = 1.0
_LAST_SECONDS = 8.0
"""At the end, for deliveries under way."""


def _work() -> int:
    from django.db import Error, connection

    from invocations.chain.process import say
    from mcphub.features.audit_export import service
    from mcphub.features.audit_export.delivering import ShippedTarget, follow
    from sessions_app.kit.database import Dedicated

    database = Dedicated()
    lease = service.lease_on(database)
    running: dict[int, ShippedTarget] = {}
    failures: tuple[type[Exception], ...] = (Error, OSError, *service.raw_errors())
    while True:
        try:
            if not lease.take():
                return TAKEN
            follow(running, say)
            if not running:
                return 0
        except failures as error:
            say("warning", f"Shipping waits for the database: {str(error).strip() or type(error).__name__}")
            database.close()
            connection.close()
        if select.select([sys.stdin], [], [], _LOOK_SECONDS)[0]:
            break
    for each in running.values():
        each.ending.set()
    for each in running.values():
        each.thread.join(_LAST_SECONDS)
    return 0


def main() -> int:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # of a terminal, for the hub; our end is that of the input
    with contextlib.suppress(OSError):
        os.nice(5)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "mcphub.settings")
    import django

    django.setup()
    from tools_catalog.upstream.confinement.kernel import be_undumpable

    with contextlib.suppress(OSError, AttributeError):  # only Linux has it
        be_undumpable()  # it holds secrets of targets
    return _work()


if __name__ == "__main__":
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    status = main()
    sys.stdout.flush()
    os._exit(status)  # threads that wait for a receiver must not hold the end up
