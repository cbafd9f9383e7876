"""Deployment mistakes that the settings alone show, for `mcphub check --deploy` and `mcphub doctor`.

Each is a fact about the settings and a way to mend it. Checks that need the database or the machine are in doctor.py.
"""

from __future__ import annotations

from urllib.parse import urlsplit

from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.http.request import validate_host
from django.utils.translation import gettext as _

from sessions_app.kit.addresses import own_names

_LOOPBACK = {"localhost", "127.0.0.1", "::1", "[::1]"}


def _public_host() -> str:
    return urlsplit(settings.MCPHUB_PUBLIC_URL).hostname or ""


def _is_public() -> bool:
    return _public_host() not in _LOOPBACK


def is_host_under_test() -> bool:
    """Return whether a host project's tests run. Django's runner switches DEBUG off and adds a host, so what serves
    clients on the developer's machine looks like a mistake of a deployment then, and errors stop the tests.
    """
    return bool(settings.MCPHUB_EMBEDDED) and "testserver" in settings.ALLOWED_HOSTS


@register(Tags.security, deploy=True)
def anonymous_beyond_loopback(**options: object) -> list[CheckMessage]:
    if not (settings.MCPHUB_ALLOW_ANONYMOUS and _is_public()):
        return []
    return [
        Error(
            _("Callers without a key are served, and MCPHUB_PUBLIC_URL is not loopback."),
            hint=_("Unset MCPHUB_ALLOW_ANONYMOUS and create keys with `mcphub token create`."),
            id="mcphub.E001",
        )
    ]


@register(Tags.security)
def public_url_wellformed(**options: object) -> list[CheckMessage]:
    url = urlsplit(settings.MCPHUB_PUBLIC_URL)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        return [
            Error(
                _("MCPHUB_PUBLIC_URL is %(url)r.") % {"url": settings.MCPHUB_PUBLIC_URL},
                hint=_("Write scheme and host, such as https://hub.example."),
                id="mcphub.E002",
            )
        ]
    names = [host.strip("[]") for host in own_names()]
    if not is_host_under_test() and not validate_host(_public_host(), names):
        return [
            Error(
                _("Clients are sent to %(host)s, which the hub does not answer to.") % {"host": url.hostname},
                hint=_("Add %(host)s to %(variable)s.")
                % {"host": url.hostname, "variable": f"{'' if settings.MCPHUB_EMBEDDED else 'MCPHUB_'}ALLOWED_HOSTS"},
                id="mcphub.E003",
            )
        ]
    return []


@register(Tags.security, deploy=True)
def plain_http_in_public(**options: object) -> list[CheckMessage]:
    if not _is_public() or settings.MCPHUB_PUBLIC_URL.startswith("https://"):
        return []
    return [
        Warning(
            _("Keys and passwords travel in clear text: MCPHUB_PUBLIC_URL is plain HTTP."),
            hint=_("Put a proxy with TLS in front of it; set MCPHUB_PUBLIC_URL=https://… and MCPHUB_BEHIND_PROXY=1."),
            id="mcphub.W001",
        )
    ]


@register(Tags.security, deploy=True)
def proxy_that_is_not_trusted(**options: object) -> list[CheckMessage]:
    if not settings.MCPHUB_PUBLIC_URL.startswith("https://") or settings.SECURE_PROXY_SSL_HEADER is not None:
        return []
    return [
        Warning(
            "MCPHUB_PUBLIC_URL is HTTPS, and the hub itself speaks HTTP: no form can be sent through a proxy that it "
            "does not trust.",
            hint="Set MCPHUB_BEHIND_PROXY=1 if a proxy ends TLS before the hub.",
            id="mcphub.W003",
        )
    ]


@register()
def former_variables(**options: object) -> list[CheckMessage]:
    """Variables of bounds of 1.0.0, which MCPHUB_LIMITS replaces."""
    former = settings.MCPHUB_LIMITS.former
    if not former:
        return []
    return [
        Warning(
            _("%(names)s: replaced by MCPHUB_LIMITS; the old names work for two minor versions.")
            % {"names": ", ".join(former)},
            hint=_("Write %(line)s instead.") % {"line": f'MCPHUB_LIMITS="{", ".join(former.values())}"'},
            id="mcphub.W003",
        )
    ]


@register(Tags.security, deploy=True)
def any_host_or_origin(**options: object) -> list[CheckMessage]:
    found: list[CheckMessage] = []
    for name, values in (
        ("MCPHUB_ALLOWED_HOSTS", settings.ALLOWED_HOSTS),
        ("MCPHUB_ALLOWED_ORIGINS", settings.MCPHUB_ALLOWED_ORIGINS),
    ):
        if "*" in values:
            found.append(
                Warning(
                    _("%(name)s allows every origin, so any web page can call the hub from a browser.")
                    % {"name": name},
                    hint=_("List only the ones that you need."),
                    id="mcphub.W002",
                )
            )
    return found


@register(Tags.security, deploy=True)
def timeout_after_heartbeat(**options: object) -> list[CheckMessage]:
    if settings.MCPHUB_CALL_TIMEOUT_SECONDS > settings.MCPHUB_HEARTBEAT_SECONDS:
        return []
    return [
        Error(
            _("MCPHUB_CALL_TIMEOUT_SECONDS must be longer than the limit heartbeat_seconds."),
            hint=_("Raise the one or lower the other."),
            id="mcphub.E004",
        )
    ]


@register(Tags.database, deploy=True)
def connections_without_pool(**options: object) -> list[CheckMessage]:
    database = settings.DATABASES["default"]
    if not database.get("CONN_MAX_AGE"):
        return []
    return [
        Error(
            _("Persistent connections (conn_max_age) are kept by every thread of an asynchronous server."),
            hint=_("Take conn_max_age out of MCPHUB_DATABASE_URL; PostgreSQL connections are pooled."),
            id="mcphub.E005",
        )
    ]
