"""The hub of one process: what it follows, what it holds, how it starts and stops. Read with asgi.py.

Everything below is handed its parts from here; nothing below reaches up for them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from channels.db import database_sync_to_async
from django.conf import settings

from invocations import errormap, limits, recovery, repeats
from invocations.calling import Calls
from invocations.chain.service import Sealing
from invocations.ledger import Ledger
from invocations.mapping import ErrorMap
from invocations.open_calls import OpenCalls
from invocations.redaction import load as redaction_rules
from invocations.redaction.policy import Policy
from invocations.rest import live
from invocations.tasks import store as tasks
from invocations.tasks.desk import Desk
from mcphub import first_run, membership
from mcphub.membership import Membership
from mcphub.reading import Reading
from mcphub.server import resources
from mcphub.server.inquiries import Inquiries
from mcphub.server.listening import Streams
from mcphub.server.resuming import Resuming
from sessions_app import bus, door, events, store
from sessions_app.caller import Keys
from sessions_app.models import ApiKey, ServerProcess
from tools_catalog import discovery, egress, links
from tools_catalog.backends import addresses
from tools_catalog.catalog import Catalog, secret_for
from tools_catalog.offers import Prompts, Resources
from tools_catalog.upstream.listing import Offers
from tools_catalog.upstream.pool import Pool, Surroundings

logger = logging.getLogger(__name__)

_HOUSEKEEPING_SECONDS = 3
_SEALING_AFTER_SECONDS = 0.5
"""What a hub that was killed left is sealed at once, but not before this one serves."""
_LAST_WORDS_SECONDS = 3
"""For calls that a stop cancels: to be recorded and answered."""
_SWEEP_EVERY = 10
"""Rounds of housekeeping between two sweeps of sessions, bus and keys."""


class Hub:
    """One a process and event loop."""

    def __init__(self) -> None:
        self.process_id = uuid.uuid4().hex
        self.host = socket.gethostname()
        self._own = Membership(self.process_id, self.host)
        self.follower = bus.Follower()
        self.ledger = Ledger()
        self.sealing = Sealing()
        self.open_calls = OpenCalls()
        self.sessions = store.Sessions()
        self.streams = Streams(settings.MCPHUB_HEARTBEAT_SECONDS, settings.MCPHUB_MAX_STREAMS)
        self.inquiries = Inquiries()
        self.resuming = Resuming(settings.MCPHUB_HEARTBEAT_SECONDS, settings.MCPHUB_MAX_STREAMS)
        self.calls = Calls(self.ledger, self.process_id, self.catalog, self.errors, self.redaction)
        self.tasks = Desk(self.calls, self.process_id, self.errors)
        self.reading = Reading()
        self.door = door.DoorLog()
        self.links = links.LinkKeeper(self.process_id, self._own.is_gone)
        self.upstreams = Pool(
            Surroundings(
                secret=secret_for, version=settings.MCPHUB_VERSION, report=self.links.report,
                lasts_seconds=settings.MCPHUB_CALL_TIMEOUT_SECONDS, discovered=self._discovered, lease=self.links.lease,
                updated=self._reads_differently, updated_for_all=self._tell_all,
                answer_seconds=settings.MCPHUB_ANSWER_SECONDS,
                process_id=self.process_id, is_found=lambda: self._own.is_found, holder=self.links.holder,
                address=self._own.address_of,
                person_done=self._person_done,
            )
        )  # fmt: skip
        self.max_body_bytes = settings.MCPHUB_MAX_BODY_BYTES
        self.body_timeout_seconds = settings.MCPHUB_BODY_TIMEOUT_SECONDS
        self.is_draining = False
        self._not_durable: str | None = None
        """Why, at the start; the ledger finds out again with each connection."""
        self.background: set[asyncio.Task[None]] = set()
        """Work that outlives the request that began it: calls that came over HTTP+SSE."""
        self.closing: list[Callable[[], Awaitable[None]]] = []
        """What doors with a state of their own want done when the hub stops."""
        self._catalog = Catalog()
        self._resources = Resources()
        self._prompts = Prompts()
        self._errors = ErrorMap()
        self._redaction = Policy()
        self._keys = Keys({})
        self._stale: set[str] = set()
        self._updated: set[str] = set()
        """URIs of resources that read differently, although their rows are as they were."""
        self._is_resubscribing = False
        self._reload = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._drained: asyncio.Task[None] | None = None

    def catalog(self) -> Catalog:
        return self._catalog

    def resources(self) -> Resources:
        return self._resources

    def prompts(self) -> Prompts:
        return self._prompts

    def errors(self) -> ErrorMap:
        return self._errors

    def redaction(self) -> Policy:
        return self._redaction

    def keys(self) -> Keys:
        return self._keys

    async def start(self) -> None:
        self.loop = asyncio.get_running_loop()
        live.begin()
        await self.upstreams.relay.start(settings.MCPHUB_DATA_DIR / "run", self.process_id[:16])
        self._not_durable = await database_sync_to_async(_durability)()
        await database_sync_to_async(self._own.enter)(self.upstreams.relay.address)
        self._listen()
        await asyncio.to_thread(self.follower.start, asyncio.get_running_loop())
        self._errors = await database_sync_to_async(errormap.load)()
        self._redaction = await database_sync_to_async(redaction_rules.load)()
        self._keys = await database_sync_to_async(Keys.load)()
        self._catalog = await database_sync_to_async(Catalog.load)(None)
        self._resources = await database_sync_to_async(Resources.load)()
        self._prompts = await database_sync_to_async(Prompts.load)()
        await database_sync_to_async(recovery.recover)(self.host, self.process_id, self._errors)
        await database_sync_to_async(store.sweep)()
        await database_sync_to_async(self._own.look_for_others)(bool(self.upstreams.relay.address))
        self.ledger.start()
        self.calls.start()
        self.streams.start()
        self.reading.start()
        self._tasks = [
            asyncio.create_task(self._follow(), name="mcphub-snapshots"),
            asyncio.create_task(self._keep_house(), name="mcphub-housekeeping"),
        ]
        self.upstreams.follow(self._catalog.upstreams.specs, self._catalog.upstreams.undiscovered)
        await database_sync_to_async(self._own.set_status)(ServerProcess.Status.RUNNING)
        logger.info("The hub runs: %d tools", len(self._catalog.tools))

    async def drain(self) -> None:
        """Refuse what comes, end the streams, let what runs finish in time and cancel the rest. Once."""
        if self._drained is None:
            self._drained = asyncio.create_task(self._drain(), name="mcphub-drain")
        await asyncio.shield(self._drained)

    async def _drain(self) -> None:
        self.is_draining = True
        live.end_all()
        await self.streams.stop()
        with contextlib.suppress(Exception):
            await database_sync_to_async(self._own.set_status)(ServerProcess.Status.STOPPING)
        self.tasks.drain()
        until = time.monotonic() + settings.MCPHUB_DRAIN_SECONDS
        if not await self.calls.running.drained(settings.MCPHUB_DRAIN_SECONDS):
            logger.warning("%d calls did not end in time and are cancelled", len(self.calls.running))
            self.calls.running.cancel_all()
            await self.calls.running.drained(_LAST_WORDS_SECONDS)
        await self.upstreams.relay.drain(max(_LAST_WORDS_SECONDS, until - time.monotonic()))
        await self.tasks.stop()
        await self.resuming.stop()

    async def stop(self) -> None:
        """Drain, write what is queued, leave."""
        await self.drain()
        for task in [*self._tasks, *self.background]:
            task.cancel()
        await asyncio.gather(*self._tasks, *self.background, return_exceptions=True)
        for close in self.closing:
            await close()
        await self.upstreams.stop()
        with contextlib.suppress(Exception):
            async with asyncio.timeout(_LAST_WORDS_SECONDS):
                await self.links.stop()
        await self.reading.stop()
        await self.door.stop()
        await self.calls.stop()
        await self.ledger.stop()
        await asyncio.to_thread(self.sealing.stop)
        await asyncio.to_thread(self.follower.stop)
        await egress.close_shared_client()
        with contextlib.suppress(Exception):
            await database_sync_to_async(self._flush)()
            # With a call still open the process is left as stopping, for another's recovery to find.
            if not await database_sync_to_async(recovery.has_open)(self.process_id):
                await database_sync_to_async(self._own.set_status)(ServerProcess.Status.STOPPED)

    def spawn(self, task: asyncio.Task[None]) -> None:
        """Own a task until it ends or the hub stops."""
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    # What follows the database ---------------------------------------------------------------------

    def _listen(self) -> None:
        def stale(event: bus.Event) -> None:
            self._stale.add(event.subject)
            self._reload.set()

        def session_ended(event: bus.Event) -> None:
            self.sessions.forget(event.payload)
            self.streams.end_session(event.payload)
            self.resuming.end_session(event.payload)
            self.inquiries.end_session(event.payload)

        def session_message(event: bus.Event) -> None:
            session_id, _, message = event.payload.partition(" ")
            self.streams.send(session_id, message.encode())

        def call_cancelled(event: bus.Event) -> None:
            session_id, _, request_id = event.payload.partition(" ")
            self.calls.running.cancel_request(session_id, request_id)

        self.follower.on(bus.FOLLOWED, stale)
        self.follower.on([bus.RESOURCE_UPDATED], lambda event: self._reads_differently(event.payload))
        self.follower.on([bus.SUBSCRIPTIONS_CHANGED], lambda event: self.resubscribe())
        self.follower.on([bus.SESSION_ENDED], session_ended)
        self.follower.on([bus.SESSION_CHANGED], lambda event: self.sessions.forget(event.payload))
        self.follower.on([bus.SESSION_MESSAGE], session_message)

        def stream_taken(event: bus.Event) -> None:
            stream, _, token = event.payload.partition(" ")
            self.resuming.taken(stream, token)

        self.follower.on([bus.STREAM_GREW], lambda event: self.resuming.grew(event.payload))
        self.follower.on([bus.STREAM_TAKEN], stream_taken)
        self.follower.on([bus.SESSION_ANSWER], lambda event: self.inquiries.heard(event.payload))
        self.follower.on([bus.CALL_CANCELLED], call_cancelled)
        self.follower.on([bus.UPSTREAM_REFRESH], lambda event: self.upstreams.refresh(event.payload))
        self.follower.on([bus.UPSTREAM_RECONNECT], lambda event: self.upstreams.reconnect(event.payload))
        self.follower.on([bus.TASK_CHANGED], lambda event: self.tasks.heard(event.payload))

    async def _follow(self) -> None:
        while True:
            await self._reload.wait()
            self._reload.clear()
            stale, self._stale = self._stale, set()
            updated, self._updated = self._updated, set()
            try:
                await self._load(stale, updated)
            except Exception:
                logger.exception("The configuration could not be read; the hub goes on with what it has")
                self._stale |= stale
                self._updated |= updated
                await asyncio.sleep(1)
                self._reload.set()

    async def _load(self, stale: set[str], updated: set[str]) -> None:
        if bus.KEYS_CHANGED in stale:
            used = self._keys.used
            self._keys = await database_sync_to_async(Keys.load)()
            self._keys.used.update(used)
        if bus.ERRORS_CHANGED in stale:
            self._errors = await database_sync_to_async(errormap.load)()
        if bus.REDACTION_CHANGED in stale:
            self._redaction = await database_sync_to_async(redaction_rules.load)()
        if bus.TOOLS_CHANGED in stale:
            self._catalog = await database_sync_to_async(Catalog.load)(self._catalog)
            self.upstreams.follow(self._catalog.upstreams.specs, self._catalog.upstreams.undiscovered)
            self.streams.tell_list_changed("tools")
        # A connection that is switched off, or changes what it offers, withholds what is read of it.
        is_offer = bus.TOOLS_CHANGED in stale and bool(self._catalog.upstreams.specs)
        if bus.PROMPTS_CHANGED in stale or is_offer:
            known, self._prompts = self._prompts, await database_sync_to_async(Prompts.load)()
            if bus.PROMPTS_CHANGED in stale or known.states != self._prompts.states:
                self.streams.tell_list_changed("prompts")
        before = self._resources
        if bus.RESOURCES_CHANGED in stale or is_offer:
            self._resources = await database_sync_to_async(Resources.load)()
            if bus.RESOURCES_CHANGED in stale or before.states != self._resources.states:
                self.streams.tell_list_changed("resources")
                self._is_resubscribing = True
        if self._is_resubscribing:
            self._is_resubscribing = False
            self.upstreams.subscribe(await resources.wanted_of_upstreams(self.streams, self._resources))
        await resources.tell_updated(self.streams, self._resources.changed_since(before), updated)

    async def _discovered(self, connection_id: int, offers: Offers) -> None:
        await database_sync_to_async(discovery.reconcile)(connection_id, offers)

    def _reads_differently(self, uri: str) -> None:
        self._updated.add(uri)
        self._reload.set()

    def _person_done(self, elicitation_id: str) -> None:
        """Tell the session that was sent to an address, wherever it listens, that the person is done there."""
        session_id, news = addresses.session_of(elicitation_id), addresses.news(elicitation_id)
        if session_id and not self.streams.send(session_id, news):
            telling = asyncio.create_task(
                database_sync_to_async(bus.publish)(bus.SESSION_MESSAGE, f"{session_id} {news.decode()}")
            )
            self.background.add(telling)
            telling.add_done_callback(self.background.discard)

    def _tell_all(self, uri: str) -> None:
        async def told() -> None:
            try:
                await database_sync_to_async(bus.publish)(bus.RESOURCE_UPDATED, uri)
            except Exception as error:
                logger.warning("Nobody hears that %s changed: %s", uri[:200], error)

        self.spawn(asyncio.create_task(told(), name="mcphub-resource-updated"))

    def resubscribe(self) -> None:
        """Subscribe at the upstreams to what somebody wants to hear of now, and to no more."""
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
                self.links.flush(self.upstreams.links())
                for connection_id in await self.links.lost():
                    self.upstreams.lose(connection_id)
                if rounds % _SWEEP_EVERY == 0 and self._resources.has_upstreams:
                    self.resubscribe()  # sessions that ended want nothing any more
            except Exception as error:
                logger.warning("Housekeeping failed: %s", error)

    def _round(self, sweep: bool) -> None:
        self._own.beat()
        recovery.recover(self.host, self.process_id, self._errors)
        self._own.look_for_others(bool(self.upstreams.relay.address))
        self._flush()
        self.sealing.look()
        self.open_calls.look()
        if sweep:
            store.sweep()
            bus.purge()
            events.purge()
            door.purge()
            links.keep_only(membership.living().values_list("process_id", flat=True))
            repeats.purge()
            limits.purge()
            tasks.purge()
            self.sealing.retain()

    def _flush(self) -> None:
        used, self._keys.used = self._keys.used, {}
        for key_id, seconds in used.items():
            moment = datetime.fromtimestamp(seconds, UTC)
            ApiKey.objects.filter(pk=key_id).update(last_used_at=moment)
        seen, self.sessions.seen = self.sessions.seen, set()
        if seen:
            store.touch(sorted(seen))

    # Health ----------------------------------------------------------------------------------------

    async def health(self) -> dict[str, str]:
        """Say of each part `ok` or what is wrong with it."""

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
        if self.is_draining:
            parts["server"] = "stopping"
        return parts


def _durability() -> str | None:
    """Say why what is recorded might not survive a crash, where that is so."""
    why = first_run.check_durability()
    if why:
        logger.warning("NOT DURABLE: what is recorded might not survive a crash of this machine: %s", why)
    return why


_hub: Hub | None = None
_starting: asyncio.Lock | None = None


async def ensure() -> Hub:
    """Give the running hub of this process; start it where the server has no lifespan (daphne, tests)."""
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
