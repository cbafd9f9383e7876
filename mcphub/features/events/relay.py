"""Receives events of upstreams, by stream, poll or webhook: each approved type once in the hub.

The worker with the lease streams, polls and keeps subscriptions in force; a delivery may come to any worker.

Names of the extension (SEP-3415) in this file are those that the upstream serves; `taking.py` stores what comes.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

from channels.db import database_sync_to_async
from django.utils import timezone

from invocations.subject import RowSubject
from mcphub.features.events import incoming, offers, taking
from mcphub.features.events.errors import DRAFT_NOT_FOUND, DRAFT_UNSUPPORTED, EXTENSION, NOT_FOUND, UNSUPPORTED
from mcphub.features.events.incoming import CallbackTarget, FormerSubscription
from mcphub.features.events.models import EventSource, UpstreamEvent
from mcphub.features.events.taking import LeaseLost
from sessions_app.protocol import errors, json
from sessions_app.protocol.errors import HubError
from sessions_app.protocol.json import Json
from tools_catalog.upstream.connection import Connection
from tools_catalog.upstream.link import HeldElsewhere
from tools_catalog.upstream.pool import Pool
from tools_catalog.upstream.spec import ConnectionSpec

logger = logging.getLogger(__name__)

_DRAFT: Final = "events"
"""The capability by which upstreams of the draft declare it."""
_LOOK_SECONDS = 2.0
_ELSEWHERE_SECONDS = 20.0
"""How long an upstream is left to another process that runs its only child."""
_LIST_EVERY_SECONDS = 300.0
_ASK_SECONDS = 30.0
_SILENT_SECONDS = 90.0
"""A stream without a sign of life is opened anew."""
_SHORTEST_POLL_SECONDS, _LONGEST_POLL_SECONDS = 2.0, 3600.0
_USUAL_POLL_SECONDS = 30.0
_REOPENED_AFTER_SECONDS = 1.0
_WISHED_TTL_SECONDS = 6 * 3600.0
_USUAL_TTL_SECONDS = 1800.0
"""For a subscription whose upstream states no readable end."""
_SHORTEST_RENEWAL_SECONDS = 5.0
_MOST_PAGES = 20
_MOST_IN_POLL = 100
_MOST_QUEUED = 300
"""Notifications of one stream that wait to be stored."""
_PREFIX: Final = "notifications/events/"
_EVENT: Final = f"{_PREFIX}event"

_Streams: TypeAlias = dict[int, tuple[dict[str, Json], asyncio.Task[None]]]
"""By the ID of the type: its arguments, and the task that receives it."""


@dataclass(frozen=True, slots=True)
class WantedEvent:
    """A type that is received, as its row has it."""

    id: int
    name: str
    name_there: str
    way: str
    cursor: Json
    failures: int
    arguments: dict[str, Json]

    def params(self) -> dict[str, Json]:
        return {"name": self.name_there, "arguments": self.arguments, "cursor": self.cursor}


class EventRelay:
    """One a process. `run` it; `stop` gives the leases back."""

    def __init__(
        self,
        process_id: str,
        pool: Pool,
        specs: Callable[[], Mapping[str, ConnectionSpec]],
        is_gone: Callable[[str], bool],
        inspect: Callable[[Json, RowSubject], Awaitable[Json]],
    ) -> None:
        self._process_id = process_id
        self._is_gone = is_gone
        self._inspect = inspect
        """Returns data of an event as the hub lets them go on; raises HubError for those that it withholds."""
        self._pool = pool
        self._specs = specs
        self._held: dict[int, asyncio.Task[None]] = {}
        """Connection -> the task that receives its events."""
        self._elsewhere: dict[int, float] = {}
        """Connections of other processes, and the ends of their leases."""

    async def run(self) -> None:
        while True:
            try:
                await self._look()
            except Exception as error:
                logger.warning("Events of upstreams could not be looked for: %s", error)
            await asyncio.sleep(_LOOK_SECONDS)

    async def stop(self) -> None:
        tasks = list(self._held.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        with contextlib.suppress(Exception):
            await database_sync_to_async(taking.release)(self._process_id)

    async def _look(self) -> None:
        """Keep the leases of this worker, take those that are free, and receive for each."""
        now = asyncio.get_running_loop().time()
        self._elsewhere = {pk: until for pk, until in self._elsewhere.items() if until > now}
        usable = {
            spec.id: slug
            for slug, spec in self._specs().items()
            if not spec.is_personal and spec.id not in self._elsewhere
        }
        found = {pk: self._pool.find(slug) for pk, slug in usable.items()}
        declaring = [pk for pk, each in found.items() if each is not None and _declares_events(each)]
        if not usable and not self._held:
            return
        claim = database_sync_to_async(taking.claim)
        held = await claim(self._process_id, declaring, list(usable), self._is_gone)
        for pk in held - self._held.keys():
            self._held[pk] = asyncio.create_task(self._receive(pk, usable[pk]), name=f"mcphub-events-of-{usable[pk]}")
        for pk, task in list(self._held.items()):
            if task.done():
                del self._held[pk]
            elif pk not in held:
                task.cancel()

    async def _receive(self, connection_id: int, slug: str) -> None:
        """Receive for one upstream while this worker has its lease and the connection stays as it is."""
        connection = self._pool.find(slug)
        streams: _Streams = {}
        try:
            while connection is not None and self._pool.find(slug) is connection:
                await self._list(connection, connection_id)
                await self._leave(connection, connection_id)
                wanted = await database_sync_to_async(_wanted)(connection_id)
                due = {each.id: each for each in wanted or ()}
                approved = await database_sync_to_async(_approved)(connection_id)
                _end_streams(streams, approved)
                for each in due.values():
                    if each.way == "push" and each.id not in streams:
                        following = asyncio.create_task(self._attempt(connection, each, self._stream))
                        streams[each.id] = (each.arguments, following)
                    elif each.way == "poll":
                        await self._attempt(connection, each, self._poll)
                    elif each.way == "webhook":
                        await self._attempt(connection, each, self._subscribe)
                await asyncio.sleep(_LOOK_SECONDS)
        except HeldElsewhere:
            self._elsewhere[connection_id] = asyncio.get_running_loop().time() + _ELSEWHERE_SECONDS
        except Exception as error:
            logger.warning("Events of %s are not received for a while: %s", slug, error)
        finally:
            tasks = [task for _, task in streams.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await asyncio.shield(database_sync_to_async(taking.release)(self._process_id, [connection_id]))

    async def _list(self, connection: Connection, connection_id: int) -> None:
        """Read the types of the upstream, if the last reading is old."""
        if not await database_sync_to_async(_is_list_due)(connection_id):
            return
        listed: list[Json] = []
        problem, cursor = "", None
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                for _ in range(_MOST_PAGES):
                    page = await connection.ask("events/list", {} if cursor is None else {"cursor": cursor})
                    found = page.get("events")
                    listed += found if isinstance(found, list) else []
                    cursor = page.get("nextCursor")
                    if not isinstance(cursor, str) or not cursor or len(listed) > offers.MOST_TYPES:
                        break
        except HeldElsewhere:
            raise
        except (HubError, TimeoutError) as error:
            words = str(error) or "It did not answer in time."
            await database_sync_to_async(_note_list)(connection_id, words)
            return
        await database_sync_to_async(offers.reconcile)(connection_id, offers.read(listed, problem))

    async def _attempt(
        self,
        connection: Connection,
        wanted: WantedEvent,
        receive: Callable[[Connection, WantedEvent], Awaitable[float]],
    ) -> None:
        """Receive one type; after a failure note the reason and pause."""
        postpone = database_sync_to_async(taking.postpone)
        try:
            seconds = await receive(connection, wanted)
        except HeldElsewhere:
            raise
        except (HubError, TimeoutError, ValueError) as error:
            code = error.details.get("upstream", {}).get("code") if isinstance(error, errors.UpstreamError) else None
            if code in (UNSUPPORTED, DRAFT_UNSUPPORTED, errors.INVALID_PARAMS) and wanted.cursor is not None:
                await database_sync_to_async(taking.forget_place)(self._process_id, wanted.id)
            words = str(error) or "It did not answer in time."
            if code in (NOT_FOUND, DRAFT_NOT_FOUND):
                words = f"The upstream has no such event any more. {words}"
            logger.warning("The upstream event %s is not received: %s", wanted.name, words)
            await postpone(self._process_id, wanted.id, taking.pause(wanted.failures), words)
        except LeaseLost:
            return
        else:
            await postpone(self._process_id, wanted.id, seconds)

    async def _poll(self, connection: Connection, wanted: WantedEvent) -> float:
        """Request new events; return the seconds until the next request. Raises HubError, LeaseLost."""
        params = {**wanted.params(), "maxEvents": _MOST_IN_POLL}
        for _ in range(_MOST_PAGES):
            async with asyncio.timeout(_ASK_SECONDS):
                page = await connection.ask("events/poll", params)
            came = page.get("events")
            if not isinstance(came, list):
                raise errors.ResultInvalid("The answer to events/poll has no list of events.")
            taken = await self._take(
                connection, wanted, came, page.get("cursor"), skipped=page.get("truncated") is True
            )
            if taken.is_paused or page.get("hasMore") is not True or page.get("cursor") == params["cursor"]:
                break
            params["cursor"] = page.get("cursor")
        wish = page.get("nextPollMs")
        seconds = wish / 1000 if isinstance(wish, int | float) and not isinstance(wish, bool) else _USUAL_POLL_SECONDS
        return max(_SHORTEST_POLL_SECONDS, min(_LONGEST_POLL_SECONDS, seconds))

    async def _stream(self, connection: Connection, wanted: WantedEvent) -> float:
        """Follow one stream until it ends; return the seconds until it is opened again. Raises as `_poll`."""
        queue: asyncio.Queue[tuple[str, dict[str, Json]]] = asyncio.Queue(_MOST_QUEUED)
        is_full = asyncio.Event()

        def follow(method: str, params: dict[str, Json]) -> None:
            try:
                queue.put_nowait((method.removeprefix(_PREFIX), _bounded(params)))
            except asyncio.QueueFull:
                is_full.set()  # it is read on from the last cursor

        asking = asyncio.create_task(connection.ask("events/stream", wanted.params(), follow))
        full = asyncio.create_task(is_full.wait())
        waiting = asyncio.create_task(queue.get())
        try:
            while True:
                ends = {asking, full, waiting}
                done, _ = await asyncio.wait(ends, timeout=_SILENT_SECONDS, return_when=asyncio.FIRST_COMPLETED)
                if waiting not in done:
                    break
                batch = [waiting.result()]
                while not queue.empty() and len(batch) < _MOST_IN_POLL:
                    batch.append(queue.get_nowait())
                waiting = asyncio.create_task(queue.get())
                if await self._take_messages(connection, wanted, batch):
                    break
            if asking.done():
                asking.result()
            return _REOPENED_AFTER_SECONDS
        finally:
            for task in (asking, full, waiting):
                task.cancel()
            await asyncio.gather(asking, full, waiting, return_exceptions=True)

    async def _subscribe(self, connection: Connection, wanted: WantedEvent) -> float:
        """Subscribe the hub's address, or renew that; return the seconds until the next renewal. Raises as `_poll`."""
        url = incoming.address_of(wanted.id)
        if not url:
            raise errors.ConnectionFailed(
                "It comes by webhook alone, and MCPHUB_PUBLIC_URL is no https address, which the upstream has to reach."
            )
        own = await database_sync_to_async(incoming.prepare)(wanted.id, url, wanted.arguments)
        if own.former is not None:
            await self._unsubscribe(connection, own.former)
        delivery: dict[str, Json] = {"mode": "webhook", "url": own.url, "secret": own.secret}
        params = {**wanted.params(), "delivery": delivery, "ttlMs": int(_WISHED_TTL_SECONDS * 1000)}
        async with asyncio.timeout(_ASK_SECONDS):
            answer = await connection.ask("events/subscribe", params)
        await self._take(connection, wanted, [], answer.get("cursor"), skipped=answer.get("truncated") is True)
        ends = taking.moment(answer.get("refreshBefore"))
        left = _USUAL_TTL_SECONDS if ends is None else (ends - timezone.now()).total_seconds()
        return max(_SHORTEST_RENEWAL_SECONDS, min(_WISHED_TTL_SECONDS, left) / 2)

    async def _leave(self, connection: Connection, connection_id: int) -> None:
        """End the subscriptions without subscribers."""
        for each in await database_sync_to_async(incoming.left)(connection_id):
            await self._unsubscribe(connection, each)
            await database_sync_to_async(incoming.forget)(each.event_id)

    async def _unsubscribe(self, connection: Connection, former: FormerSubscription) -> None:
        """End a subscription. Where the upstream does not take it, the subscription ends by its time."""
        delivery: dict[str, Json] = {"mode": "webhook", "url": former.url}
        params: dict[str, Json] = {"name": former.name_there, "arguments": former.arguments, "delivery": delivery}
        try:
            async with asyncio.timeout(_ASK_SECONDS):
                await connection.ask("events/unsubscribe", params)
        except HeldElsewhere:
            raise
        except (HubError, TimeoutError) as error:
            logger.info(
                "The subscription to %s of %s was not ended: %s", former.name_there, connection.spec.slug, error
            )

    async def deliver(self, target: CallbackTarget, message_id: str, message: dict[str, Json]) -> dict[str, Json]:
        """Take one message that an upstream delivered and signed, at any worker; return the answer.

        Raises LeaseLost, RateLimited, ServerBusy.
        """
        kind, cursor = message.get("type"), message.get("cursor")
        if kind == "verification":
            return {"challenge": message.get("challenge")}
        if kind == "gap":
            await asyncio.shield(database_sync_to_async(incoming.take_gap)(target.event_id, message_id, cursor))
        elif kind == "terminated":
            end = database_sync_to_async(incoming.take_end)
            await asyncio.shield(end(target.event_id, message_id, message.get("error")))
        elif kind is None:
            connection = self._pool.find(target.connection)
            if connection is None:
                raise errors.ServerBusy
            event = {name: value for name, value in connection.scrubbed(message).items() if name != "cursor"}
            inspected = await self._inspected(event, _subject(target.name, target.connection))
            store = database_sync_to_async(taking.take)
            taken = await asyncio.shield(store(None, target.event_id, [inspected], cursor))
            if taken.is_paused:
                raise incoming.too_many(_USUAL_POLL_SECONDS)
        return {}

    async def _take_messages(
        self, connection: Connection, wanted: WantedEvent, batch: list[tuple[str, dict[str, Json]]]
    ) -> bool:
        """Store the events among the notifications of a stream; return True where it is over.

        Raises UpstreamError where the upstream ended the subscription.
        """
        came: list[Json] = []
        cursor: Json = None
        skipped, ending = False, None
        for what, raw in batch:
            params = connection.scrubbed(raw)
            if what == "event":
                came.append({name: value for name, value in params.items() if name not in ("cursor", "_meta")})
            elif what == "terminated":
                ending = params.get("error")
                continue
            elif what == "error":
                logger.info("The upstream event %s: an error came on its stream", wanted.name)
                continue
            elif what not in ("active", "heartbeat"):
                continue
            skipped = skipped or (what == "active" and params.get("truncated") is True)
            cursor = params.get("cursor", cursor)
        taken = await self._take(connection, wanted, came, cursor, skipped=skipped)
        if ending is not None:
            words = ending.get("message") if isinstance(ending, dict) else None
            raise errors.UpstreamError(f"The upstream ended the subscription: {str(words)[:200]}")
        return taken.is_paused

    async def _take(
        self, connection: Connection, wanted: WantedEvent, came: list[Json], cursor: Json, *, skipped: bool
    ) -> taking.Taken:
        subject = _subject(wanted.name, connection.spec.slug)
        inspected = [await self._inspected(each, subject) for each in came[: taking.MOST_IN_BATCH + 1]]
        store = database_sync_to_async(taking.take)
        taken = store(self._process_id, wanted.id, inspected, cursor, skipped=skipped, asked_with=wanted.arguments)
        return await asyncio.shield(taken)

    async def _inspected(self, entry: Json, subject: RowSubject) -> Json | taking.NotTaken:
        if not isinstance(entry, dict) or taking.wrong_data(entry.get("data")):
            return entry
        try:
            return {**entry, "data": await self._inspect(entry["data"], subject)}
        except HubError as error:
            return taking.NotTaken(f"The data of {str(entry.get('eventId'))[:100]} are withheld: {error}")


