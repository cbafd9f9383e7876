"""Calls and envelopes in one PostgreSQL table a month: converted while calls go on, and dropped by retention whole."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from invocations.chain import months, retention, service
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Log
from invocations.chain.models import AuditHold, AuditLeaves, AuditPolicy
from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Bad
from invocations.ledger import statements
from invocations.ledger.records import new_invocation_id
from invocations.models import McpRequestEnvelope, McpToolInvocation, OpenCallMark
from invocations.recovery.open_calls import OpenCalls
from mcphub.features.partitions import ahead, converting, doctor, sweeping, tables
from sessions_app.kit.database import Dedicated
from tests import forking
from tests.committed import without_rules
from tests.invocations.chain.rows import envelope, event, invocation, ledger, verify
from tests.servers import POSTGRES, postgres_database
from tests.waiting import PATIENCE_SECONDS, until

pytestmark = [pytest.mark.postgresql, pytest.mark.usefixtures("own_database")]

_CALLS, _ENVELOPES = "invocations_mcptoolinvocation", "invocations_mcprequestenvelope"
_SEPTEMBER = datetime(2026, 9, 10, tzinfo=UTC)
_OCTOBER, _NOVEMBER = datetime(2026, 10, 10, tzinfo=UTC), datetime(2026, 11, 10, tzinfo=UTC)


@pytest.fixture
def own_database(transactional_db: None, settings: Any, tmp_path: Path) -> Iterator[None]:
    """A database of the test's own: what is partitioned stays so."""
    settings.MCPHUB_AUDIT_DIR = tmp_path / "audit"
    kept = connection.settings_dict["NAME"]
    with postgres_database() as address:
        _connect_to(address.rpartition("/")[2])
        yield
        _connect_to(kept)


def _connect_to(name: str) -> None:
    connection.close()
    connection.close_pool()
    connection.settings_dict["NAME"] = name


@pytest.fixture
def database(own_database: None) -> Iterator[Dedicated]:
    database = Dedicated()
    yield database
    database.close()


@pytest.fixture
def keys(own_database: None) -> KeyFolder:
    return service.keys()


@pytest.fixture
def log(database: Dedicated, keys: KeyFolder) -> Log:
    """A log whose first block has the events of the migrations, of September."""
    log = service.log_of(database)
    assert seal(log, keys, _SEPTEMBER) == _of_migrations(log)
    return log


def _of_migrations(log: Log) -> int:
    block = log.block(0)
    assert block is not None
    return int(block.header["count"])


def record(at: datetime, calls: int = 3, tool: str = "echo") -> list[str]:
    """Record calls that were received at a moment, as the ledger does; return their IDs."""
    own, ids = ledger(), [new_invocation_id() for _ in range(calls)]
    moment = at.isoformat()
    try:
        with own.transaction():
            for id_ in ids:
                statements.insert(own, statements.ENVELOPE, [envelope(own, id_, tool, received_at=moment)])
                row = invocation(own, id_, tool, received_at=moment, started_at=moment, finished_at=moment)
                assert statements.insert(own, statements.INVOCATION, [row]) == 1
    finally:
        own.close()
    return ids


def seal(log: Log, keys: KeyFolder, at: datetime) -> int:
    return Sealer(log, keys, now=lambda: at).seal()


def policy(**days: int) -> None:
    AuditPolicy(**days).save()


