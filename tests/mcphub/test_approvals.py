"""Who may give an approval: never who asked for the call, where the operator demands it."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.conf import settings
from django.utils import timezone

from invocations.redaction import load as redaction
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking
from mcphub.features.approvals.models import McpApproval, McpToolApproval
from mcphub.features.chat import approvals
from mcphub.features.chat.errors import ChatError
from sessions_app import accountable
from tests.factories import McpToolDefinitionFactory, UserFactory
from tools_catalog.catalog.snapshot import Catalog

pytestmark = pytest.mark.django_db


def asked(principal: str = "key:1", *, needs_another: bool = True) -> McpApproval:
    now = timezone.now()
    row: McpApproval = McpApproval.objects.create(
        id=f"mcpr_{uuid.uuid4().hex}",
        principal=principal,
        caller_label="robot",
        turn_id="t",
        call_id="c",
        tool_name="drop",
        tool_version="1",
        arguments={},
        binding="b",
        decider="another" if needs_another else "caller",
        created_at=now,
        expires_at=now + timedelta(minutes=5),
    )
    return row


def decide(row: McpApproval, actor: str, *, approve: bool = True, principal: str | None = None) -> McpApproval:
    record = RecordRedaction(redaction.load())
    return approvals.decide(row.pk, record, approve=approve, reason="", actor=actor, by=actor, principal=principal)


@pytest.mark.parametrize("who", ["key:1", "user:1"])
def test_who_asked_does_not_approve_what_the_operator_demands(who: str) -> None:
    accountable.name("key:1", [UserFactory(pk=10_000).pk])
    row = asked(who)
    with pytest.raises(ChatError) as refused:
        decide(row, who, principal=who if who.startswith("key") else None)
    assert (refused.value.code, refused.value.openai_code) == ("FORBIDDEN", "approval_by_another")
    assert "Another person" in str(refused.value)
    assert decide(row, "user:2").status == "approved"
    assert decide(row, who, principal=who).status == "approved"  # the client goes on with what another approved


def test_who_asked_may_deny_it() -> None:
    assert decide(asked(), "key:1", approve=False, principal="key:1").status == "denied"


def test_what_only_the_client_demands_its_own_user_approves() -> None:
    assert decide(asked(needs_another=False), "key:1", principal="key:1").status == "approved"


@pytest.mark.parametrize(
    ("fields", "policy", "demanded"),
    [
        ({}, None, True),
        ({"destructive": False}, None, False),
        ({"read_only": True, "destructive": False}, None, False),
        ({}, "never", False),
        ({"destructive": False}, "always", True),
    ],
)
def test_destructive_calls_wait_unless_somebody_said_otherwise(
    fields: dict[str, Any], policy: str | None, demanded: bool
) -> None:
    assert settings.MCPHUB_CHAT_APPROVAL == "destructive"
    row = McpToolDefinitionFactory(name="drop", **fields)
    if policy is not None:
        McpToolApproval.objects.create(tool=row, policy=policy)
    tool = Catalog.load().tools["drop"]
    assert approvals.operator_demands(tool, asking.load_policies()) is demanded
