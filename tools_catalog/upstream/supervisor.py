"""Keeps one upstream connected: when needed, warm, tried again with patience. Knows of calls only how many there are.

One task (`_supervise`) connects, lists the offers, follows changes, ends idle connections, and waits longer after
each consecutive failure. These machines define a connection's behaviour:

    machine          states                      moved by                        coupled with
    ---------------  --------------------------  ------------------------------  ----------------------------------
    link             disconnected, connecting,   the task; `retire`, `stop`      `ready` gives the main session
    (`states`)       connected, error                                            while connected only
    demand           idle, wanted                calls, `want`, `refresh`,       wanted: disconnected and error go
    (`_wanted`)                                  subscriptions; idle time        on to connecting
    retry            free, pausing               failures in a row; `refresh`    pausing: `ready` refuses calls
    (`_retry_at`)                                and a stable connection end it  at once
    main session     opening, open, closed       its transport (`lose`), the     closed: the link goes to error,
    (`main`)                                     task                            all caller sessions end
    caller sessions  opening, open, closed       calls; the oldest idle one      begin after the main session,
    (`callers`)                                  makes room for a new one        end no later than it
    listing          fresh, stale (each kind)    `list_changed`, age, a new      stale: listed before the next call;
    (`listed_at`)                                session; `_list`                no list of tools: the session ends
    breaker          closed, open, on trial      calls (`Connection`); a list    opens: the tools are listed at once,
    (`breaker`)                                  lets all try again              so a dead session is found out
    lease            here, elsewhere, free       the database; `Pool.lose`       elsewhere: disconnected, and the
    (`_has_right`)   (of a single child)                                         pool passes calls on
    end              serving, retired, stopping  `retire` when its row changed,  retired: calls under way go on, the
    (`_is_retired`)                              `stop`                          successor reports the state
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from datetime import UTC, datetime

from sessions_app.protocol import errors, mcp_apps
from tools_catalog.upstream import bridge, children, listing
from tools_catalog.upstream.breaker import Breaker, Retries
from tools_catalog.upstream.callers import CallerSessions
from tools_catalog.upstream.client import UpstreamClient
from tools_catalog.upstream.further import FurtherReader
from tools_catalog.upstream.keeping import OfferKeeper
from tools_catalog.upstream.link import ConnectionEnvironment, HeldElsewhere, Link
from tools_catalog.upstream.opening import SessionOpener
from tools_catalog.upstream.scrubbing import Scrubber
from tools_catalog.upstream.spec import STDIO, ConnectionSpec
from tools_catalog.upstream.states import LinkState, advance
from tools_catalog.upstream.transports.base import SessionLost

logger = logging.getLogger(__name__)

_ELSEWHERE_SECONDS = 3.0
"""Between two attempts to run the one child of the hub where it is to run always."""
_LONGEST_WISH_SECONDS = 300.0
"""Of a `Retry-After` that an upstream answered when it was to be connected."""
_SETTLE_SECONDS = 0.2
"""Changes of the list that come within it are looked at once."""


class Supervisor:
    """`start` it on the event loop, `stop` it there. `under_way` and `last_call` are maintained by the caller."""

    def __init__(self, spec: ConnectionSpec, environment: ConnectionEnvironment) -> None:
        self.spec = spec
        self.link = Link(spec.id)
        self.offers: dict[str, dict[str, listing.Listed]] = {}
        """Kind -> name there -> its definition, as last listed."""
        self._listed_resources: dict[str, listing.Listed] = {}
        self.main: UpstreamClient | None = None
        """The session that everything begins with. `ready` gives it once it is there."""
        self.scrub = Scrubber(environment.secret)
        tell = environment.updated_for_all if spec.is_single else environment.updated
        self._updated: Callable[[str], None] = lambda uri: tell(mcp_apps.apart(spec.slug, uri))
        self.opener = SessionOpener(
            spec, environment, self.scrub, self.link, list_changed=self.list_changed, updated=self._updated
        )
        self.callers = CallerSessions(spec, self.opener.like)
        self.keeper = OfferKeeper(spec, environment.discovered, environment.discovered_by)
        self._further = FurtherReader(spec, self.scrub, environment.further, self.keeper.take, self._took)
        self.loop = asyncio.get_running_loop()
        self.breaker = Breaker(self.loop.time)
        self.under_way = 0
        self.last_call = self.loop.time()
        self.has_suspended: Callable[[], bool] = lambda: False
        """Whether calls wait over there that are not under way here."""
        self.also_changed: Callable[[], None] = lambda: None
        """Called with each change of the offers."""
        self.ended = asyncio.Event()
        """Set whenever a call ends."""
        self._environment = environment
        self._kinds = (*listing.KINDS, *environment.further)
        self.listed_at = dict.fromkeys(self._kinds, float("-inf"))
        """Kind -> when it was listed. No call is made on a list that is too old."""
        self._listing = asyncio.Lock()
        self._subscribed: frozenset[str] = frozenset()
        self._to_report_anew: frozenset[str] = frozenset()
        """The subscriptions of the previous session: they may have changed in between."""
        self._wanted = asyncio.Event()
        self._wake = asyncio.Event()
        self._hurry = asyncio.Event()
        self._changed = asyncio.Event()
        self._again = asyncio.Event()
        """A call came although another process runs the child: it may be gone."""
        self._retry_at = 0.0
        self.is_elsewhere = False
        """Another process runs the one child of the hub, as far as is known."""
        self._is_stopping = False
        self._is_retired = False
        self._task: asyncio.Task[None] | None = None

    def start(self, after: asyncio.Task[None] | None = None) -> None:
        """Begin, once `after` has ended: its predecessor, if there may be one child only."""
        if self.spec.starts_eagerly:
            self._wanted.set()
        self._task = asyncio.create_task(self._supervise(after), name=f"mcphub-upstream-{self.spec.slug}-supervisor")

    def want(self) -> None:
        """Connect now, whether or not a call comes."""
        self._wanted.set()

    def refresh(self) -> None:
        """List the offers again, now: a pause after failures ends."""
        self._retry_at = 0.0
        self._hurry.set()
        self.list_changed(*listing.KINDS)
        self.want()

    def lose(self, why: str) -> None:
        """End the session, where there is one: it is not this process's any more."""
        if self.main is not None:
            self.main.lose(why)

    def list_changed(self, *kinds: str) -> None:
        """Lists of these kinds no longer count, for calls that begin from now on."""
        self.listed_at.update(dict.fromkeys(kinds, float("-inf")))
        self.also_changed()
        if listing.RESOURCE in kinds:
            self._further.again()
        self._wake.set()

    def subscribe(self, uris: frozenset[str]) -> None:
        """Request notifications about changes of these resources, and of no others."""
        if uris != self._subscribed:
            self._subscribed = uris
            self._wake.set()
            if uris:
                self.want()

    async def retire(self) -> None:
        """End once the calls under way have ended. Another connection may stand in its place at once."""
        # The right to the one child of a hub is given up with the state, so it keeps that until the child is gone.
        if self.link.status is not LinkState.DISCONNECTED and not self.spec.is_single:
            self._to(LinkState.DISCONNECTED)
        self._is_retired = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._environment.lasts_seconds):
                while self.under_way:
                    self.ended.clear()
                    await self.ended.wait()
        self._is_retired = not self.spec.is_single
        await self.stop()

    async def stop(self) -> None:
        """End all of it, children included, and report so."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._end_sessions()
        await self.keeper.end()
        if self.link.status is not LinkState.DISCONNECTED:
            self._to(LinkState.DISCONNECTED)
        self._tell_waiting()

    async def ready(self) -> UpstreamClient:
        """Return the session that everything begins with, once it is there. Raises ConnectionFailed."""
        while True:
            main = self.main
            is_up = self.link.status is LinkState.CONNECTED or self._is_retired
            is_there = is_up and main is not None and not main.closed.is_set()
            if main is not None and is_there:
                return main
            if self._is_stopping or self._is_retired:
                raise errors.ConnectionFailed(f"The connection {self.spec.slug} was changed or switched off.")
            left = self._retry_at - self.loop.time()
            if self.link.status is LinkState.ERROR and left > 0:
                raise errors.ConnectionFailed(
                    f"{self.spec.slug} cannot be reached: {self.link.error_message} The hub tries again in "
                    f"{max(1, round(left))} s.",
                    connection=self.spec.slug,
                )
            self._wanted.set()
            self._again.set()
            await self._changed.wait()
            if self.is_elsewhere:
                raise HeldElsewhere("Another process of the hub runs its one child, and cannot be reached. Try again.")

    async def list_again(self, kind: str) -> None:
        """List the offers of a kind, as its list is too old for a call. Calls wait for one listing."""
        asked = self.loop.time()
        async with self._listing:
            if self.listed_at[kind] >= asked or self.main is None:
                return
            if kind in listing.KINDS:
                await self._list(self.main, kind)
            else:
                await self._further.read_now(self.main)

    def _took(self, offers: listing.Offers, began: float) -> None:
        self.offers |= {kind: dict(listed) for kind, listed in offers.items()}
        self.listed_at |= dict.fromkeys(offers, began)

    # The task ----------------------------------------------------------------------------------------

    async def _supervise(self, after: asyncio.Task[None] | None) -> None:
        retries = Retries()
        if after is not None:
            await asyncio.wait({after})
        while True:
            await self._wanted.wait()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._retry_at):
                    await self._hurry.wait()
            self._hurry.clear()
            self.is_elsewhere = not await self._has_right()
            if self.is_elsewhere:
                await self._leave_it()
                continue
            self._to(LinkState.CONNECTING)
            connected_at: float | None = None
            try:
                # It lists for all: some servers offer a tool only to a client that can be asked what it asks.
                everything = bridge.permitted(bridge.EVERYTHING, self.spec.asking)
                main = self.main = await self.opener.main(everything)
                async with self._listing, asyncio.timeout(self.spec.connect_seconds):
                    await self._list(main, *listing.KINDS)
                if retries.failures and self.link.connected_at is not None:  # it was lost, and did not end idle
                    self.link.count_reconnect()
                self._connected(main)
                connected_at = self.loop.time()
                await self._keep(main)
            except Exception as error:
                stood = None if connected_at is None else self.loop.time() - connected_at
                await self._failed(error, retries.failed(stood))
            else:
                retries.ended_well()
                self._wanted.clear()
                await self._end_sessions()
                self._to(LinkState.DISCONNECTED)

    async def _has_right(self) -> bool:
        """Take the right to run the child, where the hub has only one."""
        if not self.spec.is_single or self._environment.lease is None:
            return True
        try:
            if not await self._environment.lease(self.spec.id):
                return False
            # Who had it before may have been killed, and its child be alive.
            await asyncio.to_thread(children.remove_orphans)
        except Exception as error:
            logger.warning("Nobody says who runs the child of %s: %s", self.spec.slug, error)
            return False
        return True

    async def _leave_it(self) -> None:
        """Leave the child to the process that runs it, until a call comes or, if it is to run always, a while."""
        self._again.clear()
        if self.link.status is not LinkState.DISCONNECTED:
            self.link.error_message = ""
            self._to(LinkState.DISCONNECTED)
        self._tell_waiting()
        if not self.spec.starts_eagerly and not self._subscribed:
            self._wanted.clear()
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ELSEWHERE_SECONDS):
                await self._again.wait()

    async def _list(self, main: UpstreamClient, *kinds: str) -> None:
        offers: dict[str, dict[str, listing.Listed]] = {}
        began = self.loop.time()
        for kind in kinds:
            try:
                offers[kind] = listing.read(self.scrub.value(await main.list_offers(kind)), kind)
            except (listing.ListingInvalid, errors.UpstreamError, errors.ResultInvalid) as error:
                if kind == listing.TOOL:
                    raise errors.UpstreamError(str(error)) from error
                # Its tools work; what it reads like stays as it was listed before.
                logger.warning("The upstream %s does not list its %ss: %s", self.spec.slug, kind, error)
            except SessionLost as error:
                raise errors.TransportError(str(error)) from error
            self.listed_at[kind] = began
        if main.era.has(listing.RESOURCE):
            self._add_views(offers)
        if self.link.error_message != (cut := " ".join(main.cut.values())):
            self.link.error_message, self.link.is_dirty = cut[:1000], True
        self.breaker.answered()
        news = {kind: listed for kind, listed in offers.items() if listed != self.offers.get(kind)}
        if self.link.connected_at is None:
            news = offers
        self.offers |= offers
        if news:
            self.keeper.take(news)

    def _add_views(self, offers: dict[str, dict[str, listing.Listed]]) -> None:
        """Treat the views that tools name as resources, whether the upstream lists those or not."""
        self._listed_resources = offers.get(listing.RESOURCE, self._listed_resources)
        now = self.offers | offers
        tools = now.get(listing.TOOL, {}).values()
        offers[listing.RESOURCE] = listing.with_views(self._listed_resources, now.get(listing.TEMPLATE, {}), tools)

    async def _keep(self, main: UpstreamClient) -> None:
        """Watch over the session. Returns where nobody needs it any more; raises TransportError where it is lost."""
        lost = asyncio.ensure_future(main.closed.wait())
        reading = asyncio.ensure_future(self._further.read_on(main))
        try:
            await self._follow(main)
            while True:
                waiting = asyncio.ensure_future(self._wake.wait())
                try:
                    await asyncio.wait({lost, waiting}, timeout=self._until_next(), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    waiting.cancel()
                if lost.done():
                    raise errors.TransportError(main.why_closed or "The connection ended.")
                if self._wake.is_set():
                    await asyncio.sleep(_SETTLE_SECONDS)
                    self._wake.clear()
                if self._idles_at() <= self.loop.time():
                    return
                if due := [kind for kind in listing.KINDS if self._refreshes_at(kind) <= self.loop.time()]:
                    async with self._listing, asyncio.timeout(self.spec.connect_seconds):
                        await self._list(main, *due)
                await self._follow(main)
        finally:
            lost.cancel()
            reading.cancel()

    async def _follow(self, main: UpstreamClient) -> None:
        """Subscribe to the wanted resources. Resources subscribed to before a loss may have changed meanwhile."""
        if main.subscribed != self._subscribed:
            async with asyncio.timeout(self.spec.connect_seconds):
                await main.subscribe(self._subscribed)
        for uri in self._to_report_anew & self._subscribed:
            self._updated(uri)
        self._to_report_anew = frozenset()

    def _until_next(self) -> float | None:
        moment = min(self._idles_at(), *map(self._refreshes_at, listing.KINDS))
        return None if moment == float("inf") else max(0.01, moment - self.loop.time())

    def _idles_at(self) -> float:
        if self.spec.starts_eagerly or not self.spec.idle_seconds or self._subscribed:
            return float("inf")
        # Nobody wakes the supervisor when a call ends, so while one is under way it looks again after that time.
        is_used = self.under_way or self._further.is_reading or self.has_suspended()
        return (self.loop.time() if is_used else self.last_call) + self.spec.idle_seconds

    def _refreshes_at(self, kind: str) -> float:
        # With 0 each call lists for itself.
        if not self.spec.refresh_seconds and self.listed_at[kind] != float("-inf"):
            return float("inf")
        return self.listed_at[kind] + self.spec.refresh_seconds

    async def _failed(self, error: Exception, pause: float) -> None:
        if isinstance(error, errors.HubError):
            words = self.scrub.text(str(error))
        elif isinstance(error, TimeoutError):
            words = "The upstream did not list its tools in time."
        else:
            logger.error("The connection to %s failed", self.spec.slug, exc_info=error)
            words = type(error).__name__
        logger.warning("The upstream %s: %s", self.spec.slug, words)
        if self.main is not None:
            self.link.stderr = self.scrub.text(str(self.main.last_words))
        if isinstance(error, errors.HubError) and error.retry_after_seconds is not None:
            pause = max(pause, min(error.retry_after_seconds, _LONGEST_WISH_SECONDS))
        self._retry_at = self.loop.time() + pause
        is_child = self.spec.transport == STDIO
        if is_child and not self.spec.starts_eagerly and not self._subscribed and self.link.connected_at is not None:
            # The next call starts it again. A server is tried on, so that it is there when a call comes; so is what
            # never was there: nobody can call what is not known.
            self._wanted.clear()
        await self._end_sessions()
        self.link.error_message = words[:1000]
        self._to(LinkState.ERROR)

    def _connected(self, main: UpstreamClient) -> None:
        self.link.protocol_version = main.era.version
        self.link.server = self.scrub.text(main.era.server)
        self.link.connected_at = datetime.now(UTC)
        self.last_call = self.loop.time()
        self._to(LinkState.CONNECTED)

    async def _end_sessions(self) -> None:
        main, self.main = self.main, None
        self._to_report_anew = self._subscribed if main is not None and main.subscribed else self._to_report_anew
        await self.callers.end()
        if main is not None:
            await main.close()
        self.listed_at = dict.fromkeys(self._kinds, float("-inf"))

    def _to(self, state: LinkState) -> None:
        if self._is_retired:
            return  # its successor says how things stand
        self.link.status = advance(self.link.status, state)
        self._environment.report(self.link)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()
