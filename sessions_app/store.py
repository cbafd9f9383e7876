"""Sessions as every worker sees them: rows are the truth, a process keeps views of those that it serves.

A view says what never changes in a session's life. Whether it still lives is asked of the database: by the
ledger, in the transaction that records the call.
"""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from sessions_app import bus
from sessions_app.caller import Caller
from sessions_app.models import McpSession
from sessions_app.protocol import json
from sessions_app.protocol.errors import ServerBusy, SessionNotFound
from sessions_app.protocol.lifecycle import LifecycleError, SessionEvent, SessionState, advance

_LIVE = [SessionState.CREATED.value, SessionState.INITIALIZED.value]
_KEPT_VIEWS = 20_000
_IMPLICIT_PER_CALLER = 200
"""Client programs that one caller's history tells apart; further ones share a row."""
_IMPLICIT_LIFE = timedelta(days=30)
"""Without a call, after which the row of a stateless caller's program expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """What a worker needs of a session to serve a request of it."""

    session_id: str
    principal: str
    transport: str
    initialized: bool
    protocol_version: str
    client_name: str
    client_version: str
    client_capabilities: dict[str, Any]
    log_level: str

    @classmethod
    def of(cls, row: McpSession) -> SessionView:
        return cls(
            session_id=row.session_id, principal=row.principal, transport=row.transport,
            initialized=row.state == SessionState.INITIALIZED.value, protocol_version=row.protocol_version,
            client_name=row.client_name, client_version=row.client_version,
            client_capabilities=row.client_capabilities, log_level=row.log_level,
        )  # fmt: skip


class Sessions:
    """One a process."""

    def __init__(self) -> None:
        self._views: OrderedDict[str, SessionView] = OrderedDict()
        self._implicit: dict[tuple[str, str, str, str], str] = {}
        self._identities: dict[str, tuple[str, str, str, str]] = {}
        self.seen: set[str] = set()
        """Implicit sessions used since the last flush of their activity."""

    def forget(self, session_id: str) -> None:
        """Drop the view: the session ended or changed, here or in another process."""
        self._views.pop(session_id, None)
        identity = self._identities.pop(session_id, None)
        if identity is not None:
            self._implicit.pop(identity, None)

    async def open(self, caller: Caller, transport: str, **client: Any) -> SessionView:
        """Make a session of `caller`; an initialized one where `client` tells the negotiated `protocol_version`.

        A caller at its bound loses the session it used least recently. Raises ServerBusy at the hub's bound.
        """
        return self._keep(await database_sync_to_async(_open)(caller, transport, client))

    async def initialize(self, session_id: str, **client: Any) -> SessionView:
        """Take a created session through `initialize`; raise SessionNotFound where it has ended or did so before."""
        return self._keep(await database_sync_to_async(_initialize)(session_id, client))

    async def find(self, session_id: str, caller: Caller, transport: str) -> SessionView:
        """Give the caller's own session. Unknown, foreign and ended ones all raise SessionNotFound."""
        view = self._views.get(session_id)
        if view is None:
            view = await database_sync_to_async(_find)(session_id)
            if view is None:
                raise SessionNotFound
            self._keep(view)
        else:
            self._views.move_to_end(session_id)
        if view.principal != caller.principal or view.transport != transport:
            raise SessionNotFound
        return view

    async def end(self, session_id: str, event: SessionEvent = SessionEvent.CLOSE, reason: str = "") -> bool:
        """End a session; False where it had ended already. Every process hears of it."""
        self.forget(session_id)
        return await database_sync_to_async(end)([session_id], event, reason) > 0

    async def set_log_level(self, session_id: str, level: str) -> None:
        await database_sync_to_async(_set_log_level)(session_id, level)
        self.forget(session_id)

    async def implicit(
        self, caller: Caller, *, transport: str, client_name: str = "", client_version: str = "",
        protocol_version: str = "",
    ) -> str:  # fmt: skip
        """Give the id of the session that stands for a stateless caller and its client program."""
        identity = (caller.principal, transport, client_name[:200], client_version[:100])
        known = self._implicit.get(identity)
        if known is None:
            known = await database_sync_to_async(_implicit)(caller, identity[1:], protocol_version)
            if len(self._implicit) < _KEPT_VIEWS:
                self._implicit[identity] = known
                self._identities[known] = identity
        self.seen.add(known)
        return known

    def _keep(self, view: SessionView) -> SessionView:
        self._views[view.session_id] = view
        if len(self._views) > _KEPT_VIEWS:
            self._views.popitem(last=False)
        return view


def end(session_ids: list[str], event: SessionEvent, reason: str) -> int:
    return McpSession.objects.filter(session_id__in=session_ids).end(event, reason)


