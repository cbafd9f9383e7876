"""A call waits for its yes: asked of its client, held for a bound, or answered as pending; any worker releases it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.auth.models import Group
from django.db import DatabaseError

from invocations.approvals import asking, telling
from invocations.approvals.asking import Asked
from invocations.approvals.deciding import Decider, Decision, DecisionRefused, decide
from invocations.approvals.models import McpApproval
from invocations.call import policing
from invocations.call.context import CallContext, Suspended
from invocations.call.running import Call, Stopped
from invocations.call_source import NULL_CHANNEL
from invocations.ledger.records import Key
from invocations.redaction.records import RecordRedaction
from sessions_app.caller import Caller, caller_of_key
from sessions_app.models import ApiKey
from sessions_app.protocol import json
from sessions_app.protocol.errors import ApprovalDenied, AskFailed, AuditUnavailable, Cancelled, HubError
from sessions_app.protocol.json import Json
from tools_catalog.call.base import ToolResult
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Elicited
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.guardrails.guardrail import shown
from tools_catalog.policy.ask import Ask
from tools_catalog.policy.rules import ASK, NO_RULING, Ruling

if TYPE_CHECKING:
    from invocations.calling import Calls
    from invocations.exchange import CallExchange, CallRequest

_PATIENCE_SECONDS = 5
"""News of a decision comes over the change bus; so often it is looked for without."""
_SIGN_SECONDS = 10
"""Between two signs of life to a client whose call is held."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Approved:
    """A call that waited, as it is made now."""

    tool: Tool
    ruling: Ruling
    key: Key
    """Claimed by the intent, so that the call is made once, whoever makes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """What a call that wanted a yes goes on with."""

    request: CallRequest
    approval_id: str = ""
    made: Approved | None = None
    """None: a grant lets it run as it is, or it is not made now."""
    wire: dict[str, Json] | None = None
    """The result of a call that is not made now."""
    recorded: dict[str, Json] | None = None

    @property
    def arguments(self) -> dict[str, Json]:
        assert isinstance(self.request.arguments, dict)
        return self.request.arguments


class Approvals:
    """Calls of this process that wait. One a process."""

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

    # A call that is answered at its end ----------------------------------------------------------------

    async def release(self, call: Call, request: CallRequest, exchange: CallExchange, ask: Ask) -> Release:
        """Give what the call goes on with. Raises ApprovalDenied, Cancelled, ServerBusy, DuplicateRequest."""
        asked = _asked(call, request, ask)
        try:
            if await database_sync_to_async(asking.granted)(asked):
                self.outcomes["granted"] += 1
                return Release(request=request)
            row = await database_sync_to_async(asking.attach)(asked)
        except DatabaseError as error:
            raise AuditUnavailable from error
        self.outcomes["asked"] += 1
        if row.status == McpApproval.Status.PENDING:
            context = CallContext(exchange, call.tool.name, call.invocation_id, call, request, self._calls)
            try:
                row = await self._settled(call, context, row)
            except Suspended as suspended:
                return Release(request=request, approval_id=row.pk, wire=suspended.wire, recorded=suspended.recorded)
            finally:
                context.close()
        if row.status in (McpApproval.Status.PENDING, McpApproval.Status.EXPIRED):
            self.outcomes["pending"] += 1
            wire = telling.pending(row)
            return Release(request=request, approval_id=row.pk, wire=wire, recorded=wire)
        self._check(row)
        if row.edited is not None:
            request = replace(request, arguments=await _arguments_of(row))
        assert isinstance(request.arguments, dict)
        tool, ruling = await self._judged(call, request, ask)
        self.outcomes["approved"] += 1
        made = Approved(tool=tool, ruling=ruling, key=_key_of(row, request))
        return Release(request=request, approval_id=row.pk, made=made)

    async def _settled(self, call: Call, context: CallContext, row: McpApproval) -> McpApproval:
        """Wait for the decision within bounds; give the row as it stands then. Raises Suspended, Cancelled."""
        seconds: float = settings.MCPHUB_APPROVAL_HOLD_SECONDS
        if _asks_caller(context, row):
            call.deadline = float("inf")
            try:
                return await call.run(self._answered_or_decided(call, context, row))
            except Stopped as stopped:
                if stopped.why == "asks":
                    raise context.suspended() from None
                raise Cancelled from None
        if context.channel is NULL_CHANNEL or not self._may_hold(call.principal):
            return row
        call.deadline = time.monotonic() + seconds
        try:
            with self._holding(call.principal):
                return await call.run(self._waited(context, row, seconds))
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
        """Give the row as the calling person's answer leaves it. Who closes the form decides nothing."""
        key = telling.question_key(row)
        try:
            # The question is kept, in the call's row and among the events of its session.
            arguments = shown(call.tool.guardrails, await _arguments_of(row))
            given: Elicited = (await context.input.ask({key: telling.form(row, arguments)}))[key]
        except AskFailed:
            return row
        if given.action == "cancel":
            return row
        is_yes = given.accepted and given.content.get("approve") is True
        reason = "" if is_yes else str(given.content.get("reason", "")) or "The person who calls said no."
        who = Decider(call.principal, call.source.caller_label, call.source.caller.credential, is_caller=True)
        record = RecordRedaction(call.configuration.redaction)
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
                    await context.notifier.progress((waited + 1) / 1000, None, words)
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

    async def _judged(self, call: Call, request: CallRequest, ask: Ask) -> tuple[Tool, Ruling]:
        """Give the tool, and what the rules say, at the moment in which a call that waited is made.

        Raises ToolNotFound or Forbidden where the caller has lost it, PolicyDenied where a rule says no by now,
        ApprovalDenied where the tool or the rule that asks is another one.
        """
        try:
            caller = await database_sync_to_async(_caller_now)(call.source.caller)
        except DatabaseError as error:
            raise AuditUnavailable from error
        caller.need("tools:call")
        arguments, source = request.arguments, replace(call.source, caller=caller)
        assert isinstance(arguments, dict)
        configuration = self._calls.current()
        tool = configuration.catalog.find(call.tool.name, caller)
        if tool.digest != call.tool.digest:
            raise ApprovalDenied(
                f"The tool {tool.name} changed while the call waited for its approval, so it was not called. Look at "
                "its definition and call again."
            )
        ruling = NO_RULING
        if tool.policy is not None:
            ruling = await self._calls.policing.ruling(tool, source, arguments, json.canonical(arguments))
        if (refusal := policing.refusal(ruling)) is not None:
            raise refusal
        by_rule = asks = (ruling.ask or Ask()) if ruling.effect == ASK else None
        if not request.is_approved:
            asks = asking.demanded(by_rule, tool, configuration, source)
        if not asking.is_enough(ask, by_rule, asks):
            raise ApprovalDenied(
                f"The rules about calls of {tool.name} changed while the call waited for its approval, so it was not "
                "called. Call again: it is asked anew."
            )
        return tool, ruling

    async def note_use(self, approval_id: str, invocation_id: str) -> None:
        """Write which invocation an approval led to. The intent's key is the truth; this is for those who look."""
        with contextlib.suppress(DatabaseError):
            await database_sync_to_async(asking.use)(approval_id, invocation_id)

    async def keep(self, approval_id: str) -> None:
        """Let an approval last as long as the answers are awaited with which its call goes on."""
        with contextlib.suppress(DatabaseError):  # then the answers ask anew
            await database_sync_to_async(asking.keep)(approval_id)

    # A call that is, or may become, a task -------------------------------------------------------------

    def gated(self, call: Call, request: CallRequest, ask: Ask) -> Tool:
        """Give the tool of a call that its client can follow as a task: it waits there."""
        return replace(call.tool, backend=_Gate(self, call, request, ask))

    async def wait_in_task(self, call: Call, context: CallContext, request: CallRequest, ask: Ask) -> dict[str, Json]:
        """Give the arguments to call with, however long the decision takes. Raises ApprovalDenied."""
        asked = replace(_asked(call, request, ask), is_task=True)
        if await database_sync_to_async(asking.granted)(asked):
            return asked.arguments
        row = await database_sync_to_async(asking.attach)(asked)
        self.outcomes["asked"] += 1
        if row.status == McpApproval.Status.PENDING:
            with call.waiting_for_client():
                if _asks_caller(context, row):
                    row = await self._answered_or_decided(call, context, row)
                if row.status == McpApproval.Status.PENDING:
                    row = await self._waited(context, row, ask.seconds)
        self._check(row)
        arguments = await _arguments_of(row)
        try:
            _tool, ruling = await self._judged(call, replace(request, arguments=arguments), ask)
        except HubError as error:
            if isinstance(error.ruling, Ruling):
                call.ruling = error.ruling  # its row says which rule refuses it by now
            raise
        if not await database_sync_to_async(asking.claim)(row.pk, call.invocation_id):
            raise ApprovalDenied(
                f"The approval {row.pk} is over or was used, so the tool was not called. Call again to ask anew.",
                approvalId=row.pk,
            )
        call.ruling = ruling  # of a call that is made; the row of one that is not names the rule that asked
        self.outcomes["approved"] += 1
        return arguments

    async def guarded(self, call: Call, arguments: dict[str, Json]) -> dict[str, Json]:
        """Give arguments that somebody edited as guardrails let them go on. Raises what refuses them."""
        return await self._calls.guarding.arguments(call, arguments)


