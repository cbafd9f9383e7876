"""Calls of models that wait for approval: which must wait, the decisions, and their single use.

An approval is bound to its caller, the tool, the tool's definition and the arguments. A model that then calls with
other arguments, or a tool that has changed, has no approval. All of it is rows, so any worker may take the answer.

An approval that the operator demands is never the requester's: another person decides, in the admin. An approval that
only a client demands is its own user's.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import transaction
from django.utils import timezone

from invocations.redaction import records
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals.asking import USABLE, effects_of, is_demanded
from mcphub.features.approvals.asking import binding as binding
from mcphub.features.approvals.deciding import Decider, Decision, DecisionRefused
from mcphub.features.approvals.deciding import decide as decide_row
from mcphub.features.approvals.models import McpApproval
from mcphub.features.chat.engine.turn import DecidedCall, Denial, Turn
from mcphub.features.chat.errors import ChatError, invalid
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog import secrets
from tools_catalog.catalog.snapshot import Tool
from tools_catalog.policy.ask import ANOTHER, CALLER

TTL = USABLE
"""For the decision; and, from it on, for the call."""


def operator_demands(tool: Tool, policies: Mapping[str, str]) -> bool:
    """Return whether the operator wants calls of this tool by a model approved."""
    return is_demanded(tool, policies, settings.MCPHUB_CHAT_APPROVAL)


class StoredApprovalGate:
    """The gate of one turn: the operator's demands, and the client's additional ones."""

    def __init__(self, policies: Mapping[str, str], client_demands: Callable[[Tool], bool] | None = None) -> None:
        self._policies = policies
        self._client_demands = client_demands
        self._denied: dict[str, Denial] = {}
        """Denials that this turn's model has seen, by the call's fingerprint."""

    def applies(self, tool: Tool) -> bool:
        return operator_demands(tool, self._policies) or (
            self._client_demands is not None and self._client_demands(tool)
        )

    async def ask(self, turn: Turn, tool: Tool, call_id: str, arguments: dict[str, Json]) -> str | Denial | None:
        """Use an approval that is there, or ask for one; see `Gate`.

        A denial holds for the turn that reports it. A later one may ask again: its user may have meant it.
        """
        return await database_sync_to_async(self._ask)(turn, tool, call_id, arguments)

    def _ask(self, turn: Turn, tool: Tool, call_id: str, arguments: dict[str, Json]) -> str | Denial | None:
        now = timezone.now()
        bound = binding(tool, arguments)
        if bound in self._denied:
            return self._denied[bound]
        mine = McpApproval.objects.filter(principal=turn.caller.principal, binding=bound)
        demanded = operator_demands(tool, self._policies)
        usable = mine.filter(status=McpApproval.Status.APPROVED, expires_at__gt=now)
        if demanded:  # lately; an approval of before was the client's own
            usable = usable.filter(decider=ANOTHER)
        for id_ in usable.order_by("decided_at").values_list("pk", flat=True):
            if usable.filter(pk=id_).update(status=McpApproval.Status.USED, clear=None):
                return None
        denied = mine.filter(status=McpApproval.Status.DENIED, expires_at__gt=now).order_by("-decided_at").first()
        if denied is not None:
            mine.filter(status=McpApproval.Status.DENIED, expires_at__gt=now).update(expires_at=now)
            self._denied[bound] = Denial(denied.reason)
            return self._denied[bound]
        id_ = f"mcpr_{uuid.uuid4().hex}"
        recorded = tool.shown(turn.record.arguments(tool.name, tool.definition, arguments))
        McpApproval.objects.create(
            id=id_,
            principal=turn.caller.principal,
            caller_label=turn.caller.label,
            turn_id=str(turn.id),
            call_id=call_id[:200],
            tool_name=tool.name,
            tool_version=tool.version,
            arguments=recorded,
            clear=records.apart(recorded, arguments, of=McpApproval.of(id_)),
            binding=bound,
            decider=ANOTHER if demanded else CALLER,
            tool_digest=tool.effect,
            effects=effects_of(tool),
            credential=turn.caller.credential,
            session_id=turn.source.call.session_id[:64],
            created_at=now,
            expires_at=now + TTL,
        )
        return id_


def decide(
    id_: str, record: RecordRedaction, *, approve: bool, reason: str, actor: str, by: str, principal: str | None
) -> McpApproval:
    """Approve or deny, and record the decider. `principal`: its required owner, None for an operator. Raises
    ChatError.

    `record`: redacts the reason, which the model of the next turn reads as recorded.
    """
    row = find(id_, principal)
    who = Decider(actor, by)
    try:
        return decide_row(row, Decision(approve=approve, reason=reason), who, record)
    except DecisionRefused as error:
        if error.why == "own":
            raise ChatError(
                "FORBIDDEN",
                f"The operator demands an approval of {row.tool_name}, and who asked cannot give it. Another person "
                f"approves {id_} in the admin, under Approvals; then send this again.",
                param="approval_request_id",
                openai_code="approval_by_another",
            ) from error
        words = f"{error} Ask the model again." if error.why == "expired" else str(error)
        code = "approval_expired" if error.why == "expired" else "approval_decided"
        raise invalid("approval_request_id", words, http_status=409, openai_code=code) from error


def settle(decided: Sequence[DecidedCall], principal: str) -> None:
    """Use approvals for their one call each, all or none, and mark denials as reported to the model.

    Raises ChatError for an approval that was taken before, or is too old.
    """
    now = timezone.now()
    mine = McpApproval.objects.filter(principal=principal, expires_at__gt=now)
    with transaction.atomic():
        for each in decided:
            if not each.approve:
                continue
            approved = mine.filter(pk=each.approval_id, status=McpApproval.Status.APPROVED)
            if not approved.update(status=McpApproval.Status.USED, clear=None):
                raise invalid(
                    "input",
                    f"The call that {each.approval_id} approves was made before, or the approval is too old.",
                    http_status=409,
                    openai_code="approval_used",
                    should_retry=False,
                )
        denied = [each.approval_id for each in decided if not each.approve]
        mine.filter(pk__in=denied, status=McpApproval.Status.DENIED).update(expires_at=now)


def find(id_: str, principal: str | None) -> McpApproval:
    """Return an approval; raise ChatError for one that is unknown or another caller's, which look the same."""
    rows = McpApproval.objects.filter(pk=id_)
    row = (rows if principal is None else rows.filter(principal=principal)).first()
    if row is None:
        raise ChatError(
            "NOT_FOUND",
            f"There is no approval request {id_[:60]!r} of this key.",
            param="approval_request_id",
            openai_code="approval_not_found",
        )
    return row


def wire(row: McpApproval) -> dict[str, Json]:
    """Return an approval in the form of `/v1/approvals`, for the caller who owns the call."""
    expired = row.status == McpApproval.Status.PENDING and row.expires_at <= timezone.now()
    return {
        "id": row.pk,
        "object": "mcp.approval_request",
        "name": row.tool_name,
        "arguments": json.dumps(asked(row)).decode(),
        "status": "expired" if expired else row.status,
        "reason": row.reason or None,
        "created_at": int(row.created_at.timestamp()),
        "expires_at": int(row.expires_at.timestamp()),
    }


def may_be_used(row: McpApproval) -> bool:
    """Return whether its call may still be made, or approved."""
    is_open = row.status in (McpApproval.Status.PENDING, McpApproval.Status.APPROVED)
    return is_open and row.expires_at > timezone.now()


def asked(row: McpApproval) -> dict[str, Json]:
    """Return the arguments as the model wrote them; raise ChatError where the key that encrypted them is gone."""
    try:
        return dict(row.asked())
    except secrets.SecretError as error:
        raise invalid(
            "approval_request_id",
            f"The arguments of {row.pk} cannot be read any more. Ask the model again.",
            http_status=409,
            openai_code="approval_outdated",
        ) from error
