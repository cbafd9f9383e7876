"""A client's description of itself, in its registration or its metadata document: bounds, and safe texts."""

from __future__ import annotations

import ipaddress
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.db.models import Q
from django.utils import timezone
from oauth2_provider.models import Application
from oauth2_provider.settings import oauth2_settings

from sessions_app.history import events
from sessions_app.history.events import Actor
from sessions_app.history.models import AuditEvent
from sessions_app.kit.addresses import network_of
from sessions_app.kit.shown import clipped
from sessions_app.protocol.json import Json

MOST_REDIRECTS = 20
LONGEST_REDIRECT = 500
LONGEST_NAME = 100
UNUSED_FOR = timedelta(days=1)
"""A client that nobody allowed anything is removed so long after it came."""
REGISTRATIONS_A_MINUTE = 60
"""Of all networks together."""
REGISTRATIONS_OF_A_NETWORK = ((timedelta(minutes=1), 15), (timedelta(days=1), 200))
"""An address, or 64 bits of IPv6, so that one network does not use up what is there for all."""
REGISTERED = "client.registered"
_MOST_RECORDED, _LONGEST_RECORDED = 3, 60
"""Events stay for ever, and strangers cause these."""

_LOOPBACK = ("localhost", "127.0.0.1", "::1")


class ClientRefused(ValueError):
    """The client's description of itself is unacceptable; the message is the reason."""

    def __init__(self, words: str, error: str = "invalid_client_metadata") -> None:
        super().__init__(words)
        self.error = error


def checked_redirects(value: Json) -> list[str]:
    """Return the addresses that a login may lead back to; raise ClientRefused."""
    error = "invalid_redirect_uri"
    if not isinstance(value, list) or not value or len(value) > MOST_REDIRECTS:
        raise ClientRefused(f"redirect_uris must be an array of 1 to {MOST_REDIRECTS} addresses.", error)
    for address in value:
        if not isinstance(address, str) or len(address) > LONGEST_REDIRECT or not _may_lead_to(address):
            raise ClientRefused(
                "A redirect URI is https, http on 127.0.0.1, [::1] or localhost, or has the scheme of a known "
                f"application. It has at most {LONGEST_REDIRECT} characters, no blanks and no fragment.",
                error,
            )
    return [str(address) for address in value]


def checked_name(value: Json) -> str:
    """Return a name that people can read as it is; raise ClientRefused."""
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ClientRefused("client_name must be a string.")
    return clipped(value.strip(), LONGEST_NAME)[: 2 * LONGEST_NAME]


def is_local(redirect_uri: str) -> bool:
    """Return whether a login leads back to a program on the person's own machine, which another program can pretend to
    be.
    """
    parts = urlsplit(redirect_uri)
    return parts.scheme != "https" or is_loopback(parts.hostname)


def is_loopback(host: str | None) -> bool:
    try:
        return host in _LOOPBACK or ipaddress.ip_address(host or "").is_loopback
    except ValueError:
        return False


def target_of(redirect_uri: str) -> str:
    """Return the target of the redirect for display: a host, or the scheme of an application."""
    parts = urlsplit(redirect_uri)
    return parts.hostname or "" if parts.scheme in ("http", "https") else f"{parts.scheme}:"


def must_wait(address: str) -> int:
    """Return after how many seconds an address may register a client; 0: now.

    This machine has no bound of its own: its programs are not strangers, nor is a proxy that passes on no addresses
    all of them.
    """
    network = network_of(address)
    if not network or is_loopback(address):
        return 0
    for span, most in REGISTRATIONS_OF_A_NETWORK:
        since = timezone.now() - span
        since_then = AuditEvent.objects.filter(happened_at__gt=since).order_by("happened_at")
        first = since_then.values_list("id", flat=True).first()
        if first is None:
            continue
        # By number, so that the index of kinds leads past the events of before.
        recent = AuditEvent.objects.filter(kind=REGISTERED, id__gte=first, actor_label=network, happened_at__gt=since)
        times = list(recent.order_by("-id").values_list("happened_at", flat=True)[:most])
        if len(times) == most:
            return max(1, int((times[-1] - since).total_seconds()) + 1)
    return 0


def record(client: Application, address: str) -> None:
    """Leave the event of a registration. Of its own words it keeps a part: the hosts that a login may lead to."""
    targets = sorted({target_of(each)[:_LONGEST_RECORDED] for each in client.redirect_uris.split()})
    events.record(
        REGISTERED,
        actor=Actor("anonymous", network_of(address)),
        model=Application,
        subject=client.pk,
        label=client.name[:_LONGEST_RECORDED],
        after={"targets": targets[:_MOST_RECORDED], "redirects": len(client.redirect_uris.split()), "address": address},
    )


def make_room() -> bool:
    """Return whether another client may be kept; the oldest that nobody uses make room for it."""
    rows = _self_made()
    if rows.filter(created__gt=timezone.now() - timedelta(minutes=1)).count() >= REGISTRATIONS_A_MINUTE:
        return False
    beyond = rows.count() - settings.MCPHUB_MAX_CLIENT_REGISTRATIONS + 1
    if beyond > 0:
        old = _unused().order_by("created").values_list("pk", flat=True)[:beyond]
        Application.objects.filter(pk__in=list(old)).delete()
    return bool(rows.count() < settings.MCPHUB_MAX_CLIENT_REGISTRATIONS)


def sweep() -> int:
    """Remove clients that came by themselves and were allowed nothing; give the count."""
    old = _unused().filter(created__lt=timezone.now() - UNUSED_FOR).values_list("pk", flat=True)[:1000]
    return int(Application.objects.filter(pk__in=list(old)).delete()[0])


def _self_made() -> Any:  # the toolkit has no types
    return Application.objects.exclude(registration_source=Application.RegistrationSource.MANUAL)


def _unused() -> Any:
    return _self_made().filter(Q(consents=None) & Q(grant=None))


def _may_lead_to(address: str) -> bool:
    try:
        parts = urlsplit(address)
        host, _port = parts.hostname, parts.port
    except ValueError:
        return False
    if not address.isascii() or not address.isprintable() or " " in address or "#" in address or "@" in parts.netloc:
        return False
    if parts.scheme == "https":
        return bool(host)
    if parts.scheme == "http":
        return host in _LOOPBACK
    return bool(parts.scheme in oauth2_settings.ALLOWED_REDIRECT_URI_SCHEMES)
