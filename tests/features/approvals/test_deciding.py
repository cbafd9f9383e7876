"""Decisions about calls that wait: who may take them, how many it takes, and what an edit makes void."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.utils import timezone

from invocations.redaction.records import RecordRedaction
from mcphub.features.approvals import asking
from mcphub.features.approvals.deciding import Decider, Decision, DecisionRefused, decide, difference
from mcphub.features.approvals.models import McpApproval
from sessions_app.history.models import AuditEvent

pytestmark = pytest.mark.django_db

YES, NO = Decision(approve=True), Decision(approve=False, reason="No.")
ANN, BOB = Decider("user:1", "ann"), Decider("user:2", "bob")


def waiting(**fields: object) -> McpApproval:
    now = timezone.now()
    known = {"principal": "key:1", "credential": "key:1", "tool_name": "drop", "arguments": {"table": "a"}}
    times = {"created_at": now, "expires_at": now + timedelta(hours=1)}
    row: McpApproval = McpApproval.objects.create(
        **{"id": f"appr_{uuid.uuid4().hex}", "binding": uuid.uuid4().hex, **known, **times, **fields}
    )
    return row


def refusal(row: McpApproval, decision: Decision, who: Decider) -> str:
    with pytest.raises(DecisionRefused) as refused:
        decide(row, decision, who, RecordRedaction())
    return refused.value.why


def test_neither_who_asked_nor_their_key_approves() -> None:
    assert refusal(waiting(), YES, Decider("key:1", "robot")) == "own"
    assert refusal(waiting(), YES, Decider("user:9", "owner", credential="key:1")) == "own"
    assert decide(waiting(), YES, ANN, RecordRedaction()).status == "approved"


def test_the_caller_decides_where_the_question_is_theirs() -> None:
    who = Decider("key:1", "robot", is_caller=True)
    assert decide(waiting(decider="caller"), YES, who, RecordRedaction()).status == "approved"


def test_only_the_group_approves_and_anybody_denies() -> None:
    row = waiting(group="treasury")
    assert refusal(row, YES, ANN) == "group"
    assert decide(
        waiting(group="treasury"), YES, Decider("user:3", "eve", groups=["treasury"]), RecordRedaction()
    ).status == ("approved")
    assert decide(row, NO, ANN, RecordRedaction()).status == "denied"


def test_two_persons_must_be_two() -> None:
    row = decide(waiting(needed=2), YES, ANN, RecordRedaction())
    assert (row.status, row.given) == ("pending", 1)
    assert refusal(row, YES, ANN) == "twice"
    assert decide(row, YES, BOB, RecordRedaction()).status == "approved"
    kinds = AuditEvent.objects.filter(subject_id=row.pk).order_by("pk").values_list("kind", flat=True)
    assert list(kinds) == ["call.approved_once", "call.approved"]


def test_a_decision_on_a_row_that_was_read_before_another_one_is_refused() -> None:
    row = waiting(needed=2)
    decide(row, YES, ANN, RecordRedaction())
    assert refusal(row, YES, BOB) == "decided"  # it was not shown the first yes, or an edit


def test_what_is_decided_stays_and_the_same_decision_again_does_no_harm() -> None:
    row = decide(waiting(), NO, ANN, RecordRedaction())
    assert decide(row, NO, BOB, RecordRedaction()).decided_by == "ann"
    assert refusal(row, YES, BOB) == "decided"


def test_expiry_is_on_record() -> None:
    row = waiting(expires_at=timezone.now() - timedelta(seconds=1))
    asking.sweep()
    assert McpApproval.objects.get(pk=row.pk).status == "expired"
    assert AuditEvent.objects.filter(kind="call.expired", subject_id=row.pk).count() == 1
    assert refusal(row, YES, ANN) == "expired"


def test_the_difference_is_to_the_last_approved_call_of_this_caller() -> None:
    decide(waiting(), YES, ANN, RecordRedaction())
    waiting(arguments={"table": "b"}, principal="key:2")
    changed, last = difference(waiting(arguments={"table": "c", "force": True}))
    assert last is not None
    assert changed == {"table": ["a", "c"], "force": [None, True]}


def test_a_clock_that_was_set_back_opens_nothing_that_is_over_and_closes_nothing_that_waits() -> None:
    """Rows of the time before the clock was set back lie in the future."""
    ahead = timezone.now() + timedelta(hours=2)
    row = decide(waiting(created_at=ahead, expires_at=ahead + timedelta(hours=1)), YES, ANN, RecordRedaction())
    assert row.status == "approved"
    assert row.expires_at < ahead  # ten minutes from the decision, by the clock as it is now
    assert asking.claim(row.pk, "one")
    assert not asking.claim(row.pk, "two")
    no = decide(waiting(created_at=ahead, expires_at=ahead + timedelta(hours=1)), NO, ANN, RecordRedaction())
    assert refusal(no, YES, BOB) == "decided"
    over = waiting(status="expired", decided_at=ahead, created_at=ahead, expires_at=ahead)
    assert refusal(over, YES, ANN) == "decided"


def test_who_lost_the_group_in_between_does_not_approve_and_an_earlier_yes_counts_once() -> None:
    row = decide(
        waiting(group="treasury", needed=2), YES, Decider("user:1", "ann", groups=["treasury"]), RecordRedaction()
    )
    assert refusal(row, YES, Decider("user:2", "bob")) == "group"
    assert refusal(row, YES, Decider("user:1", "ann")) == "group"
    assert decide(row, NO, Decider("user:2", "bob"), RecordRedaction()).status == "denied"
