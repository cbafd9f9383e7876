"""Failed calls come into groups with the blocks: each once, within bounds, and what was resolved comes back."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from invocations.chain import service
from invocations.chain.models import AuditTombstone
from mcphub.features.error_groups import grouping
from mcphub.features.error_groups.judging import judge
from mcphub.features.error_groups.models import ErrorGroup
from sessions_app.history.events import Actor
from sessions_app.history.models import AuditEvent
from tests.factories import McpToolInvocationFactory

pytestmark = pytest.mark.usefixtures("transactional_db")

NOON = datetime(2020, 1, 1, 12, tzinfo=UTC)
SOMEBODY = Actor("user:1", "ann")


def fail(message="No order 1", tool="order", code="execution_error", **more):
    error = {"code": -31033, "message": message, "data": {}}
    values = {"failed": True, "tool_name": tool, "error_code": code, "error": error, "tool_digest": "0" * 64}
    return McpToolInvocationFactory(**{**values, "started_at": NOON, **more})


def test_failures_that_differ_in_numbers_are_one_group(sealer):
    fail("No order 1", principal="key:1", caller_label="laptop")
    fail("No order 2", principal="key:1", caller_label="laptop", started_at=NOON + timedelta(hours=1))
    sealer.seal()
    fail("No order 3", principal="key:2", caller_label="phone", started_at=NOON - timedelta(days=1), occurrences=4)
    fail("No customer")
    McpToolInvocationFactory(tool_name="order", started_at=NOON)
    sealer.seal()
    sealer.seal()
    group = ErrorGroup.objects.get(message="No order <number>")
    assert (group.tool_name, group.error_code, group.calls, group.state) == ("order", "execution_error", 6, "open")
    assert (group.first_at, group.last_at) == (NOON - timedelta(days=1), NOON + timedelta(hours=1))
    assert group.first_sequence < group.last_sequence
    assert group.callers == {"key:1": ["laptop", 2], "key:2": ["phone", 4]}
    assert group.days == {f"{NOON - timedelta(days=1):%Y-%m-%d}": 4, f"{NOON:%Y-%m-%d}": 2}
    assert sum(group.hours.values()) == 6
    assert ErrorGroup.objects.count() == 2


def test_two_processes_that_seal_count_each_failure_once(sealer, database):
    other = service.sealer_of(database)
    for number in range(6):
        fail(f"No order {number}")
        (sealer, other)[number % 2].seal()
    assert ErrorGroup.objects.get().calls == 6


def test_what_was_resolved_and_fails_again_comes_back_and_what_is_muted_does_not(sealer):
    fail("resolved", started_at=NOON)
    fail("muted", started_at=NOON)
    sealer.seal()
    resolved, muted = (ErrorGroup.objects.get(message=word) for word in ("resolved", "muted"))
    assert judge(resolved, "resolve", SOMEBODY, "mended")
    assert not judge(resolved, "resolve", SOMEBODY)
    assert judge(muted, "mute", SOMEBODY)
    event = AuditEvent.objects.get(kind="errorgroup.resolve")
    assert (event.actor, event.reason, event.subject_id) == ("user:1", "mended", str(resolved.pk))
    fail("resolved", started_at=resolved.state_at - timedelta(minutes=1))
    sealer.seal()
    resolved.refresh_from_db()
    assert resolved.state == "resolved"  # it began before it was resolved
    later = datetime.now(UTC) + timedelta(minutes=1)
    fail("resolved", started_at=later)
    fail("muted", started_at=later)
    sealer.seal()
    resolved.refresh_from_db()
    muted.refresh_from_db()
    assert (resolved.state, resolved.reopened, muted.state, muted.calls) == ("open", True, "muted", 2)


def test_names_that_no_tool_has_make_one_group(sealer):
    for number in range(5):
        fail(f"There is no tool x{number}", tool=f"x{number}", code="tool_not_found", tool_digest="")
    sealer.seal()
    group = ErrorGroup.objects.get()
    assert (group.tool_name, group.message, group.calls) == ("", "", 5)


def test_messages_and_callers_are_bounded(sealer):
    words = [chr(97 + number // 26) + chr(97 + number % 26) for number in range(grouping.MOST_MESSAGES + 5)]
    for number, word in enumerate(words):
        fail(f"odd {word}", principal=f"key:{number}")
    sealer.seal()
    groups = ErrorGroup.objects.filter(tool_name="order")
    assert groups.exclude(message="").count() == grouping.MOST_MESSAGES
    rest = groups.get(message="")
    assert rest.calls == 5
    for number in range(30):
        fail(f"odd {words[0]}", principal=f"key:{number + 1000}")
    sealer.seal()
    first = ErrorGroup.objects.get(message=f"odd {words[0]}")
    assert len(first.callers) == grouping.MOST_CALLERS
    assert sum(calls for _label, calls in first.callers.values()) + first.unnamed_calls == first.calls == 31


def test_groups_go_when_they_are_old_or_their_calls_are_removed(sealer, log):
    old = fail("old", started_at=NOON - timedelta(days=100))
    fail("new")
    sealer.seal()
    assert old.pk
    grouping.forget(log, NOON)
    assert [group.message for group in ErrorGroup.objects.all()] == ["new"]
    last = ErrorGroup.objects.get().last_sequence
    AuditTombstone.objects.create(**_tombstone(last))
    grouping.forget(log, NOON)
    assert not ErrorGroup.objects.exists()


def _tombstone(through):
    values = {}
    for field in AuditTombstone._meta.concrete_fields:
        if field.name == "invocations_through":
            values[field.name] = through
        elif not field.primary_key and not field.has_default() and not field.null:
            number = "Integer" in field.get_internal_type()
            moment = field.get_internal_type() == "DateTimeField"
            values[field.name] = 0 if number else NOON if moment else "rows"
    return values