def count(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute(f'SELECT count(*) FROM "{table}"')
        return int(cursor.fetchone()[0])


def call_tables(log: Log) -> list[str]:
    return list(months.partitions(log, _CALLS))


@pytest.fixture
def halves(log: Log, keys: KeyFolder) -> Log:
    """Three calls of October and three of November, each in their month; the first of November is the conversion's."""
    converting.convert(log, _SEPTEMBER)
    ahead.make(log, datetime(2026, 11, 5, tzinfo=UTC))
    for at in (_OCTOBER, _NOVEMBER):
        record(at, tool=f"of_{at:%B}".lower())
        event(kind=f"tool.of_{at:%B}".lower())
        assert seal(log, keys, at) == 7
    return log


def test_conversion_keeps_rows_numbers_and_proofs_and_calls_go_on(log: Log, keys: KeyFolder) -> None:
    before = record(timezone.now())
    seal(log, keys, timezone.now())
    indexes = _indexes()
    made = converting.convert(log, timezone.now())
    assert sorted(made) == sorted(
        name for of in months.TABLES for name in months.partitions(log, of.table) if "until" in name
    )
    last = McpToolInvocation.objects.latest("id").pk
    after = record(timezone.now())
    assert set(McpToolInvocation.objects.values_list("invocation_id", flat=True)) == {*before, *after}
    assert McpToolInvocation.objects.filter(id__gt=last).count() == len(after)
    seal(log, keys, timezone.now())
    assert verify(log, keys).rows == 12 + _of_migrations(log)
    assert indexes - _indexes() == {f"{_CALLS}_pkey", f"{_CALLS}_invocation_id_key"}
    assert converting.convert(log, timezone.now()) == []


def _indexes() -> set[str]:
    with connection.cursor() as cursor:
        cursor.execute("SELECT indexname FROM pg_indexes WHERE tablename = %s", [_CALLS])
        return {row[0] for row in cursor.fetchall()}


def test_a_call_that_recovery_ended_before_its_outcome_came_stands_once(log: Log, database: Dedicated) -> None:
    converting.convert(log, timezone.now())
    id_, received = new_invocation_id(), database.timestamp(timezone.now().timestamp())
    outcomes = [invocation(database, id_, failed=failed, received_at=received) for failed in (True, False)]
    own = ledger()
    try:
        assert [statements.insert(own, statements.INVOCATION, [row]) for row in outcomes] == [1, 0]
    finally:
        own.close()
    assert McpToolInvocation.objects.get(invocation_id=id_).status == "error"


def test_open_calls_are_looked_for_in_the_month_of_each_alone(halves: Log) -> None:
    look = OpenCalls()
    look.look()
    OpenCallMark.objects.all().delete()
    with CaptureQueriesContext(connection) as queries:
        look.look()
    (statement,) = [each["sql"] for each in queries if "EXISTS(" in each["sql"]]
    with connection.cursor() as cursor:
        cursor.execute("SET enable_hashjoin = off; SET enable_mergejoin = off; SET enable_material = off")
        cursor.execute(f"EXPLAIN (ANALYZE) {statement}")
        plan = [line for (line,) in cursor.fetchall() if f"{_CALLS}_until" in line or f"{_CALLS}_other" in line]
    assert len([line for line in plan if "never executed" not in line]) == 2


@pytest.mark.parametrize(
    "statement",
    [
        f"UPDATE {_CALLS} SET principal = 'x'",
        f"DELETE FROM {_CALLS}",
        "TRUNCATE {partition}",
        "DELETE FROM {partition}",
    ],
)
def test_rows_of_a_partition_never_change(halves: Log, statement: str) -> None:
    for partition in call_tables(halves):
        with connection.cursor() as cursor, pytest.raises(Exception, match="records never change"):
            cursor.execute(statement.format(partition=partition) if count(partition) else f"TRUNCATE {partition}")


def test_retention_drops_a_month_once_all_of_it_is_old(halves: Log, keys: KeyFolder) -> None:
    policy(rows_days=20)
    end = datetime(2026, 11, 1, tzinfo=UTC)
    assert retention.apply(halves, keys, now=end + timedelta(days=19)) == (0, 0)
    both = retention.due(halves, datetime(2027, 1, 1, tzinfo=UTC))
    assert [plan.rows for plan in both] == [7 + _of_migrations(halves), 7]
    assert months.name(_CALLS, end) in call_tables(halves)
    assert retention.apply(halves, keys, now=end + timedelta(days=20)) == (7 + _of_migrations(halves), 0)
    assert months.name(_CALLS, end) not in call_tables(halves)
    assert set(McpToolInvocation.objects.values_list("tool_name", flat=True)) == {"of_november"}
    assert set(McpRequestEnvelope.objects.values_list("tool_name", flat=True)) == {"of_november"}
    assert list(AuditLeaves.objects.values_list("block_id", flat=True)) == [2]
    summary = verify(halves, keys)
    assert (summary.rows, summary.removed) == (7, 7 + _of_migrations(halves))
    seal(halves, keys, timezone.now())
    assert verify(halves, keys).rows == 7 + 2, "the policy and the removal are events"


def test_a_call_that_ended_in_the_next_month_goes_with_its_block(log: Log, keys: KeyFolder) -> None:
    converting.convert(log, _SEPTEMBER)
    ahead.make(log, datetime(2026, 11, 5, tzinfo=UTC))
    record(_OCTOBER, 1, "long")
    record(_NOVEMBER, 1, "short")
    seal(log, keys, _NOVEMBER)
    record(_NOVEMBER, 1, "next")
    seal(log, keys, _NOVEMBER + timedelta(days=1))
    policy(rows_days=20)
    assert retention.apply(log, keys, now=_NOVEMBER + timedelta(days=19)) == (0, 0), "its block is not old yet"
    assert retention.apply(log, keys, now=_NOVEMBER + timedelta(days=20, seconds=1)) == (4 + _of_migrations(log), 0)
    assert set(McpToolInvocation.objects.values_list("tool_name", flat=True)) == {"next"}
    assert verify(log, keys).removed == 4 + _of_migrations(log)


def test_a_month_with_held_calls_loses_the_others_and_goes_after_the_release(halves: Log, keys: KeyFolder) -> None:
    record(_OCTOBER, 2, "held")
    seal(halves, keys, _OCTOBER)
    hold = AuditHold.objects.create(name="case", reason="court", tool_name="held")
    policy(rows_days=30)
    now = datetime(2027, 2, 1, tzinfo=UTC)
    retention.apply(halves, keys, now=now)
    assert set(McpToolInvocation.objects.values_list("tool_name", flat=True)) == {"held"}
    assert verify(halves, keys).removed == 14 + _of_migrations(halves)
    hold.release("closed")
    retention.apply(halves, keys, now=now)
    assert not McpToolInvocation.objects.exists()
    assert months.name(_CALLS, datetime(2026, 11, 1, tzinfo=UTC)) not in call_tables(halves)
    assert verify(halves, keys).removed == 18 + _of_migrations(halves)


def test_a_month_that_was_tampered_with_does_not_vanish(halves: Log, keys: KeyFolder) -> None:
    row = McpToolInvocation.objects.filter(tool_name="of_october").first()
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute(f"UPDATE {_CALLS} SET principal = 'x' WHERE id = %s", [row.pk])
    policy(rows_days=1)
    with pytest.raises(Bad, match=f"invocation {row.pk} "):
        retention.apply(halves, keys, now=datetime(2026, 12, 20, tzinfo=UTC))
    assert McpToolInvocation.objects.filter(tool_name="of_october").count() == 3


def test_a_month_is_verified_over_several_rounds_before_it_goes(log: Log, keys: KeyFolder) -> None:
    converting.convert(log, _SEPTEMBER)
    for _ in range(102):
        record(_OCTOBER, 26)
        seal(log, keys, _OCTOBER)
    policy(rows_days=1)
    verified, rounds = retention.VerifiedBlocks(), []
    while McpToolInvocation.objects.exists():
        rounds.append(retention.apply(log, keys, most=1, verified=verified, now=datetime(2026, 12, 1, tzinfo=UTC)))
    assert rounds == [(0, 0), (5304 + _of_migrations(log), 0)]
    assert verify(log, keys).removed == 5304 + _of_migrations(log)


def test_a_query_that_reads_on_keeps_its_month_and_makes_no_call_wait(halves: Log, keys: KeyFolder) -> None:
    policy(rows_days=1)
    with Reader() as reader:
        reader.raw.execute(f"SELECT 1 FROM {_CALLS}")
        with pytest.raises(retention.StillRead, match="could not be dropped"):
            retention.apply(halves, keys, now=datetime(2026, 12, 1, tzinfo=UTC))
        assert len(record(_NOVEMBER)) == 3
    assert retention.apply(halves, keys, now=datetime(2026, 12, 1, tzinfo=UTC)) == (7 + _of_migrations(halves), 0)


class Reader:
    """A connection in a transaction of its own."""

    def __enter__(self) -> Reader:
        known = connection.settings_dict
        self.raw = psycopg.connect(
            host=known["HOST"], port=known["PORT"] or 5432, user=known["USER"], dbname=known["NAME"]
        )
        return self

    def __exit__(self, *error: object) -> None:
        self.raw.close()


@contextlib.contextmanager
def calls_going_on() -> Iterator[list[str]]:
    """Record a call after the other for the time of the block; yield their IDs."""
    recorded: list[str] = []
    ended = threading.Event()

    def go_on() -> None:
        while not ended.is_set():
            recorded.extend(record(timezone.now(), 1))

    thread = threading.Thread(target=go_on)
    thread.start()
    try:
        yield recorded
    finally:
        ended.set()
        thread.join()


def test_calls_are_recorded_through_the_whole_conversion(log: Log, keys: KeyFolder) -> None:
    record(timezone.now(), 50)
    with calls_going_on() as recorded:
        converting.convert(log, timezone.now())
    assert McpToolInvocation.objects.filter(invocation_id__in=recorded).count() == len(recorded) > 0
    seal(log, keys, timezone.now())
    assert verify(log, keys).rows == 2 * (50 + len(recorded)) + _of_migrations(log)


def conversion(home: Path, *words: str) -> subprocess.Popen[str]:
    """Start a program that converts the tables of this test's database."""
    address = f"{POSTGRES}/{connection.settings_dict['NAME']}"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("MCPHUB_")}
    own = {"MCPHUB_DATA_DIR": str(home), "MCPHUB_ALLOW_NOT_DURABLE": "1", "MCPHUB_DATABASE_URL": address}
    env = {**inherited, **own}
    return forking.start("tests.features.partitions.killed", *words, env=env, text=True, stderr=subprocess.PIPE)


