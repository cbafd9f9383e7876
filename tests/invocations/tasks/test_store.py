"""The table of tasks: whose they are, how many there may be, how they move, and what ends them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.conf import settings
from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from invocations.mapping.error_map import ErrorMap
from invocations.models import McpTask
from invocations.recovery import interrupted
from invocations.redaction.policy import RedactionPolicy, RedactionRule
from invocations.redaction.records import RecordRedaction
from invocations.tasks import store
from invocations.tasks.store import Owner, TaskDraft
from sessions_app import bus
from sessions_app.caller import ANONYMOUS, Caller
from sessions_app.models import BusEvent
from sessions_app.protocol.errors import InvalidParams, ServerBusy
from sessions_app.protocol.tasks import TaskState
from tests.factories import (
    McpRequestEnvelopeFactory,
    McpSessionFactory,
    McpTaskFactory,
    McpToolInvocationFactory,
    ServerProcessFactory,
)
from tests.invocations.calls.call_path import source

pytestmark = pytest.mark.django_db

MINE = Owner("key:1")
FORM = {"method": "elicitation/create", "params": {"message": "?"}}


def draft(number: int = 1, **changes) -> TaskDraft:
    values = {
        "source": source(),
        "invocation_id": f"made-{number}",
        "process_id": "p",
        "tool_name": "echo",
        "ttl_ms": 60_000,
        "poll_ms": 1000,
    }
    return TaskDraft(**{**values, **changes})


def told() -> list[str]:
    return list(BusEvent.objects.filter(subject=bus.TASK_CHANGED).values_list("payload", flat=True))


def test_a_task_is_found_by_its_owner_alone():
    made = store.create(draft())
    assert store.find(made.task_id, MINE) == made
    assert (made.state, made.is_over, len(made.task_id)) == (TaskState.WORKING, False, 32)
    with pytest.raises(InvalidParams, match="no such task"):
        store.find(made.task_id, Owner("key:2"))


def test_ids_are_unique():
    row = McpTaskFactory()
    with pytest.raises(IntegrityError), transaction.atomic():
        McpTaskFactory(task_id=row.task_id)


def test_callers_without_a_key_are_told_apart_by_their_sessions():
    mine, others = McpSessionFactory().session_id, McpSessionFactory().session_id
    made = store.create(draft(source=source(mine, ANONYMOUS)))
    assert store.find(made.task_id, Owner.of(source(mine, ANONYMOUS))).task_id == made.task_id
    with pytest.raises(InvalidParams):
        store.find(made.task_id, Owner.of(source(others, ANONYMOUS)))
    assert store.page(Owner.of(source(others, ANONYMOUS)), None, 10) == ([], None)


def test_an_open_task_counts_until_it_is_over(settings):
    settings.MCPHUB_MAX_OPEN_TASKS_PER_CALLER = 2
    first = store.create(draft(1))
    store.create(draft(2))
    with pytest.raises(ServerBusy, match="2 tasks"):
        store.create(draft(3))
    stranger = Caller(principal="key:2", label="", scopes=frozenset())
    store.create(draft(4, source=source(caller=stranger)))
    store.settle(first.task_id, TaskState.COMPLETED, result={})
    store.create(draft(3))


def test_a_finished_task_counts_until_it_expires(settings):
    settings.MCPHUB_MAX_TASKS_PER_CALLER = 1
    row = McpTaskFactory(over=True)
    with pytest.raises(ServerBusy, match="shorter lifetimes"):
        store.create(draft())
    row.delete()
    McpTaskFactory(over=True, created_at=timezone.now() - timedelta(hours=2))
    store.create(draft())


def test_a_request_makes_one_task():
    first = store.create(draft(1, request_key="s 1", request_digest="d"))
    with pytest.raises(store.TaskTaken) as taken:
        store.create(draft(2, request_key="s 1", request_digest="other"))
    assert (taken.value.task.task_id, taken.value.digest) == (first.task_id, "d")


@pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
def test_a_task_that_is_over_stays_so_in_the_database_itself(state):
    row = McpTaskFactory()
    store.settle(row.task_id, TaskState(state), result={"content": []}, error={"code": 1, "message": "m"})
    assert told() == [row.task_id]
    assert not store.settle(row.task_id, TaskState.COMPLETED, result={})
    assert not store.ask(row.task_id, {"a": FORM})
    for change in ("state = 'working', finished_at = NULL", "result = '{}'", "message = 'x'"):
        with pytest.raises(IntegrityError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f"UPDATE invocations_mcptask SET {change} WHERE id = %s", [row.pk])
    assert McpTask.objects.get().state == state


@pytest.mark.parametrize(
    "columns",
    [
        {"state": "sleeping"},
        {"state": "completed"},
        {"finished_at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"state": "failed", "finished_at": datetime(2020, 1, 1, tzinfo=UTC), "error": None},
    ],
)
def test_rows_keep_to_the_rules(columns):
    with pytest.raises(IntegrityError), transaction.atomic():
        McpTaskFactory(**columns)


def test_answers_come_one_by_one_and_only_to_what_is_asked():
    task_id = store.create(draft()).task_id
    store.ask(task_id, {"a": FORM})
    store.ask(task_id, {"b": FORM})
    assert store.find(task_id, MINE).requests == {"a": FORM, "b": FORM}
    store.answer(task_id, MINE, {"a": {"x": 1}, "unknown": {}})
    waiting = store.find(task_id, MINE)
    assert (waiting.state, set(waiting.requests)) == (TaskState.INPUT_REQUIRED, {"b"})
    store.answer(task_id, MINE, {"a": {"x": 2}})
    with pytest.raises(InvalidParams):
        store.answer(task_id, Owner("key:2"), {"b": {}})
    store.answer(task_id, MINE, {"b": {"x": 3}})
    assert store.find(task_id, MINE).state is TaskState.WORKING
    assert store.answers_of(task_id) == {"a": {"x": 1}, "b": {"x": 3}}
    assert told() == [task_id] * 4


def test_the_row_hides_what_the_client_and_the_call_still_read():
    secret = "ghp_" + "a1" * 18
    rules = [RedactionRule("", "both", "form", "github_token")]
    record = RecordRedaction(RedactionPolicy(rules, settings.MCPHUB_ENCRYPTION_KEYS))
    asked, answered = {"method": "elicitation/create", "params": {"message": secret}}, {"result": {"token": secret}}

    def row() -> str:
        return str(McpTask.objects.values().get())

    task_id = store.create(draft()).task_id
    store.ask(task_id, {"a": asked}, {"a": record.words(asked)})
    assert (store.find(task_id, MINE).requests, secret in row()) == ({"a": asked}, False)
    store.answer(task_id, MINE, {"a": answered}, lambda tool, given: record.arguments(tool, None, given))
    assert (store.answers_of(task_id), secret in row()) == ({"a": answered}, False)
    result = {"content": [{"type": "text", "text": secret}]}
    store.settle(task_id, TaskState.COMPLETED, result=result, shown={"result": record.words(result)})
    assert (store.find(task_id, MINE).result, secret in row()) == (result, False)


def test_a_question_that_is_taken_back_waits_for_nobody():
    task_id = store.create(draft()).task_id
    store.ask(task_id, {"a": FORM})
    store.withdraw(task_id, ["a"])
    task = store.find(task_id, MINE)
    assert (task.state, task.requests) == (TaskState.WORKING, {})


def test_an_expired_task_is_unknown_and_then_gone():
    row = McpTaskFactory(created_at=timezone.now() - timedelta(hours=2))
    kept = McpTaskFactory()
    with pytest.raises(InvalidParams):
        store.find(row.task_id, MINE)
    assert [task.task_id for task in store.page(MINE, None, 10)[0]] == [kept.task_id]
    assert store.known([row.task_id, kept.task_id, kept.task_id, "x" * 99, "\x00"], MINE) == [kept.task_id]
    assert store.purge() == 1
    assert McpTask.objects.get().task_id == kept.task_id


@pytest.mark.parametrize("task_id", ["", "x" * 65, "\x00", "ж", "\ud800"])
def test_an_id_that_none_can_have_is_unknown(task_id):
    with pytest.raises(InvalidParams, match="no such task"):
        store.find(task_id, MINE)


def test_results_of_any_text_come_back_as_they_were():
    result = {"content": [{"type": "text", "text": "\x00 \ud800 \u202e"}]}
    task_id = store.create(draft(message="\x00 \ud800")).task_id
    store.settle(task_id, TaskState.COMPLETED, result=result, message="\x00")
    assert store.find(task_id, MINE).result == result


# What a dead process leaves ------------------------------------------------------------------------


def dead():
    return ServerProcessFactory(last_seen_at=timezone.now() - timedelta(hours=1))


def recover():
    return interrupted.recover("host", "own", ErrorMap())


@pytest.mark.parametrize("state", ["working", "input_required"])
def test_the_open_task_of_a_dead_process_fails_once(state):
    process = dead()
    context = {"transport": "streamable-http"}
    envelope = McpRequestEnvelopeFactory(process=process, context=context)
    row = McpTaskFactory(process=process, invocation_id=envelope.invocation_id, state=state)
    living = McpTaskFactory()
    assert interrupted.has_open(process.pk)
    recover()
    task = store.find(row.task_id, MINE)
    assert task.state is TaskState.FAILED
    assert task.error["data"]["errorCode"] == "interrupted"
    assert task.error["data"]["invocationId"] == envelope.invocation_id
    assert not interrupted.has_open(process.pk)
    recover()
    assert told() == [row.task_id]
    assert store.find(living.task_id, MINE).state is TaskState.WORKING


def test_a_call_that_was_recorded_before_its_process_died_completes_its_task():
    process = dead()
    made = McpToolInvocationFactory(process=process)
    row = McpTaskFactory(process=process, invocation_id=made.invocation_id)
    recover()
    task = store.find(row.task_id, MINE)
    assert (task.state, task.result) == (TaskState.COMPLETED, made.result)


def test_a_call_that_failed_before_its_process_died_fails_its_task():
    process = dead()
    made = McpToolInvocationFactory(process=process, failed=True)
    row = McpTaskFactory(process=process, invocation_id=made.invocation_id)
    recover()
    task = store.find(row.task_id, MINE)
    assert (task.state, task.error) == (TaskState.FAILED, made.error)


def test_finished_tasks_outlive_their_process():
    row = McpTaskFactory(process=dead(), over=True)
    recover()
    assert store.find(row.task_id, MINE).state is TaskState.COMPLETED