class _Gate:
    """A backend that runs another one once somebody has said yes."""

    def __init__(self, approvals: Approvals, call: Call, request: CallRequest, ask: Ask) -> None:
        self._approvals, self._call, self._request, self._ask = approvals, call, request, ask
        self._backend = call.tool.backend

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        assert isinstance(context, CallContext)
        made = await self._approvals.wait_in_task(self._call, context, self._request, self._ask)
        if made != self._request.arguments:
            made = await self._approvals.guarded(self._call, made)
        result: ToolResult = await self._backend.call(made, context)
        return result

    async def aclose(self) -> None:
        """The backend behind it is closed by whoever holds it."""


def _caller_now(caller: Caller) -> Caller:
    """Give a caller with the rights of this moment. Groups that a token's claims give last as long as the token."""
    if caller.key_id is not None:
        key = ApiKey.objects.filter(pk=caller.key_id).first()
        return caller_of_key(key) if key is not None else replace(caller, scopes=frozenset(), sources={})
    if caller.principal.startswith("user:") and not caller.claims:
        groups = Group.objects.filter(user=int(caller.principal.removeprefix("user:"))).values_list("pk", flat=True)
        return replace(caller, groups=frozenset(groups), sources={})
    return caller


def _key_of(row: McpApproval, request: CallRequest) -> Key:
    """Give what is claimed once under an approval: the call, and then each round of one that asked its client.

    The state names the round, whatever the answers are: other answers to it are refused as another request.
    """
    if request.round is None or row.status != McpApproval.Status.USED:
        return f"approval:{row.pk}", "call", row.binding
    state, answers = request.round
    return f"approval:{row.pk}", state, json.digest(f"{row.binding}\n{answers}")


def _asks_caller(context: CallContext, row: McpApproval) -> bool:
    """Say whether the calling person is asked by their client: they may decide, and their yes is still wanted."""
    has_said = any(principal == context.source.principal for principal, _name in row.approvers)
    return not (row.needs_another or row.group or has_said) and context.input.can_ask(telling.form(row, {}))


def _asked(call: Call, request: CallRequest, ask: Ask) -> Asked:
    arguments = request.arguments
    assert isinstance(arguments, dict)
    recorded = arguments if call.stored is None else json.loads_stored(call.stored.arguments)
    recorded = shown(call.tool.guardrails, recorded)
    return Asked(
        source=call.source,
        tool=call.tool,
        ask=ask,
        arguments=arguments,
        recorded=recorded,
        idempotency_key=request.idempotency_key,
    )


async def _arguments_of(row: McpApproval) -> dict[str, Json]:
    return dict(await database_sync_to_async(row.approved_arguments)())
