"""The hub of one process: its followers, its state, its start and stop. Read with asgi.py.

Everything below is handed its parts from here; nothing below reaches up for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import logging
import socket
import time
import uuid
from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime

from channels.db import database_sync_to_async
from django.conf import settings

from invocations.call import repeats
from invocations.calling import Calls
from invocations.chain.service import Sealing
from invocations.configuration import Configuration
from invocations.ledger import limits
from invocations.ledger.records import Touch
from invocations.ledger.writer import Ledger
from invocations.reading import Reads
from invocations.recovery import interrupted
from invocations.recovery.open_calls import OpenCalls
from invocations.redaction.records import RecordRedaction, without_secrets
from invocations.rest import live
from invocations.tasks import store as tasks
from invocations.tasks.registry import TaskRegistry
from mcphub.parts import HubService, PeriodicSweep, TokenSource
from mcphub.process import descriptors, first_run, loading, membership, metrics, siblings, unenforced
from mcphub.process.body_deadlines import BodyDeadlines
from mcphub.process.garbage import GarbageWatch
from mcphub.process.membership import Membership
from mcphub.process.open_transports import OpenTransports
from mcphub.process.services import BackgroundService
from mcphub.process.telemetry import Telemetry
from mcphub.server import resources
from mcphub.server.answering import Answering
from mcphub.server.listening import Streams
from mcphub.server.pending_input import PendingInputRequests
from mcphub.server.resuming import Resuming
from sessions_app import bus, events, refused_requests, store
from sessions_app.caller import Keys
from sessions_app.history import bounded, comparing
from sessions_app.keys import reminding
from sessions_app.keys.unheard import UnheardKeys
from sessions_app.kit.features import declared, loaded
from sessions_app.kit.places import Turns
from sessions_app.login import sweeping as logins
from sessions_app.models import ApiKey, ServerProcess
from sessions_app.protocol.errors import SessionNotFound
from sessions_app.tokens import AccessTokens
from tools_catalog.accounts.people import ask_person
from tools_catalog.accounts.resolving import Accounts
from tools_catalog.call import addresses, session_news
from tools_catalog.discovery import links
from tools_catalog.discovery.storing import ListingStorage
from tools_catalog.egress import guard as egress
from tools_catalog.models import PersonalList, aliases, offer_kinds
from tools_catalog.signals import send_changes
from tools_catalog.upstream.peers import PeerPort
from tools_catalog.upstream.pool import ConnectionEnvironment, Pool
from tools_catalog.vault import secret_for

logger = logging.getLogger(__name__)

_HOUSEKEEPING_SECONDS = 3
_SEALING_AFTER_SECONDS = 0.5
"""A killed hub's rows are sealed at once, but not before this one serves."""
_LAST_WORDS_SECONDS = 3
"""For calls that a stop cancels: to be recorded and answered."""
_ENDED = "the key was revoked or has expired, or the sign-in ended"
_MOST_KEYS = 1000
"""Changed keys that are read one by one; of more all are read."""
_SWEEP_EVERY = 10
"""Rounds of housekeeping between two sweeps of sessions, bus and keys."""


