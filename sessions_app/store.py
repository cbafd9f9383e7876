"""Sessions as every worker sees them: rows are the truth, a process keeps views of those that it serves.

A view holds facts that never change in a session's life. Whether it still lives is asked of the database: by the
ledger, in the transaction that records the call.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, TypeVar

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import IntegrityError, OperationalError, transaction
from django.db.models import QuerySet
from django.utils import timezone

from sessions_app import bus
from sessions_app.caller import Caller
from sessions_app.kit.batching import Batcher
from sessions_app.models import McpSession
from sessions_app.protocol import json
from sessions_app.protocol.errors import AlreadyInitialized, AuditUnavailable, ServerBusy, SessionNotFound
from sessions_app.protocol.json import Json
from sessions_app.protocol.lifecycle import LifecycleError, SessionEvent, SessionState, advance

logger = logging.getLogger(__name__)

_Found = TypeVar("_Found")

_LIVE = [SessionState.CREATED.value, SessionState.INITIALIZED.value]
_KEPT_VIEWS = 20_000
_COUNT_SECONDS = 1.0
"""For so long a count of live sessions is good, away from the bound; opening does not become slow with their number."""
_IMPLICIT_PER_CALLER = 200
"""Client programs distinguished per caller; further ones share a row."""
_IMPLICIT_LIFE = timedelta(days=30)
"""Without a call, after which the row of a stateless caller's program expires."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionView:
    """A worker's facts about a session for serving a request."""

    session_id: str
    principal: str
    transport: str
    initialized: bool
    protocol_version: str
    client_name: str
    client_version: str
    client_capabilities: dict[str, Any]
    log_level: str
    sources: list[Any] = field(default_factory=list, compare=False, repr=False)
    """The call source that was built last for it, if any: it goes with the view when the session ends."""

    @classmethod
    def of(cls, row: McpSession) -> SessionView:
        return cls(
            session_id=row.session_id,
            principal=row.principal,
            transport=row.transport,
            initialized=row.state == SessionState.INITIALIZED.value,
            protocol_version=row.protocol_version,
            client_name=row.client_name,
            client_version=row.client_version,
            client_capabilities=row.client_capabilities,
            log_level=row.log_level,
        )


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A session that somebody waits for."""

    caller: Caller
    transport: str
    client: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _ClientProgram:
    """A client program of a stateless caller."""

    caller: Caller
    transport: str
    name: str
    version: str
    protocol_version: str

    @property
    def key(self) -> str:
        return json.digest("\n".join((self.caller.principal, self.transport, self.name, self.version)))


class Sessions:
    """One a process."""

    def __init__(self) -> None:
        self._opened = Batcher(_Room().open, "mcphub-sessions")
        self._stood_for = Batcher(_stand_for, "mcphub-implicit-sessions")
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

    async def open(self, caller: Caller, transport: str, **client: object) -> SessionView:
        """Create a session of `caller`; an initialized one if `client` has the negotiated `protocol_version`.

        A caller at its bound loses the session it used least recently. Raises ServerBusy at the hub's bound.
        """
        return self._keep(await _soon(self._opened.submit(_Wanted(caller, transport, client))))

    async def initialize(self, session_id: str, **client: object) -> SessionView:
        """Take a created session through `initialize`; raise SessionNotFound where it has ended.

        Raises AlreadyInitialized where it has been through it.
        """
        return self._keep(await _soon(database_sync_to_async(_initialize)(session_id, client)))

    async def find(self, session_id: str, caller: Caller, transport: str) -> SessionView:
        """Return the caller's own session. Unknown, foreign and ended ones all raise SessionNotFound."""
        view = self._views.get(session_id)
        if view is None:
            view = await _soon(database_sync_to_async(_find)(session_id))
            if view is None:
                raise SessionNotFound
            self._keep(view)
        else:
            self._views.move_to_end(session_id)
        if view.principal != caller.principal or view.transport != transport:
            raise SessionNotFound
        return view

    async def end(self, session_id: str, event: SessionEvent = SessionEvent.CLOSE, reason: str = "") -> bool:
        """End a session; False where it had ended already. Every process is notified."""
        self.forget(session_id)
        return await database_sync_to_async(end)([session_id], event, reason) > 0

    async def set_log_level(self, session_id: str, level: str) -> None:
        await database_sync_to_async(_set_log_level)(session_id, level)
        self.forget(session_id)

    async def implicit(
        self,
        caller: Caller,
        *,
        transport: str,
        client_name: str = "",
        client_version: str = "",
        protocol_version: str = "",
    ) -> str:
        """Return the id of the session that stands for a stateless caller and its client program."""
        identity = (caller.principal, transport, client_name[:200], client_version[:100])
        known = self._implicit.get(identity)
        if known is None:
            known = await _soon(self._stood_for.submit(_ClientProgram(caller, *identity[1:], protocol_version)))
            if len(self._implicit) < _KEPT_VIEWS:
                self._implicit[identity] = known
                self._identities[known] = identity
        self.seen.add(known)
        return known

    def recall(self, session_id: str) -> bool:
        """Count an implicit session as used now; False where it has to be asked for again."""
        if session_id not in self._identities:
            return False
        self.seen.add(session_id)
        return True

    def _keep(self, view: SessionView) -> SessionView:
        self._views[view.session_id] = view
        if len(self._views) > _KEPT_VIEWS:
            self._views.popitem(last=False)
        return view


