"""A call waits for its yes: asked of its client, held for a bound, or answered as pending; any worker releases it."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Group
from django.db import DatabaseError
from django.urls import reverse

from invocations.approvals import asking
from invocations.approvals.asking import Asked
from invocations.approvals.deciding import Decider, Decision, DecisionRefused, decide
from invocations.approvals.models import McpApproval
from invocations.call import policing
from invocations.call.context import CallContext, Suspended
from invocations.call.running import Call, Stopped
from invocations.call_source import NULL_CHANNEL
from invocations.ledger.records import Key
from invocations.redaction.records import Record
from sessions_app.caller import Caller, caller_of_key
from sessions_app.models import ApiKey
from sessions_app.protocol import json
from sessions_app.protocol.errors import ApprovalDenied, AuditUnavailable, Cancelled, HubError
from sessions_app.protocol.json import Json
from tools_catalog.call.base import ToolResult
from tools_catalog.call.context import ToolContext
from tools_catalog.call.input_requests import Form
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.policy.ask import CALLER, Ask
from tools_catalog.policy.rules import ASK, NO_RULING, Ruling

if TYPE_CHECKING:
    from invocations.calling import Calls
    from invocations.exchange import CallExchange, CallRequest

_PATIENCE_SECONDS = 5
"""News of a decision comes over the change bus; so often it is looked for without."""
_SIGN_SECONDS = 10
"""Between two signs of life to a client whose call is held."""
QUESTION = "mcphub_approval"
"""The key of the question that asks the calling person."""
_SHOWN = 2000
"""Characters of the arguments in the form that a client shows."""


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
                row = await self._settled(call, context, row, ask)
            except Suspended as suspended:
                return Release(request=request, approval_id=row.pk, wire=suspended.wire, recorded=suspended.recorded)
            finally:
                context.close()
        if row.status in (McpApproval.Status.PENDING, McpApproval.Status.EXPIRED):
            self.outcomes["pending"] += 1
            wire = pending(row)
            return Release(request=request, approval_id=row.pk, wire=wire, recorded=wire)
        self._check(row)
        if row.edited is not None:
            request = replace(request, arguments=await _arguments_of(row))
        assert isinstance(request.arguments, dict)
        tool, ruling = await self._judged(call, request.arguments, ask)
        self.outcomes["approved"] += 1
        key = (f"approval:{row.pk}", _round_of(row, request), row.binding)
        return Release(request=request, approval_id=row.pk, made=Approved(tool=tool, ruling=ruling, key=key))

    async def _settled(self, call: Call, context: CallContext, row: McpApproval, ask: Ask) -> McpApproval:
        """Wait for the decision within bounds; give the row as it stands then. Raises Suspended, Cancelled."""
        seconds: float = settings.MCPHUB_APPROVAL_HOLD_SECONDS
        if context.source.protocol_version and ask.decider == CALLER and context.input.can_ask(_form(row, {})):
            call.deadline = float("inf")
            try:
                return await call.run(self._answered(context, row, call))
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

    async def _answered(self, context: CallContext, row: McpApproval, call: Call) -> McpApproval:
        """Ask the calling person by their client."""
        given: Any = (await context.input.ask({QUESTION: _form(row, await _arguments_of(row))}))[QUESTION]
        is_yes = given.accepted and given.content.get("approve") is True
        reason = "" if is_yes else str(given.content.get("reason", "")) or "The caller's person said no."
        who = Decider(call.principal, call.source.caller_label, call.source.caller.credential, is_caller=True)
        record = Record(call.configuration.redaction)
        try:
            return await database_sync_to_async(decide)(row, Decision(approve=is_yes, reason=reason), who, record)
        except DecisionRefused:  # an operator was first
            return await database_sync_to_async(asking.look)(row.pk) or row

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
                    await asyncio.wait_for(event.wait(), min(_PATIENCE_SECONDS, max(0.05, seconds - waited)))
        finally:
            events = self._waiting[row.pk]
            events.discard(event)
            if not events:
                del self._waiting[row.pk]

    def _check(self, row: McpApproval) -> None:
        if row.status == McpApproval.Status.DENIED:
            self.outcomes["denied"] += 1
            raise denied(row)

    async def _judged(self, call: Call, arguments: dict[str, Json], ask: Ask) -> tuple[Tool, Ruling]:
        """Give the tool, and what the rules say, at the moment in which a call that waited is made.

        Raises ToolNotFound or Forbidden where the caller has lost it, PolicyDenied where a rule says no by now,
        ApprovalDenied where the tool or the rule that asks is another one.
        """
        try:
            caller = await database_sync_to_async(_caller_now)(call.source.caller)
        except DatabaseError as error:
            raise AuditUnavailable from error
        caller.need("tools:call")
        tool = self._calls.current().catalog.find(call.tool.name, caller)
        if tool.digest != call.tool.digest:
            raise ApprovalDenied(
                f"The tool {tool.name} changed while the call waited for its approval, so it was not called. Look at "
                "its definition and call again."
            )
        ruling = NO_RULING
        if tool.policy is not None:
            source = replace(call.source, caller=caller)
            ruling = await self._calls.policing.ruling(tool, source, arguments, json.canonical(arguments))
        if (refusal := policing.refusal(ruling)) is not None:
            raise refusal
        asks = (ruling.ask or Ask()) if ruling.effect == ASK else None
        if asks is not None and (asks.rule, asks.version) != (ask.rule, ask.version):
            raise ApprovalDenied(
                f"The rules about calls of {tool.name} changed while the call waited for its approval, so it was not "
                "called. Call again: it is asked anew."
            )
        return tool, ruling

    async def note_use(self, approval_id: str, invocation_id: str) -> None:
        """Write which invocation an approval led to. The intent's key is the truth; this is for those who look."""
        with contextlib.suppress(DatabaseError):
            await database_sync_to_async(asking.use)(approval_id, invocation_id)

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
                row = await self._waited(context, row, ask.seconds)
        self._check(row)
        arguments = await _arguments_of(row)
        await self._judged(call, arguments, ask)
        if not await database_sync_to_async(asking.claim)(row.pk, call.invocation_id):
            raise ApprovalDenied(
                f"The approval {row.pk} is over or was used, so the tool was not called. Call again to ask anew.",
                approvalId=row.pk,
            )
        self.outcomes["approved"] += 1
        return arguments


