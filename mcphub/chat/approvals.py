"""Calls of models that wait for somebody's yes: who must be asked, what was decided, and that it is used once.

An approval is bound to its caller, the tool, the tool's definition and the arguments. A model that then calls with
other arguments, or a tool that has changed, has no approval. All of it is rows, so any worker may take the answer.
"""

from __future__ import annotations

import datetime
import hashlib
import uuid
from collections.abc import Callable, Collection, Mapping
from typing import Any

from channels.db import database_sync_to_async
from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from invocations.chain import events
from mcphub.chat.errors import ChatError
from mcphub.chat.models_responses import ChatApproval, ToolApproval
from mcphub.chat.turn import Denial
from sessions_app.caller import Caller
from sessions_app.protocol import json
from tools_catalog.catalog import Tool

TTL = datetime.timedelta(minutes=10)
"""For the decision; and, from it on, for the call."""
NEVER, DESTRUCTIVE, ALWAYS = "never", "destructive", "always"


def still_open(asked: QuerySet[ChatApproval], now: datetime.datetime) -> QuerySet[ChatApproval]:
    """Give those of the calls that somebody can still decide."""
    lately = {"created_at__gte": now - TTL}  # an index finds these; older ones have expired
    return asked.filter(status=ChatApproval.Status.PENDING, expires_at__gt=now, **lately)