def _declares_events(connection: Connection) -> bool:
    return EXTENSION in connection.extensions or _DRAFT in connection.capabilities


def _subject(name: str, connection: str) -> RowSubject:
    return RowSubject(method=_EVENT, target=name, connection=connection)


def _bounded(params: dict[str, Json]) -> dict[str, Json]:
    """Return a notification as it waits to be stored: without data that are refused anyway."""
    try:
        if len(json.dumps(params)) <= 2 * taking.MOST_BYTES:
            return params
    except (ValueError, RecursionError):
        return {}
    return {name: value for name, value in params.items() if name in ("eventId", "name", "cursor")}


def _end_streams(streams: _Streams, approved: dict[int, dict[str, Json]]) -> None:
    """Cancel streams whose approval or arguments changed; drop ended ones, and raise the error of a failed one."""
    for event_id, (arguments, task) in list(streams.items()):
        if approved.get(event_id) != arguments:
            task.cancel()
        if task.done():
            del streams[event_id]
            if not task.cancelled():
                task.result()


def _wanted(connection_id: int) -> list[WantedEvent]:
    """Return the types of an upstream that are to be received now. While it is left alone, subscriptions stay."""
    now = timezone.now()
    is_paused = EventSource.objects.filter(pk=connection_id, paused_until__gt=now).exists()
    rows = UpstreamEvent.objects.served().filter(connection_id=connection_id, due_at__lte=now).exclude(offered={})
    found = [
        WantedEvent(
            id=row.pk,
            name=row.name,
            name_there=row.name_there,
            way=next(way for way in offers.WAYS if way in row.offered["delivery"]),
            cursor=json.loads_stored(row.cursor) if row.cursor else None,
            failures=row.failures,
            arguments=row.arguments,
        )
        for row in rows
        if not row.misfit
    ]
    return [each for each in found if not is_paused or each.way == "webhook"]


def _approved(connection_id: int) -> dict[int, dict[str, Json]]:
    """Return the arguments of the types that may be received."""
    rows = UpstreamEvent.objects.served().filter(connection_id=connection_id)
    return {row.pk: row.arguments for row in rows if not row.misfit}


def _is_list_due(connection_id: int) -> bool:
    listed = EventSource.objects.filter(pk=connection_id).values_list("listed_at", flat=True).first()
    return listed is None or (timezone.now() - listed).total_seconds() > _LIST_EVERY_SECONDS


def _note_list(connection_id: int, problem: str) -> None:
    EventSource.objects.filter(pk=connection_id).update(listed_at=timezone.now(), problem=problem[:300])
