"""Both forms of one task."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol import tasks
from sessions_app.protocol.errors import InvalidParams
from sessions_app.protocol.tasks import Task, TaskState

AT = datetime(2026, 1, 2, 3, 4, 5, 678_901, tzinfo=UTC)


def task(state: str = "working", **changes) -> Task:
    values = {"task_id": "t", "created_at": AT, "updated_at": AT, "ttl_ms": 60_000, "poll_ms": 1000}
    return Task(state=TaskState(state), **{**values, **changes})


def test_times_are_utc_to_the_millisecond():
    assert tasks.moment(AT) == "2026-01-02T03:04:05.678Z"
    assert tasks.moment(AT.astimezone(timezone(timedelta(hours=5)))) == "2026-01-02T03:04:05.678Z"


def test_names_differ_and_values_do_not():
    core, flat = tasks.core(task(message="m")), tasks.flat(task(message="m"))
    renamed = {"ttl": "ttlMs", "pollInterval": "pollIntervalMs"}
    assert {renamed.get(name, name): value for name, value in core.items()} == flat
    assert flat["statusMessage"] == "m"
    assert "statusMessage" not in tasks.core(task())


@given(st.sampled_from(TaskState), st.booleans())
def test_only_the_core_form_calls_a_tools_error_a_failure(state, is_error):
    made = task(state, result={"content": [], "isError": is_error}, error={"code": 1, "message": "m"})
    expected = "failed" if state is TaskState.COMPLETED and is_error else state.value
    assert tasks.core(made)["status"] == expected
    assert tasks.flat(made)["status"] == state.value


@pytest.mark.parametrize(
    ("state", "member"),
    [
        ("working", None),
        ("input_required", "inputRequests"),
        ("completed", "result"),
        ("failed", "error"),
        ("cancelled", None),
    ],
)
def test_each_state_brings_its_own_member(state, member):
    made = task(state, result={"content": []}, error={"code": 1, "message": "m"}, requests={"a": {"method": "x"}})
    assert tasks.detailed(made).keys() - tasks.flat(made).keys() == ({member} if member else set())


@pytest.mark.parametrize(
    "capabilities",
    [{}, {"extensions": None}, {"extensions": []}, {"extensions": {"x": {}}}, {"extensions": {tasks.EXTENSION: True}}],
)
def test_what_does_not_declare_the_extension(capabilities):
    assert not tasks.declared(capabilities)


def test_what_declares_the_extension():
    assert tasks.declared({"extensions": {tasks.EXTENSION: {"any": 1}}})


@pytest.mark.parametrize(
    ("given_task", "ttl"), [({}, None), ({"ttl": None}, None), ({"ttl": 0}, 0), ({"ttl": 1.5}, 1.5)]
)
def test_lifetimes_that_may_be_asked_for(given_task, ttl):
    assert tasks.wanted_ttl({"task": given_task}) == ttl


@pytest.mark.parametrize("given_task", [None, [], "x", 1, {"ttl": "1"}, {"ttl": True}, {"ttl": -1}, {"ttl": []}])
def test_lifetimes_that_may_not(given_task):
    with pytest.raises(InvalidParams):
        tasks.wanted_ttl({"task": given_task})


@pytest.mark.parametrize("params", [{}, {"taskId": None}, {"taskId": 1}, {"taskId": ""}])
def test_a_task_must_be_named(params):
    with pytest.raises(InvalidParams):
        tasks.task_id(params)


def test_the_related_task_stands_beside_what_is_there():
    assert tasks.related({"a": 1}, "t") == {"a": 1, tasks.RELATED: {"taskId": "t"}}