def binding(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Give the fingerprint of one call of one version of a tool."""
    text = json.canonical([tool.name, tool.digest, dict(arguments)])
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def load_policies() -> dict[str, str]:
    """Give what operators demand, by the tool's name."""
    return dict(ToolApproval.objects.values_list("tool__name", "policy"))


def demanded(tool: Tool, policies: Mapping[str, str]) -> bool:
    """Say whether the operator wants calls of this tool by a model approved."""
    policy = policies.get(tool.name) or settings.MCPHUB_CHAT_APPROVAL
    if policy == DESTRUCTIVE:
        return tool.definition.get("annotations", {}).get("destructiveHint") is True
    return bool(policy == ALWAYS)


class RowGate:
    """The gate of one turn: what the operator demands, and what the client does beyond it."""

    def __init__(
        self, caller: Caller, turn_id: str, policies: Mapping[str, str], wanted: Callable[[Tool], bool] | None = None
    ) -> None:
        self._caller = caller
        self._turn_id = turn_id
        self._policies = policies
        self._wanted = wanted
        self._denied: dict[str, Denial] = {}
        """What this turn was told of, by the call's fingerprint."""

    def applies(self, tool: Tool) -> bool:
        return demanded(tool, self._policies) or (self._wanted is not None and self._wanted(tool))

    async def ask(self, tool: Tool, call_id: str, arguments: dict[str, Any]) -> str | Denial | None:
        """Use an approval that is there, or ask for one; see `Gate`.

        A denial holds for the turn that is told of it. A later one may ask again: its user may have meant it.
        """
        return await database_sync_to_async(self._ask)(tool, call_id, arguments)

    def _ask(self, tool: Tool, call_id: str, arguments: dict[str, Any]) -> str | Denial | None:
        now = timezone.now()
        bound = binding(tool, arguments)
        if bound in self._denied:
            return self._denied[bound]
        mine = ChatApproval.objects.filter(principal=self._caller.principal, binding=bound)
        usable = mine.filter(status=ChatApproval.Status.APPROVED, expires_at__gt=now)
        for id_ in usable.order_by("decided_at").values_list("pk", flat=True):
            if usable.filter(pk=id_).update(status=ChatApproval.Status.USED):
                return None
        denied = mine.filter(status=ChatApproval.Status.DENIED, expires_at__gt=now).order_by("-decided_at").first()
        if denied is not None:
            mine.filter(status=ChatApproval.Status.DENIED, expires_at__gt=now).update(expires_at=now)
            self._denied[bound] = Denial(denied.reason)
            return self._denied[bound]
        made = ChatApproval.objects.create(
            id=f"mcpr_{uuid.uuid4().hex}", principal=self._caller.principal, caller_label=self._caller.label,
            turn_id=self._turn_id, call_id=call_id[:200], tool_name=tool.name, tool_version=tool.version,
            arguments=arguments, binding=bound, created_at=now, expires_at=now + TTL,
        )  # fmt: skip
        return str(made.pk)


def decide(id_: str, *, approve: bool, reason: str, actor: str, by: str, principal: str | None) -> ChatApproval:
    """Approve or deny, and record who did. `principal`: whose it must be, None for an operator. Raises ChatError."""
    row = find(id_, principal)
    now = timezone.now()
    status = ChatApproval.Status.APPROVED if approve else ChatApproval.Status.DENIED
    open_ = ChatApproval.objects.filter(pk=row.pk, status=ChatApproval.Status.PENDING, expires_at__gt=now)
    with transaction.atomic():
        changed = open_.update(
            status=status, reason=reason[:2000], decided_by=by[:150], decided_at=now, expires_at=now + TTL
        )
        if changed:
            asked = {
                "principal": row.principal, "tool_version": row.tool_version, "turn_id": row.turn_id,
                "tool_call_id": row.call_id,
            }  # fmt: skip
            events.record(
                f"call.{status.value}", actor=actor, actor_label=by, subject=row.pk, label=row.tool_name, after=asked,
                reason=reason,
            )  # fmt: skip
    before, row = row, ChatApproval.objects.get(pk=row.pk)
    if not changed and row.status == ChatApproval.Status.PENDING:
        raise ChatError(
            "INVALID_QUERY", f"The approval {id_} expired at {before.expires_at:%H:%M:%S} UTC. Ask the model again.",
            param="approval_request_id", http_status=409, openai_code="approval_expired",
        )  # fmt: skip
    said = row.status in (ChatApproval.Status.APPROVED, ChatApproval.Status.USED)
    if not changed and said != approve:
        raise ChatError(
            "INVALID_QUERY", f"The approval {id_} was decided before: {row.status}.", param="approval_request_id",
            http_status=409, openai_code="approval_decided",
        )  # fmt: skip
    return row


def settle(approved: Collection[str], denied: Collection[str], principal: str) -> None:
    """Take approvals for their one call each, all or none, and note denials that the model is told of now.

    Raises ChatError for an approval that was taken before, or is too old.
    """
    now = timezone.now()
    mine = ChatApproval.objects.filter(principal=principal, expires_at__gt=now)
    with transaction.atomic():
        for id_ in approved:
            if not mine.filter(pk=id_, status=ChatApproval.Status.APPROVED).update(status=ChatApproval.Status.USED):
                raise ChatError(
                    "INVALID_QUERY", f"The call that {id_} approves was made before, or the approval is too old.",
                    param="input", http_status=409, openai_code="approval_used", should_retry=False,
                )  # fmt: skip
        mine.filter(pk__in=denied, status=ChatApproval.Status.DENIED).update(expires_at=now)


def find(id_: str, principal: str | None) -> ChatApproval:
    """Give an approval; raise ChatError for one that is unknown or another caller's, which look the same."""
    rows = ChatApproval.objects.filter(pk=id_)
    row = (rows if principal is None else rows.filter(principal=principal)).first()
    if row is None:
        raise ChatError(
            "NOT_FOUND", f"There is no approval request {id_[:60]!r} of this key.", param="approval_request_id",
            openai_code="approval_not_found",
        )  # fmt: skip
    return row


def wire(row: ChatApproval) -> dict[str, Any]:
    """Give an approval as `/v1/approvals` and `x_mcp` say it."""
    expired = row.status == ChatApproval.Status.PENDING and row.expires_at <= timezone.now()
    return {
        "id": row.pk, "object": "mcp.approval_request", "name": row.tool_name,
        "arguments": json.dumps(row.arguments).decode(), "status": "expired" if expired else row.status,
        "reason": row.reason or None, "created_at": int(row.created_at.timestamp()),
        "expires_at": int(row.expires_at.timestamp()),
    }  # fmt: skip


def sweep() -> None:
    """Forget approvals that have been over for a day."""
    ChatApproval.objects.filter(expires_at__lt=timezone.now() - datetime.timedelta(days=1)).delete()
