"""Tools of the starter pack over the hub's own audit: names and figures, never bodies.

Callers see their own calls; keys that may read the audit see all.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated, Literal

from django.db.models import Avg, Count, Max, Q
from django.utils import timezone
from pydantic import BaseModel, Field

from tools_catalog.backends.python import tool
from tools_catalog.backends.threads import SyncContext


class RecentInvocation(BaseModel):
    invocation_id: str
    tool: str
    version: str
    status: Literal["ok", "error"]
    error_code: str
    caller: str
    client: str
    finished_at: str
    duration_ms: int


class RecentInvocations(BaseModel):
    invocations: list[RecentInvocation]


class ToolFigures(BaseModel):
    tool: str
    calls: int
    errors: int
    average_ms: float
    slowest_ms: int


class ToolStatistics(BaseModel):
    hours: int
    tools: list[ToolFigures]


@tool(
    title="Recent invocations",
    description=(
        "List the newest calls that this hub recorded: which tool, by whom, how it ended, how long it took. "
        "Without the scope audit:read these are your own calls. "
        "Arguments and results are not shown. Use it to find out what happened lately or why calls fail."
    ),
    read_only=True,
    open_world=False,
)
def recent_invocations(
    context: SyncContext,
    limit: Annotated[int, Field(ge=1, le=100, description="How many calls, newest first.")] = 10,
    tool: Annotated[str, Field(max_length=64, description="Only calls of this tool; empty: of every tool.")] = "",
    status: Annotated[Literal["", "ok", "error"], Field(description="Only calls that ended so.")] = "",
) -> RecentInvocations:
    from invocations.models import McpToolInvocation

    rows = McpToolInvocation.objects.filter(_seen_by(context), method__isnull=True).order_by("-id")
    if tool:
        rows = rows.filter(tool_name=tool)
    if status:
        rows = rows.filter(status=status)
    return RecentInvocations(
        invocations=[
            RecentInvocation(
                invocation_id=row.invocation_id,
                tool=row.tool_name,
                version=row.tool_version,
                status=row.status,
                error_code=row.error_code,
                caller=row.caller_label,
                client=row.client_name,
                finished_at=row.finished_at.isoformat(),
                duration_ms=row.duration_ms,
            )
            for row in rows.defer("arguments", "result", "error")[:limit]
        ]
    )


@tool(
    title="Tool statistics",
    description=(
        "Count the calls of each tool over the last hours: how many, how many failed, average and longest "
        "duration in milliseconds. Without the scope audit:read only your own calls count. "
        "Use it to see which tools are used, slow or failing."
    ),
    read_only=True,
    open_world=False,
)
def tool_statistics(
    context: SyncContext, hours: Annotated[int, Field(ge=1, le=168, description="How far back to count.")] = 24
) -> ToolStatistics:
    from invocations.models import McpToolInvocation

    since = timezone.now() - timedelta(hours=hours)
    rows = (
        McpToolInvocation.objects.filter(_seen_by(context), started_at__gte=since)
        .exclude(tool_name="")
        .order_by()
        .values("tool_name")
        .annotate(
            calls=Count("id"),
            errors=Count("id", filter=Q(status="error")),
            average=Avg("duration_ms"),
            slowest=Max("duration_ms"),
        )
        .order_by("-calls", "tool_name")[:100]
    )
    return ToolStatistics(
        hours=hours,
        tools=[
            ToolFigures(
                tool=row["tool_name"],
                calls=row["calls"],
                errors=row["errors"],
                average_ms=round(row["average"], 1),
                slowest_ms=row["slowest"],
            )
            for row in rows
        ],
    )


def _seen_by(context: SyncContext) -> Q:
    return Q() if "audit:read" in context.caller_scopes else Q(principal=context.caller_principal)
