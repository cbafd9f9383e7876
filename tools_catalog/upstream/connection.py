"""One upstream as this process holds it: connected when needed, kept warm, tried again with patience.

A call finds a session that is there already; the handshake is paid for once. One task supervises: it connects,
lists the tools, follows their changes, ends what nobody uses, and waits longer after each failure in a row.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from sessions_app.protocol import errors
from tools_catalog.backends.base import ToolContext
from tools_catalog.upstream import bridge, listing
from tools_catalog.upstream.breaker import Breaker, backoff
from tools_catalog.upstream.bridge import Abilities
from tools_catalog.upstream.calls import SessionLost
from tools_catalog.upstream.link import Approval, Link, Surroundings
from tools_catalog.upstream.spec import STDIO, ConnectionSpec
from tools_catalog.upstream.states import LinkState, advance

if TYPE_CHECKING:
    from tools_catalog.upstream.session import Session

logger = logging.getLogger(__name__)

_LEFT_SECONDS = 0.25
"""A call that is cancelled with less time left ran into its deadline."""
_STABLE_SECONDS = 10.0
"""A connection that lasted so long begins to count its failures anew."""
_SETTLE_SECONDS = 0.2
"""Changes of the list that come within it are looked at once."""


class Connection:
    """`start` it on the event loop, `stop` it there."""

    def __init__(self, spec: ConnectionSpec, around: Surroundings) -> None:
        self.spec = spec
        self.link = Link(spec.id)
        self.tools: dict[str, listing.Listed] = {}
        self._around = around
        self._loop = asyncio.get_running_loop()
        self._breaker = Breaker(self._loop.time)
        self._slots = asyncio.Semaphore(spec.max_concurrent)
        self._waiting = 0
        self._main: Session | None = None
        self._others: dict[Any, asyncio.Task[Session]] = {}
        self._listed_at = float("-inf")
        self._listing = asyncio.Lock()
        self._wanted = asyncio.Event()
        self._wake = asyncio.Event()
        self._changed = asyncio.Event()
        self._retry_at = 0.0
        self._last_call = self._loop.time()
        self._under_way = 0
        self._ended = asyncio.Event()
        self._is_stopping = False
        self._is_retired = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        if self.spec.starts_eagerly:
            self._wanted.set()
        self._task = asyncio.create_task(self._supervise(), name=f"mcphub-upstream-{self.spec.slug}-supervisor")

    def want(self) -> None:
        """Connect now, whether or not a call comes."""
        self._wanted.set()

    async def retire(self) -> None:
        """End once the calls under way have ended. Another connection may stand in its place at once."""
        if self.link.status is not LinkState.DISCONNECTED:
            self._to(LinkState.DISCONNECTED)
        self._is_retired = True
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._around.lasts_seconds):
                while self._under_way:
                    self._ended.clear()
                    await self._ended.wait()
        await self.stop()

    async def stop(self) -> None:
        """End everything of it, children included, and say so."""
        self._is_stopping = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._end_sessions()
        if self.link.status is not LinkState.DISCONNECTED:
            self._to(LinkState.DISCONNECTED)
        self._tell_waiting()

    # Calls -------------------------------------------------------------------------------------------

    async def call(self, name: str, params: dict[str, Any], context: ToolContext, approval: Approval) -> dict[str, Any]:
        """Call a tool and give the upstream's result as it came. Raises a HubError."""
        pause = self._breaker.wait_seconds()
        if pause > 0:
            raise errors.ConnectionFailed(
                f"Calls of {self.spec.slug} failed {self._breaker.failures} times in a row, so it is left alone for "
                f"{max(1, round(pause))} s. Try again then.",
                connection=self.spec.slug,
            )
        self.link.calls += 1
        self.link.last_used_at = datetime.now(UTC)
        self.link.is_dirty = True
        reached = False
        try:
            async with self._slot():
                main = await self._ready()
                reached = True
                return await self._call(main, name, params, context, approval)
        except asyncio.CancelledError:
            self._judge(reached and context.remaining_seconds() < _LEFT_SECONDS, reached)
            raise
        except (errors.ConnectionFailed, errors.TransportError) as error:
            self._judge(True, reached)
            if reached and isinstance(error, errors.ConnectionFailed) and self._main is not None:
                self._main.lose(str(error))
            raise
        except errors.HubError:
            self._judge(False, reached)
            raise
        else:
            self._judge(False, reached)

    async def _call(
        self, main: Session, name: str, params: dict[str, Any], context: ToolContext, approval: Approval
    ) -> dict[str, Any]:
        for _ in range(2):
            await self._check(name, approval)
            session = await self._session_for(main, context)
            began = self._loop.time()
            try:
                wants_progress = context.meta is not None and "progressToken" in context.meta
                with session.calls.under_way(context):
                    result = await session.request("tools/call", params, context.progress if wants_progress else None)
                    if result.get("resultType", "complete") == "input_required":
                        result = await self._go_on(session, params, result, context)
            except SessionLost:  # nothing ran: once more, on a new session
                main = await self._ready()
                continue
            self.link.latency_ms = (self._loop.time() - began) * 1000
            return result
        raise errors.ConnectionFailed("The upstream ends each session at once. Try again.")

    async def _go_on(
        self, session: Session, params: dict[str, Any], result: dict[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        async def repeat(more: dict[str, Any]) -> dict[str, Any]:
            try:
                return await session.request("tools/call", {**params, **more}, context.progress)
            except SessionLost as error:
                raise errors.TransportError(str(error)) from error

        return await bridge.answered(result, repeat, context, may_ask=self.spec.may_ask)

    def _judge(self, failed: bool, reached: bool) -> None:
        if not reached:
            self._breaker.left()  # the supervisor's own pauses are for what cannot be connected to
        elif failed:
            was_open = self._breaker.is_open
            self._breaker.failed()
            self.link.failures += 1
            if self._breaker.is_open and not was_open:
                self._list_changed()  # one that still lists its tools is well; one that does not is connected anew
        else:
            self._breaker.succeeded()

    @asynccontextmanager
    async def _slot(self) -> AsyncIterator[None]:
        """One of the calls that the upstream may have at once: a slow one takes no other's place."""
        if self._slots.locked() and self._waiting >= self.spec.max_waiting:
            raise errors.ConnectionFailed(
                f"{self.spec.slug} is busy with {self.spec.max_concurrent} calls and {self._waiting} wait. Try again.",
                connection=self.spec.slug,
            )
        self._waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self._waiting -= 1
        self._under_way += 1
        try:
            yield
        finally:
            self._slots.release()
            self._under_way -= 1
            self._ended.set()
            self._last_call = self._loop.time()

    async def _ready(self) -> Session:
        """Give the session that everything begins with, once it is there."""
        while True:
            main = self._main
            is_up = self.link.status is LinkState.CONNECTED or self._is_retired
            is_there = is_up and main is not None and not main.closed.is_set()
            if main is not None and is_there:
                return main
            if self._is_stopping or self._is_retired:
                raise errors.ConnectionFailed(f"The connection {self.spec.slug} was changed or switched off.")
            left = self._retry_at - self._loop.time()
            if self.link.status is LinkState.ERROR and left > 0:
                raise errors.ConnectionFailed(
                    f"{self.spec.slug} cannot be reached: {self.link.error_message} The hub tries again in "
                    f"{max(1, round(left))} s.",
                    connection=self.spec.slug,
                )
            self._wanted.set()
            await self._changed.wait()

    async def _check(self, name: str, approval: Approval) -> None:
        """Raise unless the upstream offers the tool as it was approved, by a list that is not too old."""
        if self._loop.time() - self._listed_at > self.spec.refresh_seconds:
            asked = self._loop.time()
            async with self._listing:
                if self._listed_at < asked and self._main is not None:
                    await self._list(self._main)
        tool = self.tools.get(name)
        if tool is None:
            raise errors.ToolDisabled(f"The upstream no longer offers the tool {name[:100]}. Tell the hub's operator.")
        if tool.refusal or not approval.covers(tool):
            raise errors.ToolDisabled(
                f"The upstream changed the tool {name[:100]} since it was approved, so it is not called. "
                "The hub's operator can look at the difference and approve it.",
            )

    async def _session_for(self, main: Session, context: ToolContext) -> Session:
        """Give the session for a call: no two callers share one that holds state, and each says what its client can."""
        if self.spec.transport == STDIO:
            return main  # a process is one session
        can_ask = bridge.abilities(context) if self.spec.may_ask else frozenset()
        owner = context.caller_principal if self.spec.separates_callers and not main.is_modern else ""
        if not owner and not self.spec.may_ask:
            return main
        key = (owner, can_ask)
        known = self._others.get(key)
        if known is not None and not _is_spent(known):
            return await asyncio.shield(known)
        if len(self._others) >= self.spec.max_sessions:
            await self._end_oldest()
        opening = asyncio.create_task(self._open(like=main, can_ask=can_ask))
        opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        self._others[key] = opening
        return await asyncio.shield(opening)

    # Supervision -------------------------------------------------------------------------------------

    async def _supervise(self) -> None:
        failures = 0
        while True:
            await self._wanted.wait()
            pause = self._retry_at - self._loop.time()
            if pause > 0:
                await asyncio.sleep(pause)
            self._to(LinkState.CONNECTING)
            began = self._loop.time()
            is_connected = False
            try:
                await self._lease()
                # It lists for all: some servers offer a tool only to a client that can be asked what it asks.
                everything = bridge.EVERYTHING if self.spec.may_ask else frozenset()
                main = self._main = await self._open(can_ask=everything)
                async with self._listing, asyncio.timeout(self.spec.connect_seconds):
                    await self._list(main)
                if failures or self.link.connected_at is not None:
                    self.link.restarts += 1
                self._connected(main)
                is_connected = True
                await self._keep(main)
            except Exception as error:
                if self._loop.time() - began > _STABLE_SECONDS:
                    failures = 0
                failures += 1
                # What worked a moment ago is tried again at once, the first time.
                await self._failed(error, 0.0 if is_connected and failures == 1 else backoff(failures))
            else:
                failures = 0
                self._wanted.clear()
                await self._end_sessions()
                self._to(LinkState.DISCONNECTED)

    async def _lease(self) -> None:
        is_single = self.spec.launch is not None and self.spec.launch.is_single
        if is_single and self._around.lease is not None and not await self._around.lease(self.spec.id):
            raise errors.ConnectionFailed(
                "Its launch profile allows one child in the whole hub, and another process of the hub runs it."
            )

    async def _open(self, like: Session | None = None, can_ask: Abilities = frozenset()) -> Session:
        # A third of a second and thirty megabytes: only hubs with upstreams pay, and not on the loop.
        module = await asyncio.to_thread(importlib.import_module, "tools_catalog.upstream.session")
        session: Session = module.Session(
            self.spec, self._around.secret, self._around.version, lasts_seconds=self._around.lasts_seconds,
            list_changed=self._list_changed, like=like, can_ask=can_ask,
        )  # fmt: skip
        try:
            await session.open()
        except errors.HubError:
            self.link.stderr = str(session.last_words)
            raise
        return session

    async def _list(self, main: Session) -> None:
        began = self._loop.time()
        try:
            tools = listing.read(await main.list_tools())
        except listing.ListingInvalid as error:
            raise errors.UpstreamError(str(error)) from error
        except SessionLost as error:
            raise errors.TransportError(str(error)) from error
        self._listed_at = began
        self._breaker.succeeded()
        is_news = tools != self.tools or self.link.connected_at is None
        self.tools = tools
        if is_news and self._around.discovered is not None:
            try:
                await self._around.discovered(self.spec.id, tools)
            except Exception:
                logger.exception("What %s offers could not be compared with the catalogue", self.spec.slug)

    async def _keep(self, main: Session) -> None:
        """Watch over the session. Returns where nobody needs it any more; raises TransportError where it is lost."""
        lost = asyncio.ensure_future(main.closed.wait())
        try:
            while True:
                waiting = asyncio.ensure_future(self._wake.wait())
                await asyncio.wait({lost, waiting}, timeout=self._until_next(), return_when=asyncio.FIRST_COMPLETED)
                waiting.cancel()
                if lost.done():
                    raise errors.TransportError(main.why_closed or "The connection ended.")
                if self._wake.is_set():
                    await asyncio.sleep(_SETTLE_SECONDS)
                    self._wake.clear()
                if self._idles_at() <= self._loop.time():
                    return
                if self._refreshes_at() <= self._loop.time():
                    async with self._listing, asyncio.timeout(self.spec.connect_seconds):
                        await self._list(main)
        finally:
            lost.cancel()

    def _until_next(self) -> float | None:
        moment = min(self._idles_at(), self._refreshes_at())
        return None if moment == float("inf") else max(0.01, moment - self._loop.time())

    def _idles_at(self) -> float:
        if self.spec.starts_eagerly or not self.spec.idle_seconds or self._under_way:
            return float("inf")
        return self._last_call + self.spec.idle_seconds

    def _refreshes_at(self) -> float:
        # With 0 each call lists for itself.
        if not self.spec.refresh_seconds and self._listed_at != float("-inf"):
            return float("inf")
        return self._listed_at + self.spec.refresh_seconds

    def refresh(self) -> None:
        """List the tools again, now."""
        self._retry_at = 0.0
        self._list_changed()
        self.want()

    def _list_changed(self) -> None:
        """What was listed no longer counts, for calls that begin from now on."""
        self._listed_at = float("-inf")
        self._wake.set()

    async def _failed(self, error: Exception, pause: float) -> None:
        if isinstance(error, errors.HubError):
            words = str(error)
        elif isinstance(error, TimeoutError):
            words = "The upstream did not list its tools in time."
        else:
            logger.error("The connection to %s failed", self.spec.slug, exc_info=error)
            words = type(error).__name__
        logger.warning("The upstream %s: %s", self.spec.slug, words)
        if self._main is not None:
            self.link.stderr = str(self._main.last_words)
        self._retry_at = self._loop.time() + pause
        if not self.spec.starts_eagerly and self.link.connected_at is not None:
            # The next call wants it again. One that never was there is tried on: nobody can call what is not known.
            self._wanted.clear()
        await self._end_sessions()
        self.link.error_message = words[:1000]
        self._to(LinkState.ERROR)

    def _connected(self, main: Session) -> None:
        self.link.protocol_version = main.protocol_version
        self.link.server = main.server
        self.link.connected_at = datetime.now(UTC)
        self.link.error_message = ""
        self._last_call = self._loop.time()
        self._to(LinkState.CONNECTED)

    async def _end_sessions(self) -> None:
        main, self._main = self._main, None
        others, self._others = list(self._others.values()), {}
        for opening in others:
            opening.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        opened = [task.result() for task in others if not task.cancelled() and not task.exception()]
        await asyncio.gather(*(session.close() for session in [*opened, *([main] if main else [])]))
        self._listed_at = float("-inf")

    async def _end_oldest(self) -> None:
        idle = [
            (task.result().last_used, key) for key, task in self._others.items()
            if task.done() and not task.cancelled() and not task.exception() and not len(task.result().calls)
        ]  # fmt: skip
        if not idle:
            raise errors.ConnectionFailed(f"{self.spec.slug} has as many sessions as it may. Try again.")
        _, key = min(idle)
        await self._others.pop(key).result().close()

    def _to(self, state: LinkState) -> None:
        if self._is_retired:
            return  # its successor says how things stand
        self.link.status = advance(self.link.status, state)
        self._around.report(self.link)
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _is_spent(opening: asyncio.Task[Session]) -> bool:
    if not opening.done():
        return False
    return opening.cancelled() or opening.exception() is not None or opening.result().closed.is_set()
