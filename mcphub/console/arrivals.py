"""What reaches the hub before a call does: sessions that clients open, and requests that the hub refuses."""

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
        """Give the events of what is new, asking the database about once a second."""
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
    """Say what to do about a refusal."""
    if row.status == 401:
        return _about_key(row.key_prefix)
    if row.status == 403 and row.code == "forbidden" and row.origin:
        return _("A browser's page of %(origin)s asked. Start the hub with --cors %(origin)s to let it.") % {
            "origin": clipped(row.origin, 100)
        }
    if row.status == 403:
        return _("The key is known and lacks a scope. Make one that has it.")
    if row.status == 421:
        return _("Name the host in MCPHUB_ALLOWED_HOSTS, or use the hub's public address. Does a proxy pass on Host?")
    if row.status == 404 and row.code == "session_not_found":
        return _("The session has ended. Start the client again, so that it opens a new one.")
    if row.status == 404:
        return _("Nothing is served there. MCP is at /mcp, and at /sse for clients of before 2025.")
    if row.status == 405:
        return _("The address is right for another method: is a client for HTTP+SSE pointed at /mcp, or the reverse?")
    return _("The hub's answer tells what is wrong with the request.")


def _about_key(prefix: str) -> str:
    if not prefix:
        return _(
            "No key came. A client that signs in begins so, and goes on by itself. With a key the header must read: "
            "Authorization: Bearer, a blank, and the key. Does a proxy drop it?"
        )
    if prefix == PLACEHOLDER:
        return _("The placeholder came instead of a key. Put your key in its place, here or in the client.")
    key = ApiKey.objects.filter(prefix=prefix).first()
    if key is None:
        return _("A key came that this hub never made. Was it copied whole, and from this hub?")
    name = {"name": clipped(key, 100)}
    if key.revoked_at is not None:
        return _("The key %(name)s is revoked. Make another.") % name
    if not key.is_usable():
        return _("The key %(name)s has expired. Make another.") % name
    return _("The key %(name)s has another text: it was rotated, or not copied whole.") % name


def _clock(moment: datetime) -> str:
    return timezone.localtime(moment).strftime("%H:%M:%S")


def _event(kind: str, data: dict[str, object]) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), json.dumps(data))
