"""Rows of what grows beside calls: conversations, questions and answers, approvals, tasks, sums of quotas."""

from __future__ import annotations

from datetime import timedelta

from django.utils import timezone

from invocations.tasks.models import McpTask
from mcphub.features.approvals.models import McpApproval
from mcphub.features.chat.models.conversations import AIResponse, ChatMessage, ChatSession, Query
from mcphub.features.quotas.models import McpQuota, QuotaCount
from mcphub.features.quotas.quota import Charge
from sessions_app.models import McpSession, ServerProcess
from tests.factories import McpTaskFactory, ServerProcessFactory


def fill(rows: int = 6000) -> None:
    """Add what is missing to so many rows of each; a question an hour, oldest first."""
    now = timezone.now()
    missing = range(Query.objects.count(), rows)
    begun = {number: now - timedelta(hours=rows - number) for number in missing}
    people = {number: f"key:{1 + number % 40}" for number in missing}
    sessions = ChatSession.objects.bulk_create(
        ChatSession(
            principal=people[number],
            created_at=at,
            updated_at=at,
            expires_at=at + timedelta(hours=1),
            ends_at=at + timedelta(days=1),
        )
        for number, at in begun.items()
    )
    queries = Query.objects.bulk_create(
        Query(
            session=session,
            content="Is it warm?",
            principal=session.principal,
            timestamp=session.created_at,
            entry_point=("query", "completions")[number % 2],
            process_id="p",
            **({"state": "failed", "error_code": "x"} if number % 20 == 0 else {"state": "done"}),
        )
        for number, session in zip(missing, sessions, strict=True)
    )
    AIResponse.objects.bulk_create(
        AIResponse(query=query, content="It is.", provider_used="p", model="m", duration_ms=5) for query in queries
    )
    ChatMessage.objects.bulk_create(
        ChatMessage(session=query.session, query=query, role=role, content="words")
        for query in queries
        for role in ("user", "assistant")
    )
    McpApproval.objects.bulk_create(
        McpApproval(
            id=f"filled_{number}",
            principal=people[number],
            turn_id=str(number),
            call_id="call_1",
            tool_name="t",
            tool_version="1",
            arguments={},
            binding="0" * 64,
            created_at=at,
            expires_at=at + timedelta(minutes=10),
        )
        for number, at in begun.items()
    )
    owner = ServerProcess.objects.first() or ServerProcessFactory()
    session = McpSession.objects.first()
    McpTask.objects.bulk_create(
        McpTaskFactory.build(
            over=True,
            task_id=f"filled-{number}",
            invocation_id=f"filled-{number}",
            process=owner,
            session=session,
            principal=people[number],
            created_at=at,
        )
        for number, at in begun.items()
    )
    quota, _made = McpQuota.objects.get_or_create(name="filled", defaults={"soft_limit": 10**6, "period": "month"})
    subjects = ["user:1", "group:1", *(f"key:{number}" for number in range(1, 200))]
    charges = [Charge(quota.compiled(), subject, 0) for subject in subjects]
    window = charges[0].window(now.timestamp())
    sums = {"quota": quota, "unit": quota.unit, "begins": window.begins, "ends": window.ends}
    QuotaCount.objects.bulk_create(
        (
            QuotaCount(key=charge.key(window), subject=charge.subject, used=number, **sums)
            for number, charge in enumerate(charges)
        ),
        ignore_conflicts=True,
    )
