"""One upstream as this process holds it, and the calls to it: so many at once, checked, judged.

A call finds a session that is there already; the handshake is paid for once, by the supervisor.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sessions_app.protocol import errors
from sessions_app.protocol.tasks import TaskSupport
from tools_catalog.backends.base import ToolContext
from tools_catalog.upstream import appeals, bridge, core_tasks, tasks
from tools_catalog.upstream.calls import SessionLost
from tools_catalog.upstream.link import HeldElsewhere, Link, Offer, ParkedElsewhere, Surroundings
from tools_catalog.upstream.listing import PROMPT, RESOURCE, TEMPLATE, TOOL, Listed
from tools_catalog.upstream.parking import Lot, keeper
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.states import LinkState
from tools_catalog.upstream.supervisor import Supervisor

if TYPE_CHECKING:
    from tools_catalog.upstream.session import Session

_LEFT_SECONDS = 0.25
"""A call that is cancelled with less time left ran into its deadline."""


COMPLETE = "completion/complete"
"""It asks nobody."""
_WORDS = {TOOL: "tool", RESOURCE: "resource", TEMPLATE: "resource template", PROMPT: "prompt"}


class Connection:
    """`start` it on the event loop, `stop` it there."""

    def __init__(self, spec: ConnectionSpec, around: Surroundings) -> None:
        self.spec = spec
        self._up = Supervisor(spec, around)
        self._around = around
        self._lot = Lot(around.answer_seconds, around.process_id)
        self._up.is_parking = lambda: bool(self._lot)
        self._slots = asyncio.Semaphore(spec.max_concurrent)
        self._waiting = 0
        self.start = self._up.start
        self.lose = self._up.lose
        self.want, self.refresh, self.subscribe = self._up.want, self._up.refresh, self._up.subscribe

    async def stop(self) -> None:
        """End everything of it, children included, and say so."""
        await self._lot.end()
        await self._up.stop()

    async def retire(self) -> None:
        """End once the calls under way have ended. Another connection may stand in its place at once."""
        await self._up.retire()
        await self._lot.end()

    @property
    def is_used(self) -> bool:
        """Whether it is or was connected, or tries to be."""
        return self.link.connected_at is not None or self.link.status is not LinkState.DISCONNECTED

    @property
    def link(self) -> Link:
        return self._up.link

    async def request(self, method: str, params: dict[str, Any], context: ToolContext, offer: Offer) -> dict[str, Any]:
        """Send a request about what the upstream offers; give its result as it came.

        Raises a HubError; HeldElsewhere and ParkedElsewhere where another process of the hub has to send it.
        """
        pause = self._up.breaker.wait_seconds()
        if pause > 0:
            raise errors.ConnectionFailed(
                f"Calls of {self.spec.slug} failed {self._up.breaker.failures} times in a row, so it is left alone for "
                f"{max(1, round(pause))} s. Try again then.",
                connection=self.spec.slug,
            )
        self.link.calls += 1
        self.link.last_used_at = datetime.now(UTC)
        self.link.is_dirty = True
        reached = False
        try:
            async with self._slot():
                main = await self._up.ready()
                reached = True
                result: dict[str, Any] = self._up.scrub.value(await self._made(main, method, params, context, offer))
            if tasks.is_task(result):  # which takes none of the places for calls
                result = await self._followed(tasks.id_of(result), context)
            elif core_tasks.is_task(result):
                result = await self._core_followed(result["taskId"], context)
        except (HeldElsewhere, ParkedElsewhere):
            self.link.calls -= 1
            self._up.breaker.left()
            raise
        except asyncio.CancelledError:
            self._judge(reached and context.remaining_seconds() < _LEFT_SECONDS, reached)
            raise
        except (errors.ConnectionFailed, errors.TransportError) as error:
            self._up.scrub.error(error)
            self._judge(True, reached)
            if reached and isinstance(error, errors.ConnectionFailed) and self._up.main is not None:
                self._up.main.lose(str(error))
            raise
        except errors.HubError as error:
            self._up.scrub.error(error)
            self._judge(False, reached)
            if isinstance(error, errors.UpstreamError):
                await appeals.pass_on(error, context, may_ask=self.spec.may_ask)
            raise
        else:
            self._judge(False, reached)
            return result

    async def _made(
        self, main: Session, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Make the request. A call that may ask a client without a session waits where the upstream has sessions."""
        if main.is_modern or not self.spec.may_ask or method == COMPLETE or not context.client_capabilities:
            return await self._request(main, method, params, context, offer)
        if name := context.parked:
            if keeper(name) != self._around.process_id:
                raise ParkedElsewhere(keeper(name))
        elif not (self._around.is_found() and context.park("")):
            return await self._request(main, method, params, context, offer)

        async def whole(there: ToolContext) -> dict[str, Any]:
            result = await self._request(main, method, params, there, offer)
            if core_tasks.is_task(result):
                return await self._core_followed(result["taskId"], there)
            return result

        return await self._lot.call(context, whole)

    async def _request(
        self, main: Session, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        for _ in range(2):
            listed = await self._check(offer)
            session = await self._up.callers.session_for(main, context)
            began = self._up.loop.time()
            if method == "tools/call" and (task_id := tasks.parked(context)):
                return {"resultType": "task", "taskId": task_id}  # there is one already
            try:
                if method == "tools/call" and session.takes_core_tasks:
                    result = await self._core_call(session, params, context, listed)
                else:
                    result = await self._call(session, method, params, context)
                if result.get("resultType", "complete") == "input_required":
                    result = await self._go_on(session, method, params, result, context)
            except SessionLost:  # nothing ran: once more, on a new session
                main = await self._up.ready()
                continue
            self.link.latency_ms = (self._up.loop.time() - began) * 1000
            return result
        raise errors.ConnectionFailed("The upstream ends each session at once. Try again.")

    async def _call(
        self, session: Session, method: str, params: dict[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        """Send the request; let it be a task where the client can follow one, or where it runs no other way."""
        if method != "tools/call" or not session.offers_tasks:
            return await session.request(method, params, context)
        if context.may_be_task:
            return await session.request(method, params, context, follows_tasks=True)
        try:
            return await session.request(method, params, context)
        except errors.UpstreamError as error:
            if not tasks.needs_tasks(error):
                raise
            return await session.request(method, params, context, follows_tasks=True)

    async def _core_call(
        self, session: Session, params: dict[str, Any], context: ToolContext, listed: Listed
    ) -> dict[str, Any]:
        """Make a call that asks for a task where the tool demands it, or where the call is a task here."""
        support = core_tasks.support_of(listed.definition)
        as_task = support == TaskSupport.REQUIRED or (support == TaskSupport.OPTIONAL and context.is_task)
        if as_task:
            params = core_tasks.wanted(params, context.remaining_seconds())
        return core_tasks.read(await session.request("tools/call", params, context), asked_for=as_task)

    async def _core_followed(self, task_id: str, context: ToolContext) -> dict[str, Any]:
        known: set[Session] = set()

        async def send(method: str, params: dict[str, Any]) -> dict[str, Any]:
            # A session that ended need not have taken the task with it.
            session = await self._up.callers.session_for(await self._up.ready(), context)
            if session not in known:
                known.add(session)
                following.enter_context(session.calls.following(task_id, context))
            try:
                with session.calls.asking_about(context):
                    found: dict[str, Any] = self._up.scrub.value(await session.request(method, params))
                return found
            except (SessionLost, HeldElsewhere) as error:
                raise errors.TransportError(f"The connection broke within the call. {error}".strip()) from error
            except errors.UpstreamError as error:
                if len(known) > 1:
                    raise tasks.TaskLost from error
                raise

        with self._busy(), ExitStack() as following:
            return await core_tasks.Following(task_id, send, context).end()

    async def _followed(self, task_id: str, context: ToolContext) -> dict[str, Any]:
        known: set[Session] = set()

        async def send(method: str, params: dict[str, Any]) -> dict[str, Any]:
            try:
                main = await self._up.ready()
                if not main.offers_tasks:
                    raise errors.ConnectionFailed("The upstream has no tasks any more.")
                known.add(main)
                found: dict[str, Any] = self._up.scrub.value(
                    await main.request(method, params, context, follows_tasks=True)
                )
                return found
            except SessionLost as error:
                raise errors.ConnectionFailed(str(error)) from error
            except errors.UpstreamError as error:
                if len(known) > 1:
                    raise tasks.TaskLost from error
                raise

        with self._busy():
            return await tasks.Following(task_id, send, context, may_ask=self.spec.may_ask).end()

    async def _go_on(
        self, session: Session, method: str, params: dict[str, Any], result: dict[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        async def repeat(more: dict[str, Any]) -> dict[str, Any]:
            try:
                return await self._call(session, method, {**params, **more}, context)
            except SessionLost as error:
                raise errors.TransportError(str(error)) from error

        return await bridge.answered(result, repeat, context, may_ask=self.spec.may_ask)

    def _judge(self, failed: bool, reached: bool) -> None:
        breaker, link = self._up.breaker, self.link
        was_open, before = breaker.is_open, breaker.failures
        self._count(failed, reached)
        if breaker.failures == before and breaker.is_open == was_open:
            return
        link.failed_in_a_row, link.is_dirty = breaker.failures, True
        pause = timedelta(seconds=breaker.left_seconds)
        link.paused_until = datetime.now(UTC) + pause if breaker.is_open else None
        if breaker.is_open or was_open:
            self._around.report(link)

    def _count(self, failed: bool, reached: bool) -> None:
        if not reached:
            self._up.breaker.left()  # the supervisor's own pauses are for what cannot be connected to
        elif failed:
            was_open = self._up.breaker.is_open
            self._up.breaker.failed()
            self.link.failures += 1
            if self._up.breaker.is_open and not was_open:
                self._up.list_changed(
                    TOOL
                )  # one that still lists its tools is well; one that does not is connected anew
        else:
            self._up.breaker.succeeded()

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
        try:
            with self._busy():
                yield
        finally:
            self._slots.release()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """The connection is not idle, and not ended under a call."""
        self._up.under_way += 1
        try:
            yield
        finally:
            self._up.under_way -= 1
            self._up.ended.set()
            self._up.last_call = self._up.loop.time()

    async def _check(self, offer: Offer) -> Listed:
        """Give what the upstream offers, as it was approved, by a list that is not too old. Raises ToolDisabled."""
        await self._up.listed_lately(offer.kind)
        what, name = _WORDS[offer.kind], offer.name[:100]
        listed = self._up.offers.get(offer.kind, {}).get(offer.name)
        if listed is None:
            raise errors.ToolDisabled(f"The upstream no longer offers the {what} {name}. Tell the hub's operator.")
        if listed.refusal or not offer.approval.covers(listed):
            raise errors.ToolDisabled(
                f"The upstream changed the {what} {name} since it was approved, so it is not asked for it. "
                "The hub's operator can look at the difference and approve it.",
            )
        return listed
