"""A signal that stops a process while it starts.

Python drops an exception that a signal handler raises inside a finalizer or a weak reference's callback, as imports
and database connections run them by the thousand: one start in 25 went on. So the signal is kept, and asked for where
the start ends.
"""

from __future__ import annotations

import signal
from typing import NoReturn

NUMBERS = (signal.SIGTERM, signal.SIGINT)

_received: list[int] = []


def at_once() -> None:
    """From here on, a signal ends the process with status 0 by SystemExit."""
    for number in NUMBERS:
        signal.signal(number, _leave)


def if_signalled() -> None:
    """Raise SystemExit if a signal came since `at_once`. Call it after the handlers that follow are set."""
    if _received:
        raise SystemExit(0)


def _leave(number: int, _: object) -> NoReturn:
    _received.append(number)
    raise SystemExit(0)
