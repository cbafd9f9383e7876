"""The change bus: news for every process of the hub, carried by rows.

Whatever changes configuration, a trigger writes an event in the same transaction, so no path forgets it.
Each process follows the table: PostgreSQL wakes it by NOTIFY, and a poll of at most 250 ms is the floor that
always works. A process's own publications reach it by the same way.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from sessions_app.kit.database import Dedicated, delete_in_slices, persistently
from sessions_app.kit.features import declared

logger = logging.getLogger(__name__)

TOOLS_CHANGED = "tools_changed"
TOOLSETS_CHANGED = "toolsets_changed"
"""Which tools a toolset has; the tools are as they were."""
PROMPTS_CHANGED = "prompts_changed"
RESOURCES_CHANGED = "resources_changed"
RESOURCE_UPDATED = "resource_updated"
"""Payload: the URI of a resource whose content changed without its row."""
SUBSCRIPTIONS_CHANGED = "subscriptions_changed"
"""A session subscribed to a resource of an upstream, or no longer."""
ERRORS_CHANGED = "errors_changed"
KEYS_CHANGED = "keys_changed"
"""Payload: the id of a key that changed or is gone; empty: any may have."""
WORKSPACES_CHANGED = "workspaces_changed"
"""Membership, and so visibility."""
TOKENS_CHANGED = "tokens_changed"
"""Payload: the digest of an access token that changed or is gone; empty: any may have."""
CALLER_ENDED = "caller_ended"
"""Payload: the principal of a person who was disabled, or revoked a client's access; or `key:<id>` of a revoked key."""
SESSION_ENDED = "session_ended"
"""Payload: the session id."""
SESSION_CHANGED = "session_changed"
"""Payload: the session id."""
SESSION_MESSAGE = "session_message"
"""Payload: `<session id> <one JSON-RPC message>` for the stream that another process may hold."""
SESSION_ANSWER = "session_answer"
"""Payload: `<session id> <one JSON-RPC response>` to a request that another process sent the client."""
ANSWERS_WANTED = "answers_wanted"
"""Payload: `<process id> <session id> ...`: that process stops, and ends the streams of these sessions once all that
was asked for them is answered.
"""
ANSWERS_GIVEN = "answers_given"
"""Payload: `<process id> <process id>`: to the streams of the first, the second owes nothing any more."""
STREAM_GREW = "stream_grew"
"""Payload: the id of a call's stream, which another process may be sending to a client that came back for it."""
STREAM_TAKEN = "stream_taken"
"""Payload: `<stream id> <token>`: the stream goes on in the connection of that token, and in no other."""
CALL_CANCELLED = "call_cancelled"
"""Payload: `<session id> <JSON request id>`."""
ACCOUNTS_CHANGED = "accounts_changed"
"""An account at an upstream has other tokens, or none."""
UPSTREAM_REFRESH = "upstream_refresh"
"""Payload: the name of a connection whose tools are to be refreshed."""
UPSTREAM_RECONNECT = "upstream_reconnect"
"""Payload: the name of a connection that is to be made anew in each process that holds it."""
TASK_CHANGED = "task_changed"
"""Payload: the task id."""

REDACTION_CHANGED = "redaction_changed"

FOLLOWED = (
    TOOLS_CHANGED,
    TOOLSETS_CHANGED,
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    ERRORS_CHANGED,
    KEYS_CHANGED,
    WORKSPACES_CHANGED,
    REDACTION_CHANGED,
)
"""Subjects with a snapshot in every process. Features declare further ones."""


@dataclass(frozen=True, slots=True)
class FollowedRows:
    """Declares rows of a feature that every process holds, and reads again when the subject is published.

    The function `read` takes no arguments and returns the configuration's `additions[subject]`.
    """

    subject: str
    read: str
    reads_catalog: bool = False
    """It takes the catalogue, and is called after each change of tools and toolsets, too."""


def followed() -> tuple[str, ...]:
    """Return all subjects with a snapshot in every process."""
    return (*FOLLOWED, *(part.subject for part in declared(FollowedRows)))


KEEP_SECONDS = 3600
_ANNOUNCE_SECONDS = 30
"""How long an event is tried to be published while the database is away."""


def publish(subject: str, payload: str = "") -> None:
    """Publish to every process. Takes part in the caller's transaction."""
    from sessions_app.models import BusEvent

    BusEvent.objects.create(subject=subject, payload=payload)


async def announce(subject: str, payload: str = "") -> None:
    """Publish to every process from the event loop, even if the database returns only in a moment.

    An unconfirmed attempt is not published twice. Raises the database's error when it is away for too long.
    """
    began = timezone.now()
    is_repeated = False

    def once() -> None:
        nonlocal is_repeated
        if not (is_repeated and _is_published(subject, payload, began)):
            is_repeated = True
            publish(subject, payload)

    await persistently(_ANNOUNCE_SECONDS, once)


def _is_published(subject: str, payload: str, since: datetime) -> bool:
    from sessions_app.models import BusEvent

    return BusEvent.objects.filter(subject=subject, payload=payload, created_at__gte=since).exists()


