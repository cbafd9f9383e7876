"""A call waits for its yes: asked of its client, held for a bound, or answered as pending; any worker releases it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import DatabaseError

from invocations.call.call import Call
from invocations.call.context import CallContext, Suspended
from invocations.call.running import Stopped
from invocations.call_source import NULL_CHANNEL, CallSource
from invocations.configuration import Configuration
from invocations.ledger.records import Key
from invocations.redaction.records import RecordRedaction
from invocations.stages import Answer, ApprovalStage, CommitPart, Outlook, Place, Proceed, Refuse, Stage, StageAnswer
from mcphub.features.approvals import asking, telling
from mcphub.features.approvals.asking import Asked
from mcphub.features.approvals.deciding import Decider, Decision, DecisionRefused, decide
from mcphub.features.approvals.models import McpApproval
from sessions_app.caller import Caller, caller_of_key
from sessions_app.kit.people_tables import person_key
from sessions_app.models import ApiKey
from sessions_app.protocol import json
from sessions_app.protocol.errors import ApprovalDenied, AskFailed, AuditUnavailable, Cancelled, HubError
from sessions_app.protocol.json import Json
from tools_catalog.call.base import ToolResult
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Elicited
from tools_catalog.call.noted import NOTHING_NOTED, Noted
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.policy.ask import Ask

if TYPE_CHECKING:
    from invocations.calling import Calls
    from invocations.exchange import CallRequest

_PATIENCE_SECONDS = 5
"""News of a decision comes over the change bus; so often it is looked for without."""
_SIGN_SECONDS = 10
"""Seconds between two signs of life to the client of a held call."""


class Approvals(ApprovalStage, CommitPart):
    """Has a call wait for its yes, where a stage before asks for one. One a process, with the calls that wait in it."""

    place = Place.APPROVAL

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._waiting: dict[str, set[asyncio.Event]] = {}
        self._held: Counter[str] = Counter()
        """By principal."""
        self._is_draining = False
        self.outcomes: Counter[str] = Counter()
        """Of calls that asked, in this process: `asked`, `approved`, `denied`, `pending`, `granted`."""

    @property
    def held(self) -> int:
        return self._held.total()

    def heard(self, approval_id: str) -> None:
        """Somebody decided, in this process or another."""
        for event in self._waiting.get(approval_id, ()):
            event.set()

    def drain(self) -> None:
        """Answer all that is held as pending: another worker goes on with them."""
        self._is_draining = True
        for approval_id in list(self._waiting):
            self.heard(approval_id)

    # Stage and part of the commits ---------------------------------------------------------------------

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return _may_ask(before)

    async def decide(self, call: Call) -> StageAnswer:
        if call.ask is None or call.request.runner is not None:
            return Proceed(call)
        try:
            return await self.released(call, call.ask)
        except HubError as error:
            return Refuse(error, may_repeat=False)  # a call that waits is told from its repeats by its approval

    async def outlooks_of_asked(self, asks: Mapping[Tool, Ask], source: CallSource) -> Mapping[Tool, Outlook]:
        try:
            return await database_sync_to_async(_ungranted)(asks, source)
        except DatabaseError as error:
            raise AuditUnavailable from error

    async def intended(self, call: Call) -> None:
        """Write which call an approval led to. The intent's key decides; this status is for display."""
        if call.approval_id:
            with contextlib.suppress(DatabaseError):
                await database_sync_to_async(asking.use)(call.approval_id, call.invocation_id)

    async def ended(self, call: Call, wire: Mapping[str, Json] | None) -> None:
        """Let an approval last as long as the answers are awaited with which its call goes on."""
        if call.approval_id and wire is not None and wire.get("resultType") == "input_required":
            with contextlib.suppress(DatabaseError):  # then the answers ask anew
                await database_sync_to_async(asking.keep)(call.approval_id)

    # A call that is answered at its end ----------------------------------------------------------------

    async def released(self, call: Call, ask: Ask) -> StageAnswer:
        """Return the released call. Raises ApprovalDenied, Cancelled, ServerBusy, DuplicateRequest."""
        asked = self._asked(call, ask)
        try:
            if await database_sync_to_async(asking.granted)(asked):
                self.outcomes["granted"] += 1
                return Proceed(call)
            row = await database_sync_to_async(asking.attach)(asked)
        except DatabaseError as error:
            raise AuditUnavailable from error
        self.outcomes["asked"] += 1
        if row.status == McpApproval.Status.PENDING:
            context = self._calls.execution.context(call)
            try:
                row = await self._settled(call, context, row)
            except Suspended as suspended:
                return Answer(suspended.wire, suspended.recorded)
            finally:
                context.close()
        if row.status in (McpApproval.Status.PENDING, McpApproval.Status.EXPIRED):
            self.outcomes["pending"] += 1
            wire = telling.pending(row)
            return Answer(wire, wire)
        self._check(row)
        if row.edited is not None:
            call = call.with_arguments(await _arguments_of(row))
        fresh = await self._judged(call, ask)
        self.outcomes["approved"] += 1
        made = replace(call.of_tool(fresh.tool), approval_id=row.pk)
        made.record.noted, made.record.key = fresh.record.noted, _key_of(row, call.request)
        return Proceed(made)

    async def _settled(self, call: Call, context: CallContext, row: McpApproval) -> McpApproval:
        """Wait for the decision within bounds; give the row as it stands then. Raises Suspended, Cancelled."""
        seconds: float = settings.MCPHUB_APPROVAL_HOLD_SECONDS
        if _asks_caller(context, row):
            call.work.deadline = float("inf")
            try:
                return await call.work.run(self._answered_or_decided(call, context, row))
            except Stopped as stopped:
                if stopped.why == "asks":
                    raise context.suspended() from None
                raise Cancelled from None
        principal = call.work.principal
        if context.channel is NULL_CHANNEL or not self._may_hold(principal):
            return row
        call.work.deadline = time.monotonic() + seconds
        try:
            with self._holding(principal):
                return await call.work.run(self._waited(context, row, seconds))
        except Stopped as stopped:
            if stopped.why == "timeout":
                return row
            raise Cancelled from None

    async def _answered_or_decided(self, call: Call, context: CallContext, row: McpApproval) -> McpApproval:
        """Ask the calling person by their client, and take the question back where somebody decides before them."""
        ways = [
            asyncio.ensure_future(self._answered(call, context, row)),
            asyncio.ensure_future(self._waited(context, row, float("inf"))),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            return done.pop().result()
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _answered(self, call: Call, context: CallContext, row: McpApproval) -> McpApproval:
        """Return the row as the calling person's answer leaves it. Closing the form decides nothing."""
        key = telling.question_key(row)
        try:
            # The question is kept, in the call's row and among the events of its session.
            arguments = call.tool.shown(await _arguments_of(row))
            given: Elicited = (await context.input.ask({key: telling.form(row, arguments)}, is_own=True))[key]
        except AskFailed:
            return row
        if given.action == "cancel":
            return row
        is_yes = given.accepted and given.content.get("approve") is True
        reason = "" if is_yes else str(given.content.get("reason", "")) or "The person who calls said no."
        source = call.exchange.source
        who = Decider(source.principal, source.caller_label, source.caller.credential, is_caller=True)
        record = RecordRedaction(call.exchange.configuration.redaction)
        try:
            return await database_sync_to_async(decide)(row, Decision(approve=is_yes, reason=reason), who, record)
        except DecisionRefused:  # an operator was first
            return await database_sync_to_async(asking.look)(row.pk) or row
        except DatabaseError as error:
            raise AuditUnavailable from error

    def _may_hold(self, principal: str) -> bool:
        most = settings.MCPHUB_MAX_CALLS_PER_CALLER or max(1, settings.MCPHUB_MAX_CALLS // 5)
        return (
            not self._is_draining
            and self._held[principal] < max(1, most // 2)
            and self.held < settings.MCPHUB_MAX_CALLS // 2
        )

    @contextlib.contextmanager
    def _holding(self, principal: str) -> Iterator[None]:
        self._held[principal] += 1
        try:
            yield
        finally:
            self._held[principal] -= 1
            if not self._held[principal]:
                del self._held[principal]

    async def _waited(self, context: CallContext, row: McpApproval, seconds: float) -> McpApproval:
        """Wait until somebody decides or `seconds` are over, with signs of life."""
        event, began = asyncio.Event(), time.monotonic()
        self._waiting.setdefault(row.pk, set()).add(event)
        shown = float("-inf")
        try:
            while True:
                event.clear()
                try:
                    row = await database_sync_to_async(asking.look)(row.pk) or row
                except DatabaseError as error:
                    raise AuditUnavailable from error
                waited = time.monotonic() - began
                if row.status != McpApproval.Status.PENDING or waited >= seconds or self._is_draining:
                    return row
                if waited - shown >= _SIGN_SECONDS:
                    shown = waited
                    # Thousandths, as what the tool itself tells of its progress must rise above them.
                    words = f"Waits for an approval ({row.pk}). Nothing has run yet."
                    await context.notifier.progress((waited + 1) / 1000, None, words, is_own=True)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(min(_PATIENCE_SECONDS, max(0.05, seconds - waited))):
                        await event.wait()
        finally:
            events = self._waiting[row.pk]
            events.discard(event)
            if not events:
                del self._waiting[row.pk]

    def _check(self, row: McpApproval) -> None:
        if row.status == McpApproval.Status.DENIED:
            self.outcomes["denied"] += 1
            raise telling.denied(row)

    async def _judged(self, call: Call, ask: Ask) -> Call:
        """Return the call as rules and settings see it at the moment in which it is made, after it waited.

        Raises ToolNotFound or Forbidden if the caller has lost it, PolicyDenied if a rule denies it now,
        ApprovalDenied if the tool, where it sends its calls or the asking rule is another one.
        """
        try:
            caller = await database_sync_to_async(_caller_now)(call.exchange.source.caller)
        except DatabaseError as error:
            raise AuditUnavailable from error
        caller.need("tools:call")
        configuration = self._calls.current()
        tool = configuration.catalog.find(call.tool.name, caller)
        if tool.digest != call.tool.digest:
            raise ApprovalDenied(
                f"The tool {tool.name} changed while the call waited for its approval, so it was not called. Look at "
                "its definition and call again."
            )
        if tool.effect != call.tool.effect:
            raise ApprovalDenied(
                f"Where {tool.name} sends its calls changed while this one waited for its approval: its service, "
                "connection, account, secrets or workspace. It was not called. Call again: it is asked anew."
            )
        source = replace(call.exchange.source, caller=caller)
        exchange = replace(call.exchange, source=source, configuration=configuration)
        anew = replace(call, exchange=exchange, ask=None).of_tool(tool)
        anew.record.noted = NOTHING_NOTED
        fresh = await self._calls.decided_again(anew, Place.RULES, Place.DEMAND)
        if not asking.is_enough(ask, fresh.ask):
            raise ApprovalDenied(
                f"The rules about calls of {tool.name} changed while the call waited for its approval, so it was not "
                "called. Call again: it is asked anew."
            )
        return fresh

    # A call that is, or may become, a task -------------------------------------------------------------

    def gated(self, call: Call, ask: Ask) -> Call:
        """Return a call that its client can follow as a task, and that waits there."""
        return replace(call, tool=replace(call.tool, backend=_Gate(self, call, ask)))

    async def wait_in_task(self, call: Call, context: CallContext, ask: Ask) -> dict[str, Json]:
        """Return the arguments to call with, however long the decision takes. Raises ApprovalDenied."""
        asked = replace(self._asked(call, ask), is_task=True)
        if await database_sync_to_async(asking.granted)(asked):
            return asked.arguments
        row = await database_sync_to_async(asking.attach)(asked)
        self.outcomes["asked"] += 1
        if row.status == McpApproval.Status.PENDING:
            with call.work.waiting_for_client():
                if _asks_caller(context, row):
                    row = await self._answered_or_decided(call, context, row)
                if row.status == McpApproval.Status.PENDING:
                    row = await self._waited(context, row, ask.seconds)
        self._check(row)
        if row.status != McpApproval.Status.APPROVED:  # it is not made: no rule of this moment is asked about it
            raise _is_over(row)
        arguments = await _arguments_of(row)
        try:
            fresh = await self._judged(call.with_arguments(arguments), ask)
        except HubError as error:
            if isinstance(error.noted, Noted):
                call.record.note(error.noted)  # its row says which rule refuses it by now
            raise
        if not await database_sync_to_async(asking.claim)(row.pk, call.invocation_id):
            raise _is_over(row)
        # Of a call that is made; the row of one that is not names the rule that asked.
        call.record.noted = replace(fresh.record.noted, guardrails=call.record.noted.guardrails)
        self.outcomes["approved"] += 1
        return arguments

    async def guarded(self, call: Call, arguments: dict[str, Json]) -> dict[str, Json]:
        """Return arguments that somebody edited as later stages let them go on. Raises the refusal."""
        edited = call.with_arguments(arguments)
        try:
            return (await self._calls.decided_again(edited, Place.ON_ARGUMENTS)).arguments
        finally:
            call.record.note(edited.record.noted)

    def _asked(self, call: Call, ask: Ask) -> Asked:
        stored, request = call.record.stored, call.request
        recorded = call.arguments if stored is None else json.loads_stored(stored.arguments)
        return Asked(
            source=call.exchange.source,
            tool=call.tool,
            ask=ask,
            arguments=call.arguments,
            recorded=call.tool.shown(recorded),
            idempotency_key=request.idempotency_key,
        )


class OwnDemand(Stage):
    """Adds the request of the tool's own setting."""

    place = Place.DEMAND

    def __init__(self, calls: Calls) -> None:
        """`calls` is what each stage is made of."""

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return asking.may_demand(tool, configuration)

    async def decide(self, call: Call) -> StageAnswer:
        if call.request.is_approved:
            return Proceed(call)
        ask = asking.demanded(call.ask, call.tool, call.exchange.configuration, call.exchange.source)
        return Proceed(call if ask is call.ask else replace(call, ask=ask))

    async def outlooks(
        self, tools: Sequence[Tool], source: CallSource, configuration: Configuration
    ) -> Mapping[Tool, Outlook]:
        asks = {tool: asking.ask_of_tool(tool, configuration, source) for tool in tools}
        return {tool: Outlook(ask=ask) for tool, ask in asks.items() if ask is not None}


class TaskApprovals(Stage):
    """Has a task wait for its yes where its client can follow it."""

    place = Place.APPROVAL_IN_TASK

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def concerns(self, tool: Tool, configuration: Configuration, before: tuple[Stage, ...]) -> bool:
        return _may_ask(before)

    async def decide(self, call: Call) -> StageAnswer:
        if call.ask is None or call.request.runner is None:
            return Proceed(call)
        return Proceed(self._calls.stages.one(Approvals).gated(call, call.ask))


def _may_ask(stages: tuple[Stage, ...]) -> bool:
    return any(stage.place in (Place.RULES, Place.DEMAND) for stage in stages)


def _ungranted(asks: Mapping[Tool, Ask], source: CallSource) -> dict[Tool, Outlook]:
    asked = {tool: Asked(source=source, tool=tool, ask=ask, arguments={}, recorded={}) for tool, ask in asks.items()}
    return {tool: Outlook(ask=each.ask) for tool, each in asked.items() if not asking.granted(each)}


class _Gate:
    """A backend that runs another one after an approval."""

    def __init__(self, approvals: Approvals, call: Call, ask: Ask) -> None:
        self._approvals, self._call, self._ask = approvals, call, ask
        self._backend = call.tool.backend

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        assert isinstance(context, CallContext)
        made = await self._approvals.wait_in_task(self._call, context, self._ask)
        if made != self._call.arguments:
            made = await self._approvals.guarded(self._call, made)
        result: ToolResult = await self._backend.call(made, context)
        return result

    async def aclose(self) -> None:
        """The backend behind it is closed by whoever holds it."""


def _caller_now(caller: Caller) -> Caller:
    """Return a caller with the rights of this moment. Groups that a token's claims give last as long as the token."""
    if caller.key_id is not None:
        key = ApiKey.objects.filter(pk=caller.key_id).first()
        return caller_of_key(key) if key is not None else replace(caller, scopes=frozenset(), sources={})
    if caller.principal.startswith("user:") and not caller.claims:
        groups = Group.objects.filter(user=person_key(caller.principal)).values_list("pk", flat=True)
        return replace(caller, groups=frozenset(groups), sources={})
    return caller


def _key_of(row: McpApproval, request: CallRequest) -> Key:
    """Return the key that is claimed once under an approval: the call, then each round of a call that asked its
    client.

    The state names the round, whatever the answers are: other answers to it are refused as another request.
    """
    if request.round is None or row.status != McpApproval.Status.USED:
        return f"approval:{row.pk}", "call", row.binding
    state, answers = request.round
    return f"approval:{row.pk}", state, json.digest(f"{row.binding}\n{answers}")


def _asks_caller(context: CallContext, row: McpApproval) -> bool:
    """Return whether the calling person is asked by their client: they may decide, and their yes is still wanted."""
    has_said = any(principal == context.source.principal for principal, _name in row.approvers)
    return not (row.needs_another or row.group or has_said) and context.input.can_ask(telling.form(row, {}))


def _is_over(row: McpApproval) -> ApprovalDenied:
    return ApprovalDenied(
        f"The approval {row.pk} is over or was used, so the tool was not called. Call again to ask anew.",
        approvalId=row.pk,
    )


async def _arguments_of(row: McpApproval) -> dict[str, Json]:
    return dict(await database_sync_to_async(row.approved_arguments)())
