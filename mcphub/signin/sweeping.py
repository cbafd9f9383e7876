"""What each process does now and then for signing in: codes and tokens that are over go, and clients nobody uses."""

from __future__ import annotations

import math
import time

from oauth2_provider.models import clear_expired

from mcphub.signin import clients

_EVERY_SECONDS = 600.0
_last = -math.inf  # a clock that begins with the machine may stand near zero


def sweep() -> None:
    global _last
    if time.monotonic() - _last >= _EVERY_SECONDS:
        _last = time.monotonic()
        clear_expired()
        clients.sweep()
