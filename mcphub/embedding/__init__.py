"""The hub as applications of another Django project. The public surface is here; docs/integrate/embedding.md has it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from mcphub.embedding.host import APPS, add_hub
from mcphub.given import SQLITE_OPTIONS

if TYPE_CHECKING:
    from django.contrib.admin import AdminSite

__all__ = ["APPS", "SQLITE_OPTIONS", "add_hub", "add_pages", "mount"]

Application = Callable[[Any, Any, Any], Awaitable[None]]


def add_pages(site: AdminSite) -> None:
    """Add the hub's pages to an admin site of yours: calls, approvals, tools, connections, keys, sessions and history.

    Django's own `admin.site` has them already. Call it in an `admin.py`.
    """
    from mcphub.embedding.pages import register

    register(site)


def mount(application: Application) -> Application:
    """Return an ASGI application with the hub at the path of MCPHUB_PUBLIC_URL and `application` elsewhere.

    Call it after `get_asgi_application()`: the hub's models must be loaded.
    """
    from mcphub.embedding.mounting import Mounted

    return Mounted(application)
