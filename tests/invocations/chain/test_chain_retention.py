"""What is too old goes by whole blocks, under tombstones that verify; what is held, or was tampered with, stays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from django.core.exceptions import ValidationError
from django.db import connection

from invocations.chain import retention
from invocations.chain.keys import Signer
from invocations.chain.models import AuditHold, AuditPolicy, AuditTombstone
from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Bad
from invocations.models import McpRequestEnvelope, McpToolInvocation
from sessions_app.history import events
from sessions_app.history.models import AuditEvent
from tests.committed import without_rules
from tests.invocations.chain.rows import check, event, exported, fill, verify

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture(autouse=True)
def _without_policy(transactional_db):
    yield
    AuditPolicy().save()


@pytest.fixture
def ages(transactional_db, database, log, keys):
    """Blocks of 40, 20 and 2 days ago: tools `old`, `middle`, `new`, three calls and an event each."""
    for days, tool in ((40, "old"), (20, "middle"), (2, "new")):
        fill(database, 3, tool=tool)
        event(kind=f"tool.{tool}")
        sealer = Sealer(log, keys, now=lambda days=days: datetime.now(UTC) - timedelta(days=days))
        assert sealer.seal() == 7
    return log


def policy(**days: int) -> None:
    wanted = AuditPolicy(**days)
    wanted.full_clean(exclude=["id"])
    wanted.save()


def tools() -> set[str]:
    return set(McpToolInvocation.objects.values_list("tool_name", flat=True))


def test_nothing_goes_without_a_policy(ages, keys) -> None:
    assert retention.apply(ages, keys) == (0, 0)
    assert tools() == {"old", "middle", "new"}


def test_old_rows_go_and_the_rest_still_verifies(ages, keys, sealer) -> None:
    policy(rows_days=30)
    assert retention.apply(ages, keys) == (7, 0)
    assert tools() == {"middle", "new"}
    assert set(McpRequestEnvelope.objects.values_list("tool_name", flat=True)) == {"middle", "new"}
    assert not AuditEvent.objects.filter(kind="tool.old").exists()
    summary = verify(ages, keys)
    assert (summary.rows, summary.removed) == (14, 7)
    assert retention.apply(ages, keys) == (0, 0)
    sealer.seal()
    said = AuditEvent.objects.get(kind="audit.rows_removed")
    assert (said.actor, said.after["first_block"], said.after["count"]) == ("hub", 0, 7)
    assert check(exported(ages, keys), keys).removed == 7


def test_bodies_go_and_their_digests_stay(ages, keys) -> None:
    arguments = set(McpToolInvocation.objects.values_list("arguments_digest", flat=True))
    policy(bodies_days=10)
    assert retention.apply(ages, keys) == (0, 14)
    summary = verify(ages, keys)
    assert (summary.rows, summary.erased) == (21, 12)
    assert check(exported(ages, keys), keys).erased == 12
    for row in McpToolInvocation.objects.exclude(tool_name="new"):
        assert row.arguments.startswith("sha256:")
        assert (row.result or row.error).startswith("sha256:")
    assert McpToolInvocation.objects.filter(tool_name="new").first().arguments == {"text": "hi é"}
    assert set(McpToolInvocation.objects.values_list("arguments_digest", flat=True)) == arguments
    policy(bodies_days=10, rows_days=30)
    assert retention.apply(ages, keys) == (7, 0)
    summary = verify(ages, keys)
    assert (summary.rows, summary.removed, summary.erased) == (14, 7, 6)


def test_a_hold_keeps_the_blocks_that_it_describes(ages, keys) -> None:
    policy(rows_days=1)
    for number, held in enumerate([{"tool_name": "old"}, {"first_block": 1, "last_block": 1}]):
        hold = AuditHold(name=f"case {number}", reason="court", **held)
        hold.full_clean()
        hold.save()
    assert retention.apply(ages, keys) == (7, 0)
    assert tools() == {"old", "middle"}
    verify(ages, keys)
    AuditHold.objects.get(name="case 0").release("closed")
    assert retention.apply(ages, keys) == (7, 0)
    assert tools() == {"middle"}
    assert verify(ages, keys).removed == 14


def test_a_hold_by_caller_session_and_time(ages, keys) -> None:
    policy(bodies_days=1)
    now = datetime.now(UTC)
    AuditHold.objects.create(
        name="all of it",
        reason="court",
        principal="key:1",
        session_id="session",
        received_from=now - timedelta(hours=1),
        received_until=now + timedelta(hours=1),
    )
    AuditHold.objects.create(name="nobody", reason="court", principal="key:9")
    assert retention.apply(ages, keys) == (0, 0)
    AuditHold.objects.get(name="all of it").release()
    assert retention.apply(ages, keys) == (0, 21)


def test_a_hold_says_what_it_holds() -> None:
    with pytest.raises(ValidationError, match="Enter what the hold covers"):
        AuditHold(name="case", reason="court").full_clean()


def test_bodies_go_before_their_rows() -> None:
    with pytest.raises(ValidationError, match="longer than their rows"):
        policy(rows_days=5, bodies_days=5)


def test_what_was_tampered_with_does_not_vanish(ages, keys) -> None:
    policy(rows_days=10)
    row = McpToolInvocation.objects.filter(tool_name="middle").first()
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("UPDATE invocations_mcptoolinvocation SET principal = 'x' WHERE id = %s", [row.pk])
    with pytest.raises(Bad, match=f"invocation {row.pk} "):
        retention.apply(ages, keys)
    assert "middle" in tools()


def test_a_block_in_which_a_key_was_introduced_stays(ages, database, log, keys) -> None:
    old = keys.signer()
    new = Signer.make(old.public.name)
    events.record("audit.key_rotated", before={"key": str(old.public)}, after={"key": str(new.public)})
    Sealer(log, keys, now=lambda: datetime.now(UTC) - timedelta(days=2)).seal()
    keys.keep(new)
    fill(database, 1)
    Sealer(log, keys, now=lambda: datetime.now(UTC) - timedelta(days=2)).seal()
    policy(rows_days=1)
    assert retention.apply(log, keys) == (23, 0)
    from invocations.chain import checking

    assert checking.verify(log, keys, [old.public], []).rows == 1


def test_a_forged_tombstone_is_found(ages, keys) -> None:
    policy(rows_days=30)
    retention.apply(ages, keys)
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute(
            "UPDATE invocations_audittombstone SET text = replace(text, '\"last_block\":0', '\"last_block\":1')"
        )
    with pytest.raises(Bad):
        verify(ages, keys)
    assert AuditTombstone.objects.count() == 1


@pytest.mark.parametrize("gone", [0, 1, 2])
def test_tombstone_that_was_deleted_is_missed_though_its_rows_went_later(ages, keys, sealer, gone) -> None:
    policy(bodies_days=10)
    retention.apply(ages, keys)
    sealer.seal()
    policy(rows_days=10)
    retention.apply(ages, keys)
    sealer.seal()
    policy(rows_days=1)
    retention.apply(ages, keys)
    sealer.seal()
    assert [row.kind for row in AuditTombstone.objects.order_by("id")] == ["bodies", "rows", "rows"]
    assert verify(ages, keys).erased == 0
    with connection.cursor() as cursor, without_rules(cursor):
        number = AuditTombstone.objects.order_by("id").values_list("id", flat=True)[gone]
        cursor.execute("DELETE FROM invocations_audittombstone WHERE id = %s", [number])
    for look in (lambda: verify(ages, keys), lambda: check(exported(ages, keys), keys)):
        with pytest.raises(Bad):
            look()


def test_removal_is_missed_after_its_event_went_too(ages, keys, sealer) -> None:
    """Of the first removal only the tombstone is left: rows and the event that told of it are long gone."""
    policy(bodies_days=30)
    retention.apply(ages, keys)
    Sealer(ages, keys, now=lambda: datetime.now(UTC) - timedelta(days=1)).seal()
    policy(rows_days=30)
    retention.apply(ages, keys)
    sealer.seal()
    later = datetime.now(UTC) + timedelta(days=3)
    policy(rows_days=2)
    retention.apply(ages, keys, now=later)
    sealer.seal()
    assert not AuditEvent.objects.filter(kind="audit.bodies_removed").exists()
    verify(ages, keys)
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("DELETE FROM invocations_audittombstone WHERE kind = 'bodies'")
    with pytest.raises(Bad, match=r"The tombstone before that of blocks 0 to 0 is missing"):
        verify(ages, keys)


def test_rows_put_back_where_retention_removed_them_are_found(ages, database, keys) -> None:
    policy(rows_days=30)
    retention.apply(ages, keys)
    fill(database, 1)
    last = McpToolInvocation.objects.latest("id").pk
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute(
            "UPDATE invocations_mcptoolinvocation SET id = %s WHERE id = %s",
            [ages.block(0).header["invocation"][1], last],
        )
    with pytest.raises(Bad, match="stands in no block"):
        verify(ages, keys)


def test_a_removal_is_all_or_nothing(ages, database, keys) -> None:
    """The database ends in the middle: no tombstone, no missing row."""
    from invocations.chain.log import Log
    from tests.invocations.chain.failing import Failing

    policy(rows_days=30)
    at, failed = 0, True
    while failed:
        at += 1
        connection_ = Failing(database.raw, at, True)
        try:
            retention.apply(Log(lambda c=connection_: c, database.is_sqlite), keys)
            failed = False
        except ConnectionError:
            if database.is_sqlite and database.raw.in_transaction:
                database.raw.execute("ROLLBACK")
            assert verify(ages, keys).rows in (21, 14)
    assert tools() == {"middle", "new"}
    assert verify(ages, keys).removed == 7
