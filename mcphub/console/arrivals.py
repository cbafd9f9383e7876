"""Events at the hub before a call: sessions that clients open, and rejected requests."""

from __future__ import annotations

import time
from datetime import datetime, timedelta

from django.contrib.admin.utils import quote
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _

from sessions_app.kit.shown import clipped
from sessions_app.models import ApiKey, McpSession
from sessions_app.protocol import json
from sessions_app.refused_requests import PLACEHOLDER, RefusedRequest

_LOOK_SECONDS = 0.8
_MOST = 20
"""Of a kind, in one look."""
_BACK = timedelta(minutes=15)
"""How far back a stream that is taken up again may begin."""


class Arrivals:
    """The newest sessions and refusals, each once. Its method runs on any thread, one at a time."""

    def __init__(self, principal: str, *, sessions: bool, since: str) -> None:
        now = timezone.now()
        try:
            moment = parse_datetime(since) or now
        except ValueError:
            moment = now
        moment = timezone.make_aware(moment) if timezone.is_naive(moment) else moment
        self._since = max(moment, now - _BACK)
        self._principal = principal
        self._sessions = sessions
        self._told: dict[str, int] = {}
        self._looked = 0.0

    def look(self) -> bytes:
        """Return new events, querying the database about once a second."""
        if time.monotonic() - self._looked < _LOOK_SECONDS:
            return b""
        self._looked = time.monotonic()
        return b"".join([*self._opened(), *self._refused()])

    def _opened(self) -> list[bytes]:
        if not self._sessions:
            return []
        rows = McpSession.objects.filter(created_at__gt=self._since).exclude(transport="admin")
        if self._principal:
            rows = rows.filter(principal=self._principal)
        return [
            _event(
                "session",
                {
                    "key": f"s{row.pk}",
                    "client": clipped(f"{row.client_name} {row.client_version}".strip(), 80),
                    "caller": clipped(row.caller_label or row.principal, 80),
                    "version": row.protocol_version,
                    "transport": row.get_transport_display(),
                    "at": _clock(row.created_at),
                    "link": reverse("admin:sessions_app_mcpsession_change", args=[quote(row.pk)]),
                },
            )
            for row in rows.order_by("-created_at")[:_MOST]
            if self._is_new(f"s{row.pk}", 1)
        ]

    def _refused(self) -> list[bytes]:
        rows = RefusedRequest.objects.filter(last_at__gt=self._since).order_by("-last_at")[:_MOST]
        return [
            _event(
                "refusal",
                {
                    "key": f"r{row.pk}",
                    "status": row.status,
                    "path": clipped(row.path, 80),
                    "count": row.count,
                    "address": row.address,
                    "agent": clipped(row.agent, 80),
                    "said": clipped(row.reason, 300),
                    "advice": advice(row),
                    "at": _clock(row.last_at),
                },
            )
            for row in rows
            if self._is_new(f"r{row.pk}", row.count)
        ]

    def _is_new(self, key: str, count: int) -> bool:
        if self._told.get(key) == count:
            return False
        self._told[key] = count
        return True


def advice(row: RefusedRequest) -> str:
    """Return the next step after a rejected request."""
    if row.status == 401:
        return _about_key(row.key_prefix)
    if row.status == 403 and row.code == "forbidden" and row.origin:
        return _(
            "A browser page of %(origin)s made the request. To allow it, start the hub with --cors %(origin)s."
        ) % {"origin": clipped(row.origin, 100)}
    if row.status == 403:
        return _("The key is valid but lacks a scope. Create one that has it.")
    if row.status == 421:
        return _("Add the host to MCPHUB_ALLOWED_HOSTS, or use the hub's public address. Does a proxy pass on Host?")
    if row.status == 404 and row.code == "session_not_found":
        return _("The session has ended. Restart the client so that it opens a new one.")
    if row.status == 404:
        return _("Nothing exists at this address. MCP is at /mcp, and at /sse for clients older than 2025.")
    if row.status == 405:
        return _("The address doesn't accept this method: is an HTTP+SSE client pointed at /mcp, or the reverse?")
    return _("The hub's response describes the problem with the request.")


def _about_key(prefix: str) -> str:
    if not prefix:
        return _(
            "The request had no key. Clients that sign in start this way and continue automatically. With a "
            "key, the header must be: Authorization: Bearer, a space, and the key. Does a proxy drop it?"
        )
    if prefix == PLACEHOLDER:
        return _("The request contained the placeholder. Replace it with your key, here or in the client.")
    key = ApiKey.objects.filter(prefix=prefix).first()
    if key is None:
        return _("This hub never issued that key. Was it copied in full, and from this hub?")
    name = {"name": clipped(key, 100)}
    if key.revoked_at is not None:
        return _("The key %(name)s is revoked. Create another.") % name
    if not key.is_usable():
        return _("The key %(name)s has expired. Create another.") % name
    return _("The key %(name)s doesn't match: it was rotated, or not copied in full.") % name


def _clock(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%H:%M:%S")


def _event(kind: str, data: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(data))