def all_goes_on(log: Log, keys: KeyFolder, before: list[str], recorded: list[str]) -> None:
    """Convert after a killed conversion, and hold that every call stands once and is proved."""
    until_now(lambda: _converted(log))
    assert all(tables.is_partitioned(log, of.table) for of in months.TABLES)
    assert not list(doctor.check())
    expected = [*before, *recorded, *record(timezone.now(), 1)]
    for model in (McpToolInvocation, McpRequestEnvelope):
        assert sorted(model.objects.values_list("invocation_id", flat=True)) == sorted(expected)
    ids = list(McpToolInvocation.objects.values_list("id", flat=True))
    assert len(ids) == len(set(ids))
    seal(log, keys, timezone.now())
    assert verify(log, keys).rows == 2 * len(expected) + _of_migrations(log)
    assert not _bounded()


def until_now(ask: Callable[[], object]) -> None:
    asyncio.run(until(ask))


def _converted(log: Log) -> bool:
    """Convert, unless the server has not yet seen that the client of the killed conversion is gone."""
    try:
        converting.convert(log, timezone.now())
    except converting.CannotConvert:
        return False
    return True


_DEATHS = [
    ("VALIDATE CONSTRAINT", 1),
    ("CREATE UNIQUE INDEX CONCURRENTLY", 2),
    ("LOCK TABLE", 1),
    ("RENAME TO", 1),
    ("ATTACH PARTITION", 1),
    ("OWNER TO", 2),
    ("VALIDATE CONSTRAINT", 2),
    ("LOCK TABLE", 2),
    ("ATTACH PARTITION", 5),
]


