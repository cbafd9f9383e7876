"""The hub as applications of another Django project. The public surface is here; docs/integrate/embedding.md has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcphub.embedding.host import APPS, add_hub
from mcphub.given import SQLITE_OPTIONS

__all__ = ["APPS", "SQLITE_OPTIONS", "add_hub", "mount"]

Application = Callable[[Any, Any, Any], Awaitable[None]]


def mount(application: Application) -> Application:
    """Return an ASGI application with the hub at the path of MCPHUB_PUBLIC_URL and `application` elsewhere.

    Call it after `get_asgi_application()`: the hub's models must be loaded.
    """
    from mcphub.embedding.mounting import Mounted

    return Mounted(application)
