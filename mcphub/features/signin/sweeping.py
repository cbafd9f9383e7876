"""Periodic cleanup for signing in: expired codes and tokens, and unused clients."""

from __future__ import annotations

import math
import time

from django.conf import settings
from oauth2_provider.models import clear_expired

from mcphub.features.signin import clients

_EVERY_SECONDS = 600.0
_last = -math.inf  # a clock that begins with the machine may stand near zero


def sweep() -> None:
    if settings.MCPHUB_EMBEDDED:  # what is in these tables is the host's
        return
    global _last
    if time.monotonic() - _last >= _EVERY_SECONDS:
        _last = time.monotonic()
        clear_expired()
        clients.sweep()