@pytest.mark.program
@pytest.mark.parametrize(("words", "number"), _DEATHS)
def test_of_a_conversion_killed_before_a_statement_no_row_is_lost_or_doubled(
    log: Log, keys: KeyFolder, tmp_path: Path, words: str, number: int
) -> None:
    before = record(timezone.now(), 20)
    with calls_going_on() as recorded:
        with conversion(tmp_path, words, str(number)) as process:
            _, errors = process.communicate(timeout=PATIENCE_SECONDS)
        assert process.returncode == -signal.SIGKILL, errors
        at_death = len(recorded)
        until_now(lambda: len(recorded) > at_death)
    all_goes_on(log, keys, before, recorded)


@pytest.mark.program
def test_of_a_conversion_killed_within_a_statement_no_row_is_lost_or_doubled(
    log: Log, keys: KeyFolder, tmp_path: Path
) -> None:
    before = record(timezone.now(), 20)
    with Reader() as reader, calls_going_on() as recorded:
        reader.raw.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        reader.raw.execute("SELECT 1")  # an index waits for the end of every older snapshot
        with conversion(tmp_path, "no such words", "1") as process:
            until_now(_index_waits)
            process.kill()
        at_death = len(recorded)
        until_now(lambda: len(recorded) > at_death)
        with pytest.raises(converting.CannotConvert, match="Another conversion runs"):
            converting.convert(log, timezone.now())
    all_goes_on(log, keys, before, recorded)


def _index_waits() -> bool:
    with Reader() as reader:
        found = reader.raw.execute(
            "SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' "
            "AND query LIKE 'CREATE UNIQUE INDEX CONCURRENTLY%'"
        )
        return found.fetchone() is not None