class _Gate:
    """A backend that runs another one once somebody has said yes."""

    def __init__(self, approvals: Approvals, call: Call, request: CallRequest, ask: Ask) -> None:
        self._approvals, self._call, self._request, self._ask = approvals, call, request, ask
        self._backend = call.tool.backend

    async def call(self, arguments: dict[str, Json], context: ToolContext) -> ToolResult:
        assert isinstance(context, CallContext)
        made = await self._approvals.wait_in_task(self._call, context, self._request, self._ask)
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


def _round_of(row: McpApproval, request: CallRequest) -> str:
    """Give what may be made once under an approval: the call, and each later round of one that asked its client."""
    return request.round if request.round and row.status == McpApproval.Status.USED else "call"


def _asked(call: Call, request: CallRequest, ask: Ask) -> Asked:
    arguments = request.arguments
    assert isinstance(arguments, dict)
    recorded = arguments if call.stored is None else json.loads_stored(call.stored.arguments)
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


def _form(row: McpApproval, arguments: dict[str, Json]) -> Form:
    text = json.dumps(arguments).decode()
    shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}… ({len(text)} characters)"
    words = f" {row.words}" if row.words else ""
    return Form(
        f"Allow this call of {row.tool_name}?{words} Arguments: {shown}",
        {
            "type": "object",
            "properties": {
                "approve": {"type": "boolean", "title": "Allow this call once"},
                "reason": {"type": "string", "title": "Reason, if not", "maxLength": 500},
            },
            "required": ["approve"],
        },
    )


def denied(row: McpApproval) -> HubError:
    words = f" {row.reason}" if row.reason else ""
    return ApprovalDenied(
        f"{row.decided_by or 'Somebody'} denied the call, so the tool was not called.{words} Do not call it again "
        "with these arguments.",
        approvalId=row.pk,
    )


def address_of(approval_id: str) -> str:
    """Give where a person decides."""
    page = reverse("admin:invocations_mcpapproval_change", args=[quote(approval_id)])
    return f"{settings.MCPHUB_PUBLIC_URL.rstrip('/')}{page}"


def pending(row: McpApproval) -> dict[str, Json]:
    """Give the result of a call that waits for its yes: no error, so that models wait in place of trying otherwise."""
    who = "another person" if row.needs_another else "the calling person"
    text = (
        f"Not run yet: this call of {row.tool_name} waits until {who} approves it (approval {row.pk}, until "
        f"{row.expires_at:%Y-%m-%d %H:%M} UTC). Tell the person so: {address_of(row.pk)} . Do not change the "
        "arguments and do not try another way. Once it is approved, send exactly the same call again: it then runs "
        "once. Before that, the same call answers this again and asks nobody twice."
    )
    told: dict[str, Json] = {
        "status": "pending",
        "approvalId": row.pk,
        "address": address_of(row.pk),
        "expiresAt": row.expires_at.isoformat(timespec="seconds"),
    }
    return {"content": [{"type": "text", "text": text}], "isError": False, "_meta": {"mcphub/approval": told}}