async def _soon(asked: Awaitable[_Found]) -> _Found:
    """Wait for the database as long as a call waits for the ledger; raise AuditUnavailable after that.

    Started work continues, since a thread cannot be called back.
    """
    task = asyncio.ensure_future(asked)
    done, _ = await asyncio.wait({task}, timeout=settings.MCPHUB_LEDGER_TIMEOUT_SECONDS)
    if done:
        return task.result()
    task.add_done_callback(lambda late: late.cancelled() or late.exception())
    raise AuditUnavailable("The hub's database does not answer, so there is no session. Try again.")


def end(session_ids: list[str], event: SessionEvent, reason: str) -> int:
    return McpSession.objects.filter(session_id__in=session_ids).end(event, reason)


def end_of(principals: Collection[str], reason: str) -> int:
    """End the live sessions of callers that may no longer call; return the number."""
    return McpSession.objects.filter(principal__in=principals, state__in=_LIVE).end(SessionEvent.CLOSE, reason)


def sweep(limit: int = 1000) -> int:
    """Expire sessions that nobody used in time; give how many. A few at a time, so that no lock is long."""
    now = timezone.now()
    idle = McpSession.objects.filter(state__in=_LIVE, expires_at__lt=now).order_by("expires_at")
    ids = list(idle.values_list("session_id", flat=True)[:limit])
    return end(ids, SessionEvent.EXPIRE, "idle") if ids else 0


def expire_due() -> None:
    """Expire due sessions for a list that is about to be read; the sweeper comes later.

    A database that takes no writes now does not keep anybody from reading.
    """
    try:
        sweep()
    except OperationalError as error:
        logger.warning("Sessions that are due could not be expired before they were listed: %s", error)


def touch(session_ids: list[str]) -> None:
    """Write the activity of implicit sessions, seen since the last call."""
    now = timezone.now()
    McpSession.objects.filter(session_id__in=session_ids, state__in=_LIVE).update(
        last_activity_at=now, expires_at=now + _IMPLICIT_LIFE
    )


def _idle() -> timedelta:
    return timedelta(seconds=settings.MCPHUB_SESSION_IDLE_SECONDS)


def _client(client: dict[str, Json]) -> dict[str, Json]:
    limits = {"client_name": 200, "client_version": 100}
    return {
        name: value[: limits[name]].replace("\x00", "") if name in limits else value for name, value in client.items()
    }