def test_what_a_killed_conversion_left_is_taken_back(log: Log) -> None:
    with Reader() as killed:
        killed.raw.autocommit = True
        assert killed.raw.execute(tables.CONVERTING).fetchone() == (True,)
        killed.raw.execute(
            f"ALTER TABLE {_CALLS} ADD CONSTRAINT {tables.BOUND} CHECK (received_at < '2026-12-01') NOT VALID"
        )
        with pytest.raises(converting.CannotConvert, match="Another conversion runs"):
            converting.convert(log, timezone.now())
        sweeping.sweep()
        assert _bounded(), "the conversion goes on"
    sweeping.sweep()
    assert not _bounded()
    record(datetime(2027, 1, 1, tzinfo=UTC))


def _bounded() -> bool:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1 FROM pg_constraint WHERE conname = %s", [tables.BOUND])
        return cursor.fetchone() is not None


def test_views_of_others_are_named_and_nothing_is_done(log: Log) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"CREATE VIEW of_reports AS SELECT tool_name FROM {_CALLS}")
    with pytest.raises(converting.CannotConvert, match="of_reports"):
        converting.convert(log, timezone.now())
    assert not tables.is_partitioned(log, _CALLS)


def test_rights_of_roles_come_along(log: Log) -> None:
    with connection.cursor() as cursor:
        cursor.execute("CREATE ROLE mcphub_reads_calls")
        try:
            cursor.execute(f"GRANT SELECT, UPDATE (result) ON {_CALLS} TO mcphub_reads_calls")
            converting.convert(log, timezone.now())
            cursor.execute(
                "SELECT has_table_privilege('mcphub_reads_calls', %s, 'SELECT'), "
                "has_column_privilege('mcphub_reads_calls', %s, 'result', 'UPDATE'), "
                "has_table_privilege('mcphub_reads_calls', %s, 'DELETE')",
                [_CALLS] * 3,
            )
            assert cursor.fetchone() == (True, True, False)
        finally:
            cursor.execute("DROP OWNED BY mcphub_reads_calls")
            cursor.execute("DROP ROLE mcphub_reads_calls")


def test_calls_of_a_month_without_a_table_are_kept_apart_and_the_next_month_has_one(log: Log) -> None:
    converting.convert(log, datetime(2026, 1, 10, tzinfo=UTC))
    record(datetime(2026, 6, 10, tzinfo=UTC), 2)
    assert count(tables.rest_of(_CALLS)) == 2
    assert [finding.level for finding in doctor.check()] == ["wrong"]
    sweeping.sweep()
    assert not list(doctor.check())
    record(timezone.now(), 1)
    assert count(tables.rest_of(_CALLS)) == 2
    assert McpToolInvocation.objects.count() == 3


def test_lists_read_the_newest_of_all_months_by_index(halves: Log) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"EXPLAIN SELECT * FROM {_CALLS} WHERE tool_name = 'x' ORDER BY id DESC LIMIT 50")
        plan = "\n".join(row[0] for row in cursor.fetchall())
    assert "Merge Append" in plan, plan
    assert "Sort  " not in plan, plan


def test_the_planner_knows_the_whole_record_after_the_conversion(log: Log) -> None:
    record(timezone.now(), 20, "busy")
    converting.convert(log, timezone.now())
    assert _counted() == 20
    assert _common_tools() == "{busy}"


def test_the_planner_learns_of_rows_that_went_and_no_sooner_than_after_a_day_of_others(
    halves: Log, keys: KeyFolder
) -> None:
    sweeping.sweep()
    before = _counted()
    record(_NOVEMBER, 1)
    sweeping.sweep()
    assert _counted() == before
    _analyzed(_CALLS, _ENVELOPES)
    record(_OCTOBER, 20)
    _analyzed(_CALLS, _ENVELOPES)
    seal(halves, keys, _OCTOBER)
    policy(rows_days=30)
    retention.apply(halves, keys, now=datetime(2027, 2, 1, tzinfo=UTC))
    assert not McpToolInvocation.objects.exists()
    assert _counted() > 20
    sweeping.sweep()
    assert _counted() == 0


def _counted() -> int:
    """Return how many calls the planner believes to be on record."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT reltuples FROM pg_class WHERE oid = to_regclass(%s)", [_CALLS])
        return int(cursor.fetchone()[0])


def _common_tools() -> str:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT most_common_vals::text FROM pg_stats WHERE tablename = %s AND attname = 'tool_name' AND inherited",
            [_CALLS],
        )
        return str(cursor.fetchone()[0])


def _analyzed(*names: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(f"ANALYZE {', '.join(names)}")
