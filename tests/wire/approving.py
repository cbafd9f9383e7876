"""Approvals of a hub as rows: what an operator demands, and what people decide."""

from __future__ import annotations

from typing import Any


def demand(tool: str, policy: str = "always") -> None:
    from mcphub.features.approvals.models import McpToolApproval
    from tools_catalog.models import McpToolDefinition

    McpToolApproval.objects.update_or_create(tool=McpToolDefinition.objects.get(name=tool), defaults={"policy": policy})


def decide(
    id_: str,
    approve: bool,
    by: str = "user:1",
    reason: str = "",
    arguments: dict[str, Any] | None = None,
    grant: str = "",
) -> str:
    """Decide as a person does in the console; give the status, or why it was refused."""
    from invocations.redaction import load
    from invocations.redaction.records import RecordRedaction
    from mcphub.features.approvals import deciding
    from mcphub.features.approvals.models import McpApproval

    decision = deciding.Decision(approve=approve, reason=reason, arguments=arguments, grant=grant)
    try:
        row = McpApproval.objects.get(pk=id_)
        who = deciding.Decider(by, by, is_superuser=True)  # nobody is known to answer for keys of these tests
        return str(deciding.decide(row, decision, who, RecordRedaction(load.load())).status)
    except deciding.DecisionRefused as error:
        return error.why


def waiting(tool: str) -> list[str]:
    from mcphub.features.approvals.models import McpApproval

    return list(McpApproval.objects.filter(tool_name=tool, status="pending").values_list("pk", flat=True))


def let_expire(id_: str) -> None:
    from django.utils import timezone

    from mcphub.features.approvals import asking
    from mcphub.features.approvals.models import McpApproval

    McpApproval.objects.filter(pk=id_).update(expires_at=timezone.now())
    asking.sweep()


def row(id_: str) -> dict[str, Any]:
    from mcphub.features.approvals.models import McpApproval

    found = McpApproval.objects.get(pk=id_)
    return {"status": found.status, "edited": found.edited, "arguments": found.arguments, "rule": found.rule}


def waiting_with(arguments: dict[str, Any]) -> list[str]:
    from mcphub.features.approvals.models import McpApproval

    return list(McpApproval.objects.filter(arguments=arguments, status="pending").values_list("pk", flat=True))


def row_with(arguments: dict[str, Any]) -> dict[str, Any]:
    from mcphub.features.approvals.models import McpApproval

    found = McpApproval.objects.get(arguments=arguments)
    return {"status": found.status, "decided_by": found.decided_by}


def seconds_left(arguments: dict[str, Any]) -> float:
    from django.utils import timezone

    from mcphub.features.approvals.models import McpApproval

    return (McpApproval.objects.get(arguments=arguments).expires_at - timezone.now()).total_seconds()
