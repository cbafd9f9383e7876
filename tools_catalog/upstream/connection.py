"""One upstream as this process holds it, and the calls to it: so many at once, checked, judged.

A call finds a session that is there already; the handshake is paid for once, by the supervisor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from sessions_app.kit.places import NoPlace, Places
from sessions_app.protocol import errors
from sessions_app.protocol.tasks import TaskSupport
from tools_catalog.call.context import ToolContext
from tools_catalog.upstream import bridge, core_tasks, tasks, upstream_errors
from tools_catalog.upstream.account import AccountNeeded
from tools_catalog.upstream.link import ConnectionEnvironment, HeldElsewhere, Offer, SuspendedElsewhere
from tools_catalog.upstream.listing import PROMPT, RESOURCE, TEMPLATE, TOOL, Listed, Offers
from tools_catalog.upstream.personal import PersonalLists
from tools_catalog.upstream.spec import ConnectionSpec
from tools_catalog.upstream.states import LinkState
from tools_catalog.upstream.supervisor import Supervisor
from tools_catalog.upstream.suspended_calls import SuspendedCalls, keeper
from tools_catalog.upstream.transports.base import Follow, SessionLost
from tools_catalog.upstream.vendors import VendorExtension

if TYPE_CHECKING:
    from tools_catalog.upstream.client import UpstreamClient

_LEFT_SECONDS = 0.25
"""A call that is cancelled with less time left ran into its deadline."""


COMPLETE = "completion/complete"
"""It asks nobody."""
_WORDS = {TOOL: "tool", RESOURCE: "resource", TEMPLATE: "resource template", PROMPT: "prompt", "skill": "skill"}


class Connection:
    """`start` it on the event loop, `stop` it there."""

    def __init__(self, spec: ConnectionSpec, environment: ConnectionEnvironment) -> None:
        self.spec = spec
        self._up = Supervisor(spec, environment)
        self._environment = environment
        self._suspended = SuspendedCalls(environment.answer_seconds, environment.process_id)
        self._up.has_suspended = lambda: bool(self._suspended)
        self.link = self._up.link
        self.personal: PersonalLists | None = None
        """Lists of people's accounts, if lists depend on the user."""
        if spec.lists_per_person:
            self.personal = PersonalLists(spec, self._up.keeper, self._up.scrub, environment.shown)
            self._up.also_changed = self.personal.changed
        self._places = Places(spec.max_concurrent, spec.max_waiting)
        self.start = self._up.start
        self.lose = self._up.lose
        self.want, self.refresh = self._up.want, self._up.refresh

    def know(self, spec: ConnectionSpec) -> None:
        """Take over another process's findings about the upstream; nothing else differs."""
        self._up.opener.unprobed = spec.unprobed
        self._up.opener.declares = spec.declares

    def subscribe(self, uris: frozenset[str]) -> None:
        """Request notifications about changes of these resources. With accounts of persons there are none: no account
        would own them.
        """
        if not self.spec.is_personal:
            self._up.subscribe(uris)

    async def stop(self) -> None:
        """End all of it, children included, and report so."""
        await self._suspended.end()
        await self._up.stop()

    async def retire(self) -> None:
        """End once the calls under way have ended. Another connection may stand in its place at once."""
        await self._up.retire()
        await self._suspended.end()

    async def list_for(self, principal: str, *, again: bool) -> None:
        """List the offers for a person with an account there; `again`, even if the list is fresh."""
        if self.personal is None:
            return
        with self._busy():
            for attempt in range(2):
                session = await self._up.callers.session_of(await self._up.ready(), principal)
                try:
                    await self.personal.shown(session, principal, again=again)
                    return
                except SessionLost:  # such as of an account that was connected anew
                    if attempt:
                        raise

    @property
    def is_used(self) -> bool:
        """Whether it is or was connected, or tries to be."""
        return self.link.connected_at is not None or self.link.status is not LinkState.DISCONNECTED

    async def request(self, method: str, params: dict[str, Any], context: ToolContext, offer: Offer) -> dict[str, Any]:
        """Send a request about the upstream's offers; return its result as received.

        Raises a HubError; HeldElsewhere and SuspendedElsewhere where another process of the hub has to send it.
        """
        if self._up.breaker.failures:
            self._stay_away()
        self.link.calls += 1
        self.link.last_used_at = datetime.now(UTC)
        self.link.is_dirty = True
        reached = False
        try:
            caller = context.call.caller_principal
            await self._take_place(caller)
            try:
                main = await self._up.ready()
                reached = True
                result = await self._made(main, method, params, context, offer)
                if self._up.scrub.is_needed:
                    result = self._up.scrub.value(result)
            finally:
                self._places.give_back(caller)
                self._leave()
            if result.get("resultType", "complete") != "complete":  # a task takes none of the places for calls
                result = await self._followed_to_its_end(result, context)
        except (HeldElsewhere, SuspendedElsewhere):
            self.link.calls -= 1
            self._up.breaker.left()
            raise
        except asyncio.CancelledError:
            self._judge(reached and context.deadline.remaining_seconds() < _LEFT_SECONDS, reached)
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
            await self._explain(error, context)
            raise
        else:
            if self._up.breaker.failures:
                self._judge(False, reached)
            return result

    async def _explain(self, error: errors.HubError, context: ToolContext) -> None:
        """Add the account to connect, or the upstream's own words, to an error."""
        if isinstance(error, AccountNeeded) and self._environment.connect is not None:
            await self._environment.connect(error, context)
        if isinstance(error, errors.UpstreamError):
            await upstream_errors.pass_on(error, context, self.spec.asking)

    @property
    def declares(self) -> frozenset[VendorExtension]:
        """The vendors' extensions that it passes and that its upstream declared last, to any process."""
        return self._up.opener.declares

    @property
    def capabilities(self) -> frozenset[str]:
        """The names of what the upstream declares, but for extensions; none while it is not connected."""
        main = self._up.main
        return main.era.capability_names if main is not None and main.serves else frozenset()

    @property
    def extensions(self) -> frozenset[str]:
        """The extensions of MCP that the upstream declares; none while it is not connected."""
        main = self._up.main
        return main.era.extensions if main is not None and main.serves else frozenset()

    async def ask(self, method: str, params: dict[str, Any], follow: Follow | None = None) -> dict[str, Any]:
        """Send a request of an extension that belongs to no call; return its result. `follow` takes its notifications.

        Raises a HubError; ConnectionFailed also where only accounts of persons exist there, as this is nobody's.
        """
        if self.spec.is_personal:
            raise errors.ConnectionFailed(f"{self.spec.slug} is used with accounts of persons, and this is nobody's.")
        with self._busy():
            try:
                main = await self._up.ready()
                result = await main.request(method, params, follow=follow)
            except SessionLost as error:
                raise errors.TransportError(str(error)) from error
            except errors.HubError as error:
                self._up.scrub.error(error)
                raise
        found: dict[str, Any] = self.scrubbed(result)
        return found

    def scrubbed(self, found: Any) -> Any:
        """Return what came from the upstream without the secrets that it was sent."""
        return self._up.scrub.value(found)

    def _stay_away(self) -> None:
        """Raise ConnectionFailed while the upstream is left alone after failures."""
        pause = self._up.breaker.wait_seconds()
        if pause > 0:
            raise errors.ConnectionFailed(
                f"Calls of {self.spec.slug} failed {self._up.breaker.failures} times in a row, so it is left alone for "
                f"{max(1, round(pause))} s. Try again then.",
                connection=self.spec.slug,
            )

    async def _made(
        self, main: UpstreamClient, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        """Make the request. A call that may ask a client without a session waits where the upstream has sessions."""
        can_ask = self.spec.asking and method != COMPLETE and context.call.client_capabilities
        if not can_ask or not main.era.asks_within_calls:
            return await self._request(main, method, params, context, offer)
        if name := context.suspension.resume_token:
            if keeper(name) != self._environment.process_id:
                raise SuspendedElsewhere(keeper(name))
        elif not (self._environment.is_found() and context.suspension.resume_with("")):
            return await self._request(main, method, params, context, offer)

        async def whole(there: ToolContext) -> dict[str, Any]:
            result = await self._request(main, method, params, there, offer)
            if core_tasks.is_task(result):
                return await self._core_followed(result["taskId"], there)
            return result

        return await self._suspended.call(context, whole)

    async def _request(
        self, main: UpstreamClient, method: str, params: dict[str, Any], context: ToolContext, offer: Offer
    ) -> dict[str, Any]:
        refusal: errors.HubError | None = None
        for _ in range(2):
            listed = None if self.personal else await self._check(offer)
            session = main if main.serves_all else await self._up.callers.session_for(main, context)
            began = self._up.loop.time()
            if context.call.client_capabilities and (task_id := tasks.resumed(context)):
                return {"resultType": "task", "taskId": task_id}  # there is one already
            try:
                if listed is None:
                    assert self.personal is not None
                    shown = await self.personal.shown(session, context.call.caller_principal)
                    listed = self._judged(shown, offer)
                if method == "tools/call" and session.era.offers_tasks:
                    result = await self._call(session, params, context)
                elif method == "tools/call" and session.era.takes_core_tasks:
                    result = await self._core_call(session, params, context, listed)
                else:
                    result = await session.request(method, params, context)
                if result.get("resultType", "complete") == "input_required":
                    result = await self._go_on(session, method, params, result, context)
            except SessionLost as lost:  # nothing ran: once more, on a new session
                refusal = lost.refusal
                if session is not main:  # the supervisor counts the loss of its own
                    self.link.count_reconnect()
                main = await self._up.ready()
                continue
            self.link.latency_ms = (self._up.loop.time() - began) * 1000
            return result
        # What a new session does not mend was no matter of the session.
        raise refusal or errors.ConnectionFailed("The upstream ends each session at once. Try again.")

    async def _call(self, session: UpstreamClient, params: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Call a tool that may run as a task; let it where the client can follow one, or where it runs no other way."""
        if context.task.is_possible:
            return await session.request("tools/call", params, context, follows_tasks=True)
        try:
            return await session.request("tools/call", params, context)
        except errors.UpstreamError as error:
            if not tasks.needs_tasks(error):
                raise
            return await session.request("tools/call", params, context, follows_tasks=True)

    async def _core_call(
        self, session: UpstreamClient, params: dict[str, Any], context: ToolContext, listed: Listed
    ) -> dict[str, Any]:
        """Make a call that asks for a task where the tool demands it, or where the call is a task here."""
        support = core_tasks.support_of(listed.definition)
        as_task = support == TaskSupport.REQUIRED or (support == TaskSupport.OPTIONAL and context.task.has_begun)
        if as_task:
            params = core_tasks.wanted(params, context.deadline.remaining_seconds())
        return core_tasks.read(await session.request("tools/call", params, context), asked_for=as_task)

    async def _followed_to_its_end(self, result: dict[str, Any], context: ToolContext) -> dict[str, Any]:
        """Return the end of a call that was answered with a task."""
        if tasks.is_task(result):
            return await self._followed(tasks.id_of(result), context)
        if core_tasks.is_task(result):
            return await self._core_followed(result["taskId"], context)
        return result

    async def _core_followed(self, task_id: str, context: ToolContext) -> dict[str, Any]:
        known: set[UpstreamClient] = set()

        async def send(method: str, params: dict[str, Any]) -> dict[str, Any]:
            # A session that ended need not have taken the task with it.
            session = await self._up.callers.session_for(await self._up.ready(), context)
            if session not in known:
                known.add(session)
                following.enter_context(session.calls.following(task_id, context))
            try:
                found: dict[str, Any] = self._up.scrub.value(await session.request(method, params, context))
                return found
            except (SessionLost, HeldElsewhere) as error:
                raise errors.TransportError(f"The connection broke within the call. {error}".strip()) from error
            except errors.UpstreamError as error:
                if len(known) > 1:
                    raise tasks.TaskLost from error
                raise

        with self._busy(), ExitStack() as following:
            return await core_tasks.CoreTaskFollower(task_id, send, context).end()

    async def _followed(self, task_id: str, context: ToolContext) -> dict[str, Any]:
        known: set[UpstreamClient] = set()

        async def send(method: str, params: dict[str, Any]) -> dict[str, Any]:
            try:
                session = await self._up.callers.session_for(await self._up.ready(), context)
                if not session.era.offers_tasks:
                    raise errors.ConnectionFailed("The upstream has no tasks any more.")
                known.add(session)
                found: dict[str, Any] = self._up.scrub.value(
                    await session.request(method, params, context, follows_tasks=True)
                )
                return found
            except SessionLost as error:
                raise errors.ConnectionFailed(str(error)) from error
            except errors.UpstreamError as error:
                if len(known) > 1:
                    raise tasks.TaskLost from error
                raise

        with self._busy():
            return await tasks.TaskFollower(task_id, send, context, self.spec.asking).end()

    async def _go_on(
        self, session: UpstreamClient, method: str, params: dict[str, Any], result: dict[str, Any], context: ToolContext
    ) -> dict[str, Any]:
        async def repeat(more: dict[str, Any]) -> dict[str, Any]:
            try:
                again = {**params, **more}
                if method == "tools/call" and session.era.offers_tasks:
                    return await self._call(session, again, context)
                return await session.request(method, again, context)
            except SessionLost as error:
                raise errors.TransportError(str(error)) from error

        return await bridge.answered(result, repeat, context, self.spec.asking)

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
            self._environment.report(link)

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

    async def _take_place(self, caller: str) -> None:
        """Wait for one of the calls that the upstream may have at once: a slow one takes no other's place.

        Callers take turns, and one never has all places where there are enough.
        """
        try:
            await self._places.take(caller)
        except NoPlace:
            raise errors.ConnectionFailed(
                f"{self.spec.slug} is busy with {self.spec.max_concurrent} calls and {self._places.waiting} wait. "
                "Try again.",
                connection=self.spec.slug,
            ) from None
        self._up.under_way += 1

    def _leave(self) -> None:
        """Note that a call has ended: the connection may be idle now, or be ended."""
        self._up.under_way -= 1
        self._up.ended.set()
        self._up.last_call = self._up.loop.time()

    @contextmanager
    def _busy(self) -> Iterator[None]:
        """The connection is not idle, and not ended under a call."""
        self._up.under_way += 1
        try:
            yield
        finally:
            self._leave()

    async def _check(self, offer: Offer) -> Listed:
        """Return the upstream's offer as approved, by a list that is not too old. Raises ToolDisabled."""
        if self._up.loop.time() - self._up.listed_at[offer.kind] > self.spec.refresh_seconds:
            await self._up.list_again(offer.kind)
        return self._judged(self._up.offers, offer)

    def _judged(self, offers: Offers, offer: Offer) -> Listed:
        """Return the offer, if it is as approved. Raises ToolDisabled."""
        what, name = _WORDS[offer.kind], offer.name[:100]
        listed = offers.get(offer.kind, {}).get(offer.name)
        if listed is None:
            whom = " to your account there" if self.personal else ""
            raise errors.ToolDisabled(
                f"The upstream no longer offers the {what} {name}{whom}. Tell the hub's operator."
            )
        if listed.refusal or not offer.approval.covers(listed):
            raise errors.ToolDisabled(
                f"The upstream changed the {what} {name} since it was approved, so it is not asked for it. "
                "The hub's operator can look at the difference and approve it."
            )
        return listed
