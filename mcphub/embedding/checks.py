"""Checks of a host project for `manage.py check`: missing or unfitting settings, each with the line to write."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.apps import apps
from django.conf import settings
from django.contrib.admin import AdminSite
from django.contrib.auth import get_user_model
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.core.exceptions import ImproperlyConfigured
from django.db.models import IntegerField, UUIDField
from django.urls import Resolver404, URLResolver, get_resolver, resolve
from django.utils.module_loading import import_string

from mcphub.checks import is_host_under_test
from mcphub.embedding.host import wanted

_LOCKED = Error(
    "SQLite has Django's defaults, with which calls fail now and then because the database is locked.",
    hint="Write `DATABASES['default']['OPTIONS'] = SQLITE_OPTIONS`, and "
    "`from mcphub.embedding import SQLITE_OPTIONS` above.",
    id="mcphub.E106",
)


@register()
def applications(**_: object) -> list[CheckMessage]:
    missing = [app for app in wanted() if not apps.is_installed(app)]
    if not missing:
        return []
    return [
        Error(
            f"INSTALLED_APPS lacks {', '.join(missing)}.",
            hint="Call `add_hub(globals())` after the last line that changes INSTALLED_APPS.",
            id="mcphub.E101",
        )
    ]


@register()
def database(**_: object) -> list[CheckMessage]:
    row = settings.DATABASES["default"]
    engine, options = row["ENGINE"], row.get("OPTIONS", {})
    if engine.endswith("sqlite3"):
        is_safe = options.get("transaction_mode") == "IMMEDIATE" and "wal" in options.get("init_command", "").lower()
        return [] if is_safe else [_LOCKED]
    if engine.endswith(("postgresql", "postgresql_psycopg2")):
        return []
    return [
        Error(
            f"The default database is {engine}; the hub runs on PostgreSQL and SQLite.",
            hint="Let DATABASES['default'] be one of these.",
            id="mcphub.E102",
        )
    ]


@register()
def users(**_: object) -> list[CheckMessage]:
    user = get_user_model()
    names = {field.name for field in user._meta.get_fields()}
    missing = sorted({"is_active", "is_superuser", "groups", "user_permissions"} - names)
    if not missing and isinstance(user._meta.pk, IntegerField | UUIDField):
        return []
    why = f"has no {', '.join(missing)}" if missing else "has a primary key that is neither an integer nor a UUID"
    return [
        Error(
            f"AUTH_USER_MODEL is {settings.AUTH_USER_MODEL}, which {why}.",
            hint="Add PermissionsMixin and is_active to it, or run the hub as a service of its own "
            "(docs/operate/deployment.md) and connect your project by HTTP.",
            id="mcphub.E103",
        )
    ]


@register()
def times(**_: object) -> list[CheckMessage]:
    if settings.USE_TZ:
        return []
    return [Error("USE_TZ is off; records need times with zones.", hint="Write USE_TZ = True.", id="mcphub.E104")]


@register()
def server(**_: object) -> list[CheckMessage]:
    """Read the text of the host's ASGI module, since an import would start the host's own work."""
    from mcphub.embedding.mounting import prefix

    try:
        path = prefix()
    except ImproperlyConfigured as error:
        return [Error(str(error), id="mcphub.E105")]
    found: list[CheckMessage] = []
    if not _mounts():
        found.append(
            Warning(
                "The ASGI module does not mount the hub, so that MCP clients find nothing.",
                hint="Write `application = mount(get_asgi_application())` there, and "
                "`from mcphub.embedding import mount` above.",
                id="mcphub.W101",
            )
        )
    try:
        resolve(f"{path}/mcp")
    except Resolver404:
        return found
    return [
        *found,
        Warning(
            f"A page of the project has the address {path}/mcp, which leads to the hub.",
            hint=f"Name another path in MCPHUB's PUBLIC_URL, which is {settings.MCPHUB_PUBLIC_URL}.",
            id="mcphub.W102",
        ),
    ]


@register(Tags.admin)
def pages(**_: object) -> list[CheckMessage]:
    """Look for an admin of the host with the hub's pages, where it has an admin at all."""
    from invocations.models import McpToolInvocation

    sites = set(_admin_sites(get_resolver().url_patterns))
    if not sites or any(site.is_registered(McpToolInvocation) for site in sites):
        return []
    return [
        Warning(
            f"No admin site of the project has the hub's pages: {', '.join(sorted(site.name for site in sites))}.",
            hint="Write `add_pages(site)` in an admin.py, with your site, and `from mcphub.embedding import add_pages` "
            "above.",
            id="mcphub.W104",
        )
    ]


def _admin_sites(patterns: Iterable[Any]) -> Iterator[AdminSite]:
    for each in patterns:
        if isinstance(each, URLResolver):
            yield from _admin_sites(each.url_patterns)
        elif isinstance(site := getattr(each.callback, "admin_site", None), AdminSite):
            yield site


@register()
def script_name(**_: object) -> list[CheckMessage]:
    if settings.FORCE_SCRIPT_NAME is None:
        return []
    return [
        Warning(
            "FORCE_SCRIPT_NAME is set, with which Django does not find the hub's REST at its prefix.",
            hint="Take FORCE_SCRIPT_NAME out, and let the server name the path: `uvicorn --root-path`.",
            id="mcphub.W105",
        )
    ]


def _mounts() -> bool:
    """Return whether the ASGI module beside ROOT_URLCONF mentions the hub; True where there is no such file to read."""
    named = getattr(settings, "ASGI_APPLICATION", "") or f"{settings.ROOT_URLCONF.rpartition('.')[0]}.asgi.application"
    package = import_string(f"{named.split('.')[0]}.__path__") if "." in named else None
    module = Path(next(iter(package or [""])), *named.split(".")[1:-1]).with_suffix(".py")
    return not module.is_file() or "mount(" in module.read_text()


@register()
def secure(**_: object) -> list[CheckMessage]:
    if (
        settings.DEBUG
        or is_host_under_test()
        or urlsplit(settings.MCPHUB_PUBLIC_URL).hostname not in ("127.0.0.1", "localhost")
    ):
        return []
    return [
        Warning(
            f"DEBUG is off, and MCPHUB's PUBLIC_URL is {settings.MCPHUB_PUBLIC_URL}, where only this machine's clients "
            "find the hub.",
            hint='Write MCPHUB = {"PUBLIC_URL": "https://shop.example/hub"}.',
            id="mcphub.W103",
        )
    ]


def refuse_errors() -> None:
    """Raise ImproperlyConfigured for what the hub cannot run with: a server starts without `manage.py check`."""
    for error in [*applications(), *database(), *users(), *times()]:
        raise ImproperlyConfigured(f"{error.msg} {error.hint}")
