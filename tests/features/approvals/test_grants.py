"""A yes for a time: for which calls it counts, and for which it does not."""

from __future__ import annotations

import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from invocations.call_source import CallSource
from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking
from mcphub.features.approvals.asking import Asked
from mcphub.features.approvals.deciding import Decider, Decision, decide
from mcphub.features.approvals.models import McpApproval
from sessions_app.caller import Caller
from sessions_app.history.models import AuditEvent
from tests.factories import McpToolDefinitionFactory
from tools_catalog.catalog.snapshot import Catalog, Tool
from tools_catalog.policy.ask import ANOTHER, CALLER, Ask

pytestmark = pytest.mark.django_db

ANN = Decider("user:1", "ann")
ROBOT = Caller(principal="key:1", label="robot", scopes=frozenset({"tools:call"}))


@pytest.fixture
def tool() -> Tool:
    schema = {"type": "object", "properties": {"table": {"type": "string"}}}
    McpToolDefinitionFactory(name="drop", input_schema=schema)
    return Catalog.load().tools["drop"]


def asked(tool: Tool, table: str, **rule: Any) -> Asked:
    arguments: dict[str, Any] = {"table": table}
    source = CallSource(caller=ROBOT, session_id="one", transport="http")
    ask = Ask(**{"rule": "r", "version": 1, **rule})
    return Asked(source=source, tool=tool, ask=ask, arguments=arguments, recorded=arguments)


def granted(of: Asked, **more: Any) -> McpApproval:
    decision = Decision(approve=True, **{"grant": "hour", **more})
    return decide(asking.attach(of), decision, ANN, RecordRedaction())


def test_a_grant_lets_further_calls_of_the_tool_run_by_the_same_rule(tool: Tool) -> None:
    row = granted(asked(tool, "a"))
    assert asking.granted(asked(tool, "b")) == row.pk
    assert not asking.granted(asked(tool, "b", version=2))
    assert not asking.granted(replace(asked(tool, "b"), tool=replace(tool, effect="1" * 64)))
    asking.use(row.pk, "made")
    assert asking.granted(asked(tool, "a")) == row.pk


def test_the_call_that_was_approved_with_other_arguments_is_made_with_those(tool: Tool) -> None:
    first = asked(tool, "a")
    granted(first, arguments={"table": "b"})
    assert not asking.granted(first)
    assert asking.attach(first).approved_arguments() == {"table": "b"}


def test_what_was_denied_is_not_made_by_a_grant(tool: Tool) -> None:
    no = asked(tool, "a")
    decide(asking.attach(no), Decision(approve=False, reason="No."), ANN, RecordRedaction())
    row = granted(asked(tool, "b"))
    assert not asking.granted(no)
    assert asking.attach(no).status == "denied"
    McpApproval.objects.filter(status="denied").update(expires_at=timezone.now() - timedelta(seconds=1))
    assert asking.granted(no) == row.pk


def test_where_another_person_is_asked_for_the_calling_person_s_own_grant_is_none(tool: Tool) -> None:
    row = granted(asked(tool, "a", decider=CALLER))
    assert asking.granted(asked(tool, "b", decider=CALLER)) == row.pk
    assert not asking.granted(asked(tool, "b", decider=ANOTHER))


def test_another_person_s_grant_is_enough_where_the_calling_person_may_decide(tool: Tool) -> None:
    row = granted(asked(tool, "a", decider=ANOTHER))
    assert asking.granted(asked(tool, "b", decider=CALLER)) == row.pk


def test_a_rule_that_is_registered_anew_takes_over_no_decision_and_no_question(tool: Tool) -> None:
    waiting = asking.attach(asked(tool, "a"))
    granted(asked(tool, "b"))
    later = time.time() + 1
    assert not asking.granted(asked(tool, "c", since=later))
    fresh = asking.attach(asked(tool, "a", since=later))
    assert fresh.pk != waiting.pk
    assert fresh.status == "pending"
    assert McpApproval.objects.get(pk=waiting.pk).status == "expired"
    assert AuditEvent.objects.filter(kind="call.expired", subject_id=waiting.pk).exists()