def sweep(limit: int = 1000) -> int:
    """Expire sessions that nobody used in time; give how many. A few at a time, so that no lock is long."""
    now = timezone.now()
    idle = McpSession.objects.filter(state__in=_LIVE, expires_at__lt=now).order_by("expires_at")
    ids = list(idle.values_list("session_id", flat=True)[:limit])
    return end(ids, SessionEvent.EXPIRE, "idle") if ids else 0


def touch(session_ids: list[str]) -> None:
    """Write the activity of implicit sessions, seen since the last call."""
    now = timezone.now()
    McpSession.objects.filter(session_id__in=session_ids, state__in=_LIVE).update(
        last_activity_at=now, expires_at=now + _IMPLICIT_LIFE
    )


def _idle() -> timedelta:
    return timedelta(seconds=settings.MCPHUB_SESSION_IDLE_SECONDS)


def _client(client: dict[str, Any]) -> dict[str, Any]:
    limits = {"client_name": 200, "client_version": 100}
    return {
        name: value[: limits[name]].replace("\x00", "") if name in limits else value for name, value in client.items()
    }


def _open(caller: Caller, transport: str, client: dict[str, Any]) -> SessionView:
    live = McpSession.objects.filter(state__in=_LIVE, is_implicit=False)
    own = live.filter(principal=caller.principal)
    surplus = own.count() + 1 - settings.MCPHUB_MAX_SESSIONS_PER_CALLER
    if surplus > 0:
        oldest = own.order_by("last_activity_at").values_list("session_id", flat=True)[:surplus]
        end(list(oldest), SessionEvent.EXPIRE, "too many sessions of this caller")
    elif live.count() >= settings.MCPHUB_MAX_SESSIONS:
        busy = ServerBusy("The hub holds as many sessions as it may. Close one, or try again later.")
        busy.retry_after_seconds = 30
        raise busy
    now = timezone.now()
    initialized = "protocol_version" in client
    row = McpSession(
        session_id=secrets.token_urlsafe(24), transport=transport, principal=caller.principal,
        caller_label=caller.label[:150], created_at=now, last_activity_at=now, expires_at=now + _idle(),
        state=(advance(SessionState.CREATED, SessionEvent.INITIALIZE) if initialized else SessionState.CREATED).value,
        initialized_at=now if initialized else None, **_client(client),
    )  # fmt: skip
    row.save(force_insert=True)
    return SessionView.of(row)


def _initialize(session_id: str, client: dict[str, Any]) -> SessionView:
    with transaction.atomic():
        row = McpSession.objects.select_for_update().filter(session_id=session_id).first()
        if row is None:
            raise SessionNotFound
        try:
            row.state = advance(SessionState(row.state), SessionEvent.INITIALIZE).value
        except LifecycleError as error:
            raise SessionNotFound("The session is initialized already, or has ended.") from error
        row.initialized_at = row.last_activity_at = timezone.now()
        for name, value in _client(client).items():
            setattr(row, name, value)
        row.save()
        bus.publish(bus.SESSION_CHANGED, session_id)
    return SessionView.of(row)


def _find(session_id: str) -> SessionView | None:
    if not session_id or len(session_id) > 64 or "\x00" in session_id:
        return None
    row = McpSession.objects.filter(
        session_id=session_id, state__in=_LIVE, is_implicit=False, expires_at__gt=timezone.now()
    ).first()
    return SessionView.of(row) if row else None


def _set_log_level(session_id: str, level: str) -> None:
    with transaction.atomic():
        McpSession.objects.filter(session_id=session_id, state__in=_LIVE).update(log_level=level)
        bus.publish(bus.SESSION_CHANGED, session_id)


def _implicit(caller: Caller, identity: tuple[str, str, str], protocol_version: str) -> str:
    transport, name, version = identity
    live = McpSession.objects.filter(principal=caller.principal, state=SessionState.CREATED.value, is_implicit=True)
    key = json.digest("\n".join((caller.principal, *identity)))
    known = live.filter(implicit_key=key).values_list("session_id", flat=True).first()
    if known:
        return known
    if name and live.count() >= _IMPLICIT_PER_CALLER:
        return _implicit(caller, (transport, "", ""), protocol_version)
    row = McpSession(
        session_id=secrets.token_urlsafe(24), transport=transport, principal=caller.principal,
        caller_label=caller.label[:150], is_implicit=True, implicit_key=key, protocol_version=protocol_version,
        expires_at=timezone.now() + _IMPLICIT_LIFE, **_client({"client_name": name, "client_version": version}),
    )  # fmt: skip
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:  # another worker was first
        return live.values_list("session_id", flat=True).get(implicit_key=key)
    return row.session_id