class Hub:
    """One a process and event loop."""

    def __init__(self) -> None:
        self.process_id = uuid.uuid4().hex
        self.host = socket.gethostname()
        self._own = Membership(self.process_id, self.host)
        self.transports = OpenTransports(self.process_id)
        self.follower = bus.BusFollower()
        self.telemetry = Telemetry()
        self.ledger = Ledger()
        self.sealing = Sealing()
        self._unrecorded: list[str] = []
        """Rows that were made past the application, as the last comparison found them."""
        self.open_calls = OpenCalls()
        self.sessions = store.Sessions()
        self.foreign_tokens = next((loaded(part.source)() for part in declared(TokenSource)), None)
        self.tokens = AccessTokens(self.foreign_tokens)
        self.unheard_keys = UnheardKeys(self._load_keys, self.spawn)
        self.streams = Streams(
            settings.MCPHUB_HEARTBEAT_SECONDS, descriptors.most_streams(), settings.MCPHUB_MAX_STREAMS_PER_CALLER
        )
        self.answering = Answering(self.process_id, self.streams, database_sync_to_async(self._own.others), self.spawn)
        self.input_requests = PendingInputRequests()
        self.resuming = Resuming(settings.MCPHUB_HEARTBEAT_SECONDS, descriptors.most_streams())
        self.calls = Calls(self.ledger, self.process_id, lambda: self.configuration)
        self.reads = Reads(self.calls)
        self.tasks = TaskRegistry(self.calls, self.process_id, lambda: self.configuration)
        self.body_deadlines = BodyDeadlines()
        self.turns = Turns()
        self.refused_requests = refused_requests.RefusedRequestLog(
            lambda text: RecordRedaction(self.configuration.redaction).words(text)
        )
        self.listings = ListingStorage(lambda: not self.is_draining)
        self.links = links.LinkKeeper(self.process_id, without_secrets, self._own.is_gone)
        self.services: list[BackgroundService] = []
        """The features' background services."""
        self.accounts = Accounts()
        self.upstreams = Pool(
            ConnectionEnvironment(
                secret=secret_for,
                version=settings.MCPHUB_VERSION,
                report=self.links.report,
                lasts_seconds=settings.MCPHUB_CALL_TIMEOUT_SECONDS,
                discovered=self.listings.for_all,
                discovered_by=self.listings.for_one,
                further=offer_kinds.readers(),
                shown=offer_kinds.personal_readers(),
                was_listed_to=database_sync_to_async(PersonalList.objects.is_fresh),
                unprobed=self.links.unprobed,
                declares=self.links.declares,
                lease=self.links.lease,
                updated=self._reads_differently,
                updated_for_all=self._tell_all,
                answer_seconds=settings.MCPHUB_ANSWER_SECONDS,
                process_id=self.process_id,
                is_found=lambda: self._own.is_found,
                holder=self.links.holder,
                address=self._own.address_of,
                account=self.accounts,
                connect=ask_person,
                person_done=self._person_done,
            )
        )
        self.max_body_bytes = settings.MCPHUB_MAX_BODY_BYTES
        self.body_timeout_seconds = settings.MCPHUB_BODY_TIMEOUT_SECONDS
        self.is_draining = False
        self._ended_callers: set[str] = set()
        """Callers with keys known to be invalid."""
        self._ended_while_loading: set[str] = set()
        """Callers that ended since the keys began to be read."""
        self._callers_to_end: set[str] = set()
        """Those with sessions still to be ended."""
        self._not_durable: str | None = None
        """Why, at the start; the ledger finds out again with each connection."""
        self.background: set[asyncio.Task[None]] = set()
        """Work that outlives the request that began it: calls that came over HTTP+SSE."""
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """Cleanup functions of transports and the chat for the stop."""
        self.configuration = Configuration()
        self._stale: set[str] = set()
        self._changed_keys: set[str] = set()
        """Keys to be read again; where all are, `_stale` has them."""
        self._updated: set[str] = set()
        """URIs of resources that read differently, although their rows are as they were."""
        self._is_resubscribing = False
        self._reload = asyncio.Event()
        self._is_reloading = False
        self._change_in_force = 0
        """The newest change by which this process worked before it began to read what is newer."""
        self._loading = asyncio.Lock()
        """Held while the configuration is read and replaced, so that an older one never replaces a newer."""
        self._tasks: list[asyncio.Task[None]] = []
        self._told: asyncio.Server | None = None
        """Serves this worker's metrics to the other workers."""
        self._drained: asyncio.Task[None] | None = None

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.services = [loaded(part.service)(self) for part in declared(HubService)]
        live.begin()
        await asyncio.to_thread(self.telemetry.start, self.process_id)
        self._told = await siblings.answer(lambda: metrics.own(self))
        await self._take_calls_of_others()
        self._not_durable = await database_sync_to_async(_durability)()
        await database_sync_to_async(_warn_of_unenforced)()
        await database_sync_to_async(self._own.enter)(*self._addresses)
        self._listen()
        await asyncio.to_thread(self.follower.start, asyncio.get_running_loop())
        self.configuration = await database_sync_to_async(loading.first_configuration)()
        await database_sync_to_async(interrupted.recover)(self.host, self.process_id, self.configuration.errors)
        await database_sync_to_async(store.sweep)()
        await database_sync_to_async(self._own.look_for_others)(*self._addresses)
        self.ledger.start()
        self.calls.start()
        self.streams.start()
        self.body_deadlines.start()
        self._tasks = [
            asyncio.create_task(self._follow(), name="mcphub-snapshots"),
            asyncio.create_task(self._keep_house(), name="mcphub-housekeeping"),
            asyncio.create_task(GarbageWatch().run(), name="mcphub-garbage"),
        ]
        self.upstreams.follow(
            self.configuration.catalog.upstreams.specs, self.configuration.catalog.upstreams.undiscovered
        )
        await database_sync_to_async(self._compare_with_history)()
        await database_sync_to_async(self._own.set_status)(ServerProcess.Status.RUNNING)
        for service in self.services:
            service.start()
        logger.info("The hub runs: %d tools", len(self.configuration.catalog.tools))

    async def drain(self) -> None:
        """Reject new requests, end the streams, let running calls finish in time and cancel the rest. Once."""
        if self._drained is None:
            self._drained = asyncio.create_task(self._drain(), name="mcphub-drain")
        await asyncio.shield(self._drained)

    async def _drain(self) -> None:
        self.is_draining = True
        live.end_all()
        for service in self.services:
            service.drain()
        await self.streams.stop()
        with contextlib.suppress(Exception):
            await database_sync_to_async(self._own.set_status)(ServerProcess.Status.STOPPING)
            await database_sync_to_async(self.transports.close)()
        self.tasks.drain()
        until = time.monotonic() + settings.MCPHUB_DRAIN_SECONDS
        # Longer than a call may take, so that one which is cancelled below is answered on its stream.
        answered = asyncio.create_task(self.answering.drain(settings.MCPHUB_DRAIN_SECONDS + _LAST_WORDS_SECONDS))
        if not await self.calls.running.drained(settings.MCPHUB_DRAIN_SECONDS):
            logger.warning("%d calls did not end in time and are cancelled", len(self.calls.running))
            self.calls.running.cancel_all()
            await self.calls.running.drained(_LAST_WORDS_SECONDS)
        await answered
        await self.upstreams.relay.drain(max(_LAST_WORDS_SECONDS, until - time.monotonic()))
        await self.tasks.stop()
        await self.resuming.stop()

    async def _take_calls_of_others(self) -> None:
        """Let other processes pass calls on to this one: of this machine, and of others where a port is named."""
        relay, secret = self.upstreams.relay, settings.SECRET_KEY
        await relay.start(settings.MCPHUB_DATA_DIR / "run", self.process_id[:16], secret)
        if settings.MCPHUB_PEER_ADDRESS is None:
            return
        host, first = settings.MCPHUB_PEER_ADDRESS
        try:
            await relay.open_port(PeerPort(host, first + siblings.PLACE.number, secret))
        except OSError as error:
            logger.error("Other machines of the hub cannot pass calls on to this process: %s", error)

    @property
    def _addresses(self) -> tuple[str, str]:
        return self.upstreams.relay.address, self.upstreams.relay.peer_address

    async def stop(self) -> None:
        """Drain, write the queues, leave."""
        await self.drain()
        for task in [*self._tasks, *self.background]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self.background, return_exceptions=True)
        for service in self.services:
            await service.stop()
        for close in self.closing:
            await close()
        await self.upstreams.stop()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self.links.stop()
        await self.body_deadlines.stop()
        await self.refused_requests.stop()
        with contextlib.suppress(Exception):  # of refusals just now the number is lost; their failures are recorded
            await database_sync_to_async(logins.flush)()
            await database_sync_to_async(bounded.flush)()
        await self.calls.stop()
        await self.ledger.stop()
        await asyncio.to_thread(self.sealing.stop)
        await asyncio.to_thread(self.follower.stop)
        await self.telemetry.stop()
        if self._told is not None:
            self._told.close()
        await egress.close_shared_client()
        with contextlib.suppress(Exception):
            await database_sync_to_async(self._flush)()
            # With a call still open the process is left as stopping, for another's recovery to find.
            if not await database_sync_to_async(interrupted.has_open)(self.process_id):
                await database_sync_to_async(self._own.set_status)(ServerProcess.Status.STOPPED)

    def spawn(self, task: asyncio.Task[None]) -> None:
        """Own a task until it ends or the hub stops."""
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    def is_gone(self, process_id: str) -> bool:
        """Return whether a process of the hub has ended. Asks the database, so call it in a thread."""
        return self._own.is_gone(process_id)

    async def touch_session(self, session_id: str) -> None:
        """Note that a session is in use; raise SessionNotFound where it has ended."""
        if not (await self.ledger.append(Touch(session_id))).session_alive:
            self.sessions.forget(session_id)
            raise SessionNotFound

    # What follows the database ---------------------------------------------------------------------

    def _listen(self) -> None:
        def stale(event: bus.BusMessage) -> None:
            if event.subject == bus.KEYS_CHANGED and event.payload and len(self._changed_keys) < _MOST_KEYS:
                self._changed_keys.add(event.payload)
            else:
                self._stale.add(event.subject)
            self._reload.set()

        def session_ended(event: bus.BusMessage) -> None:
            self.sessions.forget(event.payload)
            self.streams.end_session(event.payload)
            self.resuming.end_session(event.payload)
            self.input_requests.end_session(event.payload)
            self.answering.forget(event.payload)

        def session_message(event: bus.BusMessage) -> None:
            session_id, message = session_news.read(event.payload)
            self.streams.send(session_id, message.encode())

        def call_cancelled(event: bus.BusMessage) -> None:
            session_id, _, request_id = event.payload.partition(" ")
            self.calls.running.cancel_request(session_id, request_id)

        def caller_ended(event: bus.BusMessage) -> None:
            # At once: to read all keys again takes its time on a loaded machine.
            self.configuration.keys.drop({event.payload})
            self._ended_while_loading.add(event.payload)
            self._end_now({event.payload})

        self.follower.on(bus.followed(), stale)
        self.follower.on([bus.TOKENS_CHANGED], lambda event: self.tokens.forget(event.payload))
        self.follower.on([bus.CALLER_ENDED], caller_ended)
        self.follower.on([bus.RESOURCE_UPDATED], lambda event: self._reads_differently(event.payload))
        self.follower.on([bus.SUBSCRIPTIONS_CHANGED], lambda event: self.resubscribe())
        self.follower.on([bus.SESSION_ENDED], session_ended)
        self.follower.on([bus.SESSION_CHANGED], lambda event: self.sessions.forget(event.payload))
        self.follower.on([bus.SESSION_MESSAGE], session_message)

        def stream_taken(event: bus.BusMessage) -> None:
            stream, _, token = event.payload.partition(" ")
            self.resuming.taken(stream, token)

        self.follower.on([bus.ANSWERS_WANTED], lambda event: self.answering.wanted(event.payload))
        self.follower.on([bus.ANSWERS_GIVEN], lambda event: self.answering.given(event.payload))
        self.follower.on([bus.STREAM_GREW], lambda event: self.resuming.grew(event.payload))
        self.follower.on([bus.STREAM_TAKEN], stream_taken)
        self.follower.on([bus.SESSION_ANSWER], lambda event: self.input_requests.heard(event.payload))
        self.follower.on([bus.CALL_CANCELLED], call_cancelled)
        self.follower.on([bus.ACCOUNTS_CHANGED], lambda event: self.accounts.forget(event.payload))
        self.follower.on([bus.UPSTREAM_REFRESH], lambda event: self.upstreams.refresh(event.payload))
        self.follower.on([bus.UPSTREAM_RECONNECT], lambda event: self.upstreams.reconnect(event.payload))
        for service in self.services:
            service.listen()
        self.follower.on([bus.TASK_CHANGED], lambda event: self.tasks.heard(event.payload))

    @property
    def change_in_force(self) -> int:
        """The id on the bus of the newest change by which this process works."""
        if self._is_reloading or self._reload.is_set():
            return self._change_in_force
        return self.follower.newest

    async def _follow(self) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            newest, self._is_reloading = self.follower.newest, True
            stale, self._stale = self._stale, set()
            updated, self._updated = self._updated, set()
            keys, self._changed_keys = self._changed_keys, set()
            try:
                if (ids := await self._named(keys)) is None:
                    stale.add(bus.KEYS_CHANGED)
                else:
                    await self._load_keys(ids)
                if stale or updated or self._is_resubscribing:
                    await self._load(stale, updated)
            except Exception:
                logger.exception("The configuration could not be read; the hub goes on with what it has")
                self._stale |= stale
                self._updated |= updated
                self._changed_keys |= keys
                await asyncio.sleep(1)
                self._reload.set()
            else:
                self._change_in_force = newest
            self._is_reloading = False

    async def _named(self, keys: Collection[str]) -> Collection[int] | None:
        """Return the numbers of keys that the bus named; None where they are so many that all are read."""
        return await database_sync_to_async(Keys.named)(keys, _MOST_KEYS) if keys else ()

    async def _load_keys(self, ids: Collection[int]) -> None:
        """Read keys again, at a price that does not depend on how many others there are."""
        if not ids:
            return
        async with self._loading:
            self._ended_while_loading = set()
            read = await database_sync_to_async(Keys.read)(ids)
            keys = self.configuration.keys
            keys.put(ids, read)
            keys.drop(self._ended_while_loading)
            self._end_callers(keys.ended(keys, time.time()))

    async def _load(self, stale: set[str], updated: set[str]) -> None:
        async with self._loading:
            await self._replace(loading.implied(stale), updated)

    async def _replace(self, stale: set[str], updated: set[str]) -> None:
        self._ended_while_loading = set()
        before, changes = self.configuration, await database_sync_to_async(loading.changes)(self.configuration, stale)
        if bus.KEYS_CHANGED in stale:
            changes["keys"].used.update(before.keys.used)
            changes["keys"].drop(self._ended_while_loading)
        self.configuration = now = replace(before, **changes)
        self._end_callers(now.keys.ended(before.keys, time.time()))
        if bus.TOOLS_CHANGED in stale:
            self.spawn(asyncio.create_task(send_changes(before.catalog, now.catalog), name="mcphub-tool-changed"))
            self.upstreams.follow(now.catalog.upstreams.specs, now.catalog.upstreams.undiscovered)
            self.calls.rows.counts.keep_only(now.catalog.tools)
        if stale & {bus.TOOLS_CHANGED, bus.TOOLSETS_CHANGED}:
            self.streams.tell_list_changed("tools")
        is_chosen_anew = before.catalog.reads != now.catalog.reads
        if bus.PROMPTS_CHANGED in stale or is_chosen_anew or before.prompts.states != now.prompts.states:
            self.streams.tell_list_changed("prompts")
        if bus.RESOURCES_CHANGED in stale or is_chosen_anew or before.resources.states != now.resources.states:
            self.streams.tell_list_changed("resources")
            self._is_resubscribing = True
        if self._is_resubscribing:
            self._is_resubscribing = False
            self.upstreams.subscribe(await resources.wanted_of_upstreams(self.streams, now.resources))
        await resources.tell_updated(self.streams, now.resources.changed_since(before.resources), updated)

    def _end_callers(self, principals: set[str]) -> None:
        """End the streams, calls, tasks and sessions of callers with revoked or expired keys."""
        fresh = principals - self._ended_callers
        self._ended_callers = principals
        if fresh:
            self._end_now(fresh)

    def _end_now(self, principals: set[str]) -> None:
        self.streams.end_of(principals)
        self.calls.running.cancel_of(principals)
        self._callers_to_end |= principals
        self.spawn(asyncio.create_task(self._end_sessions(), name="mcphub-ended-callers"))

    async def _end_sessions(self) -> None:
        principals = sorted(self._callers_to_end)
        try:
            if principals:
                await database_sync_to_async(store.end_of)(
                    principals, "the key was revoked or has expired, or the sign-in ended"
                )
                self._callers_to_end.difference_update(principals)
        except Exception as error:
            logger.warning("Sessions of keys that open nothing any more could not be ended yet: %s", error)

    def connected(self, slug: str, principal: str) -> None:
        """React to a newly connected account at an upstream: read its lists now. From any thread."""

        def read() -> None:
            self.accounts.forget()
            self.upstreams.list_for(principal, slug, again=True)

        self.loop.call_soon_threadsafe(read, context=contextvars.Context())

    def _reads_differently(self, uri: str) -> None:
        self._updated.add(uri)
        self._reload.set()

    def _person_done(self, elicitation_id: str) -> None:
        """Notify the session that was sent to an address, wherever it listens, that the person is done there."""
        session_id, news = addresses.session_of(elicitation_id), addresses.news(elicitation_id)
        if session_id and not self.streams.send(session_id, news):
            telling = asyncio.create_task(session_news.announce(bus.SESSION_MESSAGE, session_id, news.decode()))
            self.background.add(telling)
            telling.add_done_callback(self.background.discard)

    def _tell_all(self, uri: str) -> None:
        async def notify() -> None:
            try:
                await bus.announce(bus.RESOURCE_UPDATED, uri)
            except Exception as error:
                logger.warning("Nobody hears that %s changed: %s", uri[:200], error)

        self.spawn(asyncio.create_task(notify(), name="mcphub-resource-updated"))

    def resubscribe(self) -> None:
        """Subscribe at the upstreams to the resources that somebody follows now, and to no more."""
        self._is_resubscribing = True
        self._reload.set()

    # Housekeeping ----------------------------------------------------------------------------------

    async def _keep_house(self) -> None:
        rounds = 0
        await asyncio.sleep(_SEALING_AFTER_SECONDS)
        with contextlib.suppress(Exception):  # the first round says what is wrong
            await database_sync_to_async(self.sealing.look)()
        while True:
            await asyncio.sleep(_HOUSEKEEPING_SECONDS)
            rounds += 1
            try:
                await database_sync_to_async(self._round)(rounds % _SWEEP_EVERY == 0)
                keys = self.configuration.keys
                self._end_callers(keys.ended(keys, time.time()))
                # Sessions go on: the client comes back to them with the next token.
                self.streams.end_opened_by(self.tokens.drop_expired(time.time()))
                await self._end_sessions()
                self.links.flush(self.upstreams.links())
                for connection_id in await self.links.lost():
                    self.upstreams.lose(connection_id)
                if rounds % _SWEEP_EVERY == 0 and self.configuration.resources.has_upstreams:
                    self.resubscribe()  # sessions that ended want nothing any more
            except Exception as error:
                logger.warning("Housekeeping failed: %s", error)

    def _round(self, sweep: bool) -> None:
        self._own.beat()
        self.transports.flush()
        interrupted.recover(self.host, self.process_id, self.configuration.errors)
        self._own.look_for_others(*self._addresses)
        self._flush()
        logins.flush()
        bounded.flush()
        self.sealing.look()
        for service in self.services:
            service.look()
        self.open_calls.look()
        if sweep:
            store.sweep()
            bus.purge()
            events.purge()
            refused_requests.purge()
            self._compare_with_history()
            links.keep_only(membership.living().values_list("process_id", flat=True))
            repeats.purge()
            limits.purge()
            logins.sweep()
            reminding.remind()
            tasks.purge()
            aliases.purge()
            for part in declared(PeriodicSweep):
                loaded(part.function)()
            self.sealing.retain()

    def _flush(self) -> None:
        keys = self.configuration.keys
        used, keys.used = keys.used, {}
        for key_id, seconds in used.items():
            moment = datetime.fromtimestamp(seconds, UTC)
            ApiKey.objects.filter(pk=key_id).update(last_used_at=moment)
        seen, self.sessions.seen = self.sessions.seen, set()
        if seen:
            store.touch(sorted(seen))

    # Health ----------------------------------------------------------------------------------------

    def _compare_with_history(self) -> None:
        found = comparing.unrecorded_rows()
        if found and found != self._unrecorded:
            logger.error(
                "ALARM: rows were made past the application, no event of the history tells of them: %s",
                comparing.words_of(found),
            )
        self._unrecorded = found

    def conditions(self) -> dict[tuple[str, str], dict[str, str]]:
        """Return the notices that only this process can raise."""
        found: dict[tuple[str, str], dict[str, str]] = {}
        problem = self.ledger.failing or (self.ledger.disk.words if self.ledger.disk.is_short else "")
        if problem:
            found["ledger.failing", self.host] = {"host": self.host, "problem": problem}
        if self.sealing.alarm:
            found["audit.alarm", ""] = {"problem": self.sealing.alarm}
        return found

    async def health(self) -> dict[str, str]:
        """Return `ok` or the problem of each part."""

        def database() -> None:
            ServerProcess.objects.filter(pk=self.process_id).exists()

        parts = {"database": "ok", "ledger": self.ledger.failing or "ok", "durability": "ok", "catalogue": "ok"}
        try:
            async with asyncio.timeout(2):
                await database_sync_to_async(database)()
        except Exception as error:
            parts["database"] = type(error).__name__
        if self.follower.failing_since is not None:
            parts["catalogue"] = f"not followed for {time.monotonic() - self.follower.failing_since:.0f} s"
        if why := self.ledger.not_durable or self._not_durable:
            parts["durability"] = f"{'not promised' if settings.MCPHUB_ALLOW_NOT_DURABLE else 'lost'}: {why}"
        if words := self.ledger.disk.words:
            parts["disk"] = words if self.ledger.disk.is_short else f"alarm: {words}"
        if self._unrecorded:
            parts["history"] = f"alarm: no event tells of {comparing.words_of(self._unrecorded)}"
        if self.sealing.alarm:
            parts["audit"] = f"alarm: {self.sealing.alarm}"
        for service in self.services:
            parts |= service.health()
        if self.is_draining:
            parts["server"] = "stopping"
        return parts


def _durability() -> str | None:
    """Return the reason if records might not survive a crash."""
    why = first_run.check_durability()
    if why:
        logger.warning("NOT DURABLE: what is recorded might not survive a crash of this machine: %s", why)
    return why


def _warn_of_unenforced() -> None:
    for words in unenforced.sentences():
        logger.warning("NOT ENFORCED: %s", words)


_hub: Hub | None = None
_starting: asyncio.Lock | None = None


async def ensure() -> Hub:
    """Return the running hub of this process; start it where the server has no lifespan (daphne, tests)."""
    global _hub, _starting
    if _hub is None:
        if _starting is None:
            _starting = asyncio.Lock()
        async with _starting:
            if _hub is None:
                hub = Hub()
                await hub.start()
                _hub = hub
    return _hub


def current() -> Hub | None:
    return _hub


async def stop() -> None:
    global _hub, _starting
    hub, _hub, _starting = _hub, None, None
    if hub is not None:
        await hub.stop()