class _Room:
    """Opens sessions within the bounds, many in one transaction. Used by one thread at a time."""

    def __init__(self) -> None:
        self._counted: dict[str, tuple[float, int]] = {}
        """Principal, or none for the hub -> when its live sessions were counted, and how many there were."""
        self._new: list[McpSession] = []

    def open(self, batch: Sequence[_Wanted]) -> list[SessionView | Exception]:
        try:
            with transaction.atomic():
                rows = [self._admitted(wanted) for wanted in batch]
                self._insert()
        except Exception as error:
            self._counted.clear()
            self._new = []
            if len(batch) == 1:
                return [error]
            return [view for wanted in batch for view in self.open([wanted])]
        return [SessionView.of(row) if isinstance(row, McpSession) else row for row in rows]

    def _admitted(self, wanted: _Wanted) -> McpSession | ServerBusy:
        principal = wanted.caller.principal
        live = McpSession.objects.filter(state__in=_LIVE, is_implicit=False)
        own = live.filter(principal=principal)
        surplus = self._count(principal, settings.MCPHUB_MAX_SESSIONS_PER_CALLER, own.count) + 1
        surplus -= settings.MCPHUB_MAX_SESSIONS_PER_CALLER
        if surplus > 0:
            oldest = own.order_by("last_activity_at").values_list("session_id", flat=True)[:surplus]
            end(list(oldest), SessionEvent.EXPIRE, "too many sessions of this caller")
        elif self._count("", settings.MCPHUB_MAX_SESSIONS, live.count) >= settings.MCPHUB_MAX_SESSIONS:
            busy = ServerBusy("The hub holds as many sessions as it may. Close one, or try again later.")
            busy.retry_after_seconds = 30
            return busy
        for whose in (principal, ""):
            at, known = self._counted.get(whose, (0.0, 0))
            self._counted[whose] = at, known + 1
        row = _row(wanted)
        self._new.append(row)
        return row

    def _insert(self) -> None:
        new, self._new = self._new, []
        McpSession.objects.bulk_create(new)

    def _count(self, whose: str, bound: int, count: Callable[[], int]) -> int:
        at, known = self._counted.get(whose, (0.0, bound))
        now = time.monotonic()
        if known >= bound * 0.9 or now - at > _COUNT_SECONDS:
            if len(self._counted) > _KEPT_VIEWS:
                self._counted.clear()
            self._insert()  # those of this batch count too
            known = count()
            self._counted[whose] = now, known
        return known


def _row(wanted: _Wanted) -> McpSession:
    now = timezone.now()
    initialized = "protocol_version" in wanted.client
    state = advance(SessionState.CREATED, SessionEvent.INITIALIZE) if initialized else SessionState.CREATED
    return McpSession(
        session_id=secrets.token_urlsafe(24),
        transport=wanted.transport,
        principal=wanted.caller.principal,
        caller_label=wanted.caller.label[:150],
        created_at=now,
        last_activity_at=now,
        expires_at=now + _idle(),
        state=state.value,
        initialized_at=now if initialized else None,
        **_client(wanted.client),
    )


def _initialize(session_id: str, client: dict[str, Json]) -> SessionView:
    with transaction.atomic():
        row = McpSession.objects.select_for_update().filter(session_id=session_id).first()
        if row is None:
            raise SessionNotFound
        try:
            row.state = advance(SessionState(row.state), SessionEvent.INITIALIZE).value
        except LifecycleError as error:
            if error.state == SessionState.INITIALIZED:
                raise AlreadyInitialized from error
            raise SessionNotFound from error
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


def _stand_for(programs: Sequence[_ClientProgram]) -> list[str | Exception]:
    """Return the session of each program; make those that are missing in one transaction, always in one order."""
    rows = _standing().filter(implicit_key__in={each.key for each in programs})
    found: dict[str, str | Exception] = {str(row.implicit_key): row.pk for row in rows}
    missing = {each.key: each for each in programs if each.key not in found}
    try:
        with transaction.atomic():
            found.update({key: _made(missing[key]) for key in sorted(missing)})
    except Exception:
        for key, each in missing.items():  # one of them is to blame; the others need not suffer
            try:
                with transaction.atomic():
                    found[key] = _made(each)
            except Exception as error:
                found[key] = error
    return [found[each.key] for each in programs]


def _standing() -> QuerySet[McpSession]:
    return McpSession.objects.filter(state=SessionState.CREATED.value, is_implicit=True)


def _made(program: _ClientProgram) -> str:
    caller = program.caller
    if program.name and _standing().filter(principal=caller.principal).count() >= _IMPLICIT_PER_CALLER:
        unnamed = replace(program, name="", version="")
        known = _standing().filter(implicit_key=unnamed.key).values_list("pk", flat=True).first()
        return known or _made(unnamed)
    row = McpSession(
        session_id=secrets.token_urlsafe(24),
        transport=program.transport,
        principal=caller.principal,
        caller_label=caller.label[:150],
        is_implicit=True,
        implicit_key=program.key,
        protocol_version=program.protocol_version,
        expires_at=timezone.now() + _IMPLICIT_LIFE,
        **_client({"client_name": program.name, "client_version": program.version}),
    )
    try:
        with transaction.atomic():
            row.save(force_insert=True)
    except IntegrityError:  # another worker was first
        return _standing().values_list("pk", flat=True).get(implicit_key=program.key)
    return row.session_id
