"""The number of files this process may open, and the resulting bounds on connections and streams."""

from __future__ import annotations

import contextlib
import resource
from typing import Final

from django.conf import settings

_LEAST_RESERVE: Final = 256
"""Descriptors that no client's connection takes: for the database, upstreams, children and files."""
_STREAMS_SHARE: Final = 0.75
"""Streams never end by themselves: so much of all connections they may hold, and the rest is for requests."""


def raise_limit() -> None:
    """Let this process, and the workers it starts, open as many files as the system allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with contextlib.suppress(ValueError, OSError):  # macOS refuses what is above its own bound
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def most_connections() -> int:
    """Return how many connections a process takes: the setting, as far as descriptors reach."""
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted: int = settings.MCPHUB_MAX_CONNECTIONS
    if descriptors == resource.RLIM_INFINITY:
        return wanted
    return max(1, min(wanted, descriptors - max(_LEAST_RESERVE, descriptors // 8)))


def most_streams() -> int:
    """Return how many listening streams a process takes: the setting, as far as connections reach."""
    return max(1, min(settings.MCPHUB_MAX_STREAMS, int(most_connections() * _STREAMS_SHARE)))
