"""The client's view of a waiting call: the form for the caller, the pending result, the denial."""

from __future__ import annotations

from django.conf import settings
from django.contrib.admin.utils import quote
from django.urls import reverse

from mcphub.features.approvals.models import McpApproval
from sessions_app.protocol import json
from sessions_app.protocol.errors import ApprovalDenied, HubError
from sessions_app.protocol.json import Json
from tools_catalog.call.input_requests import Form
from tools_catalog.policy.ask import QUESTION

_SHOWN = 2000
"""Characters of the arguments in the form that a client shows."""


def question_key(row: McpApproval) -> str:
    """Return the key of the question about one approval, so that an answer to another one, or a foreseen one, is
    none.
    """
    return f"{QUESTION}_{row.pk.removeprefix('appr_')}"


def form(row: McpApproval, arguments: dict[str, Json]) -> Form:
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
    """Return where a person decides."""
    page = reverse("admin:invocations_mcpapproval_change", args=[quote(approval_id)])
    return f"{settings.MCPHUB_PUBLIC_URL.rstrip('/')}{page}"


def pending(row: McpApproval) -> dict[str, Json]:
    """Return the result of a call that waits for its yes: no error, so that models wait in place of trying
    otherwise.
    """
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