def purge() -> int:
    """Remove events that every live process has long read; give the count."""
    from sessions_app.models import BusEvent

    horizon = timezone.now() - timedelta(seconds=KEEP_SECONDS)
    return delete_in_slices(BusEvent.objects.filter(created_at__lt=horizon))


@dataclass(frozen=True, slots=True)
class BusMessage:
    subject: str
    payload: str


class BusFollower:
    """Reads the bus on a thread of its own and hands each event to the listeners on the event loop.

    A listener is a plain function of an `BusMessage`; it must not block.
    """

    _LATE_SECONDS = 60
    """PostgreSQL hands out ids before commit; a transaction may publish below the highest id for this long."""
    _SQLITE_SECONDS = 0.03
    """SQLite wakes nobody, but reports in a microsecond whether anything was committed at all."""
    _UNDER_WAY = 10_000
    """Ids below the newest at which a transaction may stand that is not committed when the follower begins."""

    def __init__(self) -> None:
        self._listeners: dict[str, list[Callable[[BusMessage], None]]] = {}
        self._database = Dedicated()
        self._seen: dict[int, float] = {}
        self._floor = 0
        self._version: int | None = None
        """SQLite's own count of commits, as this connection last saw it."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.failing_since: float | None = None
        self._read = 0
        """As `newest`, on the follower's thread."""
        self.newest = 0
        """The highest id among the events whose listeners have been called."""

    def on(self, subjects: Iterable[str], listener: Callable[[BusMessage], None]) -> None:
        for subject in subjects:
            self._listeners.setdefault(subject, []).append(listener)

    def start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin after the events that are there now; load snapshots after this returns."""
        self._begin()
        self._close()  # opened here by another thread than the one that follows
        self._thread = threading.Thread(target=self._follow, args=(loop,), name="mcphub-follower", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread is not None:
            self._thread.join(timeout=5)

    def _begin(self) -> None:
        (newest,) = self._database.raw.execute("SELECT COALESCE(MAX(id), 0) FROM sessions_app_busevent").fetchone()
        self._floor = self._read = self.newest = newest
        if not self._database.is_sqlite:
            # What is under way has an id below the newest and is not there yet.
            self._floor = max(0, newest - self._UNDER_WAY)
            self._news()

    def _follow(self, loop: asyncio.AbstractEventLoop) -> None:
        listening = False
        while not self._stopping.is_set():
            try:
                if not self._database.is_sqlite and not listening:
                    self._database.raw.execute("LISTEN mcphub")
                    listening = True
                events = self._news()
                if self.failing_since is not None:
                    # The outage may have outlived what the table keeps: what is followed is read anew.
                    events += [BusMessage(subject, "") for subject in (*followed(), TOKENS_CHANGED, ACCOUNTS_CHANGED)]
                    self.failing_since = None
                if events:
                    loop.call_soon_threadsafe(self._dispatch, events, self._read)
                if self._database.is_sqlite:
                    self._stopping.wait(min(settings.MCPHUB_FOLLOW_SECONDS, self._SQLITE_SECONDS))
                else:
                    for _ in self._database.raw.notifies(timeout=settings.MCPHUB_FOLLOW_SECONDS, stop_after=1):
                        pass
            except Exception as error:
                if loop.is_closed():
                    break
                if self.failing_since is None:
                    logger.warning("The change bus cannot be read: %s", error)
                    self.failing_since = time.monotonic()
                listening = False
                self._close()
                self._stopping.wait(settings.MCPHUB_FOLLOW_SECONDS)
        self._close()

    def _close(self) -> None:
        self._database.close()
        self._version = None

    def _news(self) -> list[BusMessage]:
        if self._database.is_sqlite:
            (version,) = self._database.raw.execute("PRAGMA data_version").fetchone()
            if version == self._version:
                return []
            self._version = version
        mark = "?" if self._database.is_sqlite else "%s"
        rows = self._database.raw.execute(
            f"SELECT id, subject, payload FROM sessions_app_busevent WHERE id > {mark} ORDER BY id",  # noqa: S608
            (self._floor,),
        ).fetchall()
        fresh = [row for row in rows if row[0] not in self._seen]
        self._read = max(self._read, rows[-1][0] if rows else 0)
        if self._database.is_sqlite:
            if rows:
                self._floor = rows[-1][0]
            return [BusMessage(row[1], row[2]) for row in fresh]
        now = time.monotonic()
        self._seen |= {row[0]: now for row in fresh}
        settled = [id_ for id_, at in self._seen.items() if now - at > self._LATE_SECONDS]
        if settled:
            self._floor = max(settled)
            self._seen = {id_: at for id_, at in self._seen.items() if id_ > self._floor}
        return [BusMessage(row[1], row[2]) for row in fresh]

    def _dispatch(self, events: list[BusMessage], newest: int) -> None:
        for event in events:
            for listener in self._listeners.get(event.subject, ()):
                try:
                    listener(event)
                except Exception:
                    logger.exception("A listener of %s failed", event.subject)
        self.newest = newest
