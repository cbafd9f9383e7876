"""Open calls are noted while processes live, so that recovery finds them all and reads little else."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from invocations.ledger import statements
from invocations.ledger.records import new_invocation_id
from invocations.mapping.error_map import ErrorMap
from invocations.models import McpRequestEnvelope, McpToolInvocation, OpenCall, OpenCallMark
from invocations.recovery import open_calls
from invocations.recovery.interrupted import has_open, recover
from invocations.recovery.open_calls import OpenCalls
from sessions_app.kit.database import Dedicated
from tests.factories import ServerProcessFactory
from tests.invocations.chain.rows import envelope, fill, invocation, ledger

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def process():
    """The dead process that `fill` and `begin` write calls of."""
    return ServerProcessFactory(process_id="process", last_seen_at=timezone.now() - timedelta(hours=1))


@pytest.fixture
def database():
    database = ledger()
    yield database
    database.close()


def begin(database: Dedicated, calls: int = 1) -> list[str]:
    """Record calls that have no outcome yet; give their ids."""
    ids = [new_invocation_id() for _ in range(calls)]
    with database.transaction():
        insert(database, ids)
    return ids


def insert(database: Dedicated, ids: list[str]) -> None:
    rows = [envelope(database, id_, context='{"transport":"sse"}') for id_ in ids]
    statements.insert(database, statements.ENVELOPE, rows)


def end(database: Dedicated, ids: list[str]) -> None:
    with database.transaction():
        statements.insert(database, statements.INVOCATION, [invocation(database, id_) for id_ in ids])


def recovered() -> int:
    return recover("host", "own", ErrorMap())


def interrupted() -> set[str]:
    return set(McpToolInvocation.objects.filter(error_code="interrupted").values_list("invocation_id", flat=True))


def test_calls_on_both_sides_of_the_mark_are_recovered_and_those_that_ended_are_not(process, database):
    fill(database, 3)
    before = begin(database, 3)
    OpenCalls().look()
    fill(database, 2)
    after = begin(database, 2)
    end(database, [before[0], after[0]])
    assert recovered() == 3
    assert interrupted() == {*before[1:], after[1]}
    assert recovered() == 0
    assert McpRequestEnvelope.objects.count() == McpToolInvocation.objects.count() == 10


def test_calls_of_a_process_that_never_looked_are_recovered(process, database):
    fill(database, 3)
    left = begin(database, 2)
    assert recovered() == 2
    assert interrupted() == set(left)


def test_calls_that_another_process_looked_at_are_recovered(process, database):
    left = begin(database)
    for looking in (OpenCalls(), OpenCalls(), OpenCalls()):
        looking.look()
        left += begin(database)
    assert recovered() == 4
    assert interrupted() == set(left)


def test_open_call_of_a_living_process_is_left_alone_and_stays_noted(database):
    ServerProcessFactory(process_id="process", last_seen_at=timezone.now())
    begin(database)
    looking = OpenCalls()
    looking.look()
    assert recovered() == 0
    looking.look()
    assert OpenCall.objects.count() == 1


def test_what_ended_is_forgotten(process, database):
    ids = begin(database, 3)
    looking = OpenCalls()
    looking.look()
    end(database, ids[:2])
    looking.look()
    assert [row.envelope.invocation_id for row in OpenCall.objects.all()] == ids[2:]


def test_envelope_that_retention_removed_is_forgotten(process, database):
    OpenCall.objects.create(envelope_id=17, process_id="process")
    OpenCalls().look()
    assert not OpenCall.objects.exists()


def test_a_backlog_is_looked_at_in_parts_and_recovered_at_any_time(process, database, monkeypatch):
    monkeypatch.setattr(open_calls, "_STRETCH", 2)
    monkeypatch.setattr(open_calls, "_STRETCHES_A_LOOK", 2)
    fill(database, 7)
    first = McpRequestEnvelope.objects.order_by("pk").first().pk
    OpenCallMark.objects.create(pk=OpenCallMark.ONLY, through=first - 1)
    left = begin(database, 4)
    looking = OpenCalls()
    looking.look()
    assert len(open_calls.of(["process"])) == 4
    assert not OpenCall.objects.exists()
    looking.look()
    looking.look()
    assert OpenCall.objects.count() == 4
    assert recovered() == 4
    assert interrupted() == set(left)


def test_call_that_comes_to_light_after_one_of_a_higher_id_is_not_passed_over(process, database):
    """PostgreSQL gives ids before the commit. SQLite has one writer at a time, so there is no higher one yet."""
    other = ledger()
    looking = OpenCalls()
    id_ = new_invocation_id()
    with database.transaction():
        insert(database, [id_])
        if not database.is_sqlite:
            fill(other)
        for _ in range(3):
            looking.look()
        assert not OpenCallMark.objects.filter(through__gt=0).exists()
    other.close()
    looking.look()
    looking.look()
    assert [row.envelope.invocation_id for row in OpenCall.objects.all()] == [id_]
    assert recovered() == 1
    assert interrupted() == {id_}


def test_a_stop_finds_open_calls_on_both_sides_of_the_mark(process, database):
    fill(database)
    OpenCalls().look()
    assert not has_open("process")
    ids = begin(database)
    assert has_open("process")
    OpenCalls().look()
    assert has_open("process")
    end(database, ids)
    assert not has_open("process")


@pytest.mark.parametrize("deed", ["recover", "has_open", "look"])
def test_what_is_read_does_not_grow_with_the_calls_that_were_answered(process, database, deed):
    looking = OpenCalls()
    deeds = {"recover": recovered, "has_open": lambda: has_open("process"), "look": looking.look}
    fill(database, 30)
    looking.look()
    begin(database)
    few = effort(deeds[deed])
    fill(database, 600)
    looking.look()
    begin(database)
    assert effort(deeds[deed]) < 2 * few + 60
    assert effort(lambda: list(open_calls._unanswered())) > 600, "the measure sees what is read"


def effort(deed) -> int:
    """Return the work of the database: SQLite's instructions by ten, PostgreSQL's rows that the statements looked
    at.
    """
    if connection.vendor == "sqlite":
        steps = 0

        def step() -> None:
            nonlocal steps
            steps += 1

        connection.ensure_connection()
        connection.connection.set_progress_handler(step, 10)
        try:
            deed()
        finally:
            connection.connection.set_progress_handler(None, 0)
        return steps
    with connection.cursor() as cursor:
        cursor.execute("VACUUM ANALYZE invocations_mcprequestenvelope, invocations_mcptoolinvocation")
        cursor.execute("SET enable_seqscan = off")  # a table this small is read whole
        try:
            with CaptureQueriesContext(connection) as queries:
                deed()
            selects = [query["sql"] for query in queries.captured_queries if query["sql"].startswith("SELECT")]
            total = 0
            for sql in selects:
                cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {sql}")
                told = cursor.fetchone()[0]
                total += _rows(json.loads(told)[0]["Plan"] if isinstance(told, str) else told[0]["Plan"])
            return total
        finally:
            cursor.execute("RESET enable_seqscan")


def _rows(plan) -> int:
    removed = plan.get("Rows Removed by Filter", 0) + plan.get("Rows Removed by Join Filter", 0)
    seen = int((plan["Actual Rows"] + removed) * plan["Actual Loops"])
    return seen + sum(_rows(part) for part in plan.get("Plans", ()))
