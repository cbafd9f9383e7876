"""Rows become blocks: all of them, once, whoever seals and whatever fails."""

from __future__ import annotations

import threading

import pytest
from django.db import models

from invocations.chain import publishing, service
from invocations.chain.keys import KeyFolder, KeyProblem, Signer
from invocations.chain.log import Log
from invocations.chain.sealer import Sealer
from invocations.chain.tables import AUDITED
from invocations.chain.verifier import Bad, read_keys
from invocations.ledger import statements
from invocations.ledger.records import new_invocation_id
from invocations.models import McpRequestEnvelope, McpToolInvocation
from sessions_app.history.models import AuditEvent
from sessions_app.kit.database import Dedicated
from tests.invocations.chain.failing import Failing
from tests.invocations.chain.rows import check, envelope, event, exported, fill, invocation, ledger, verify

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.mark.parametrize(
    ("of", "model"), list(zip(AUDITED, [McpRequestEnvelope, McpToolInvocation, AuditEvent], strict=True))
)
def test_every_column_is_covered_by_the_hash(of, model: type[models.Model]) -> None:
    assert set(of.columns) == {field.column for field in model._meta.concrete_fields}
    assert of.table == model._meta.db_table


def test_rows_are_sealed_and_verify(database, log, keys, sealer) -> None:
    fill(database, 5)
    event()
    assert sealer.seal() == 11
    assert sealer.seal() == 0
    fill(database, 2)
    assert sealer.seal() == 4
    summary = verify(log, keys)
    assert (summary.blocks, summary.rows) == (2, 15)
    assert sealer.unsealed() == 0
    assert [block.header["first"] for block in log.blocks()] == [0, 11]


def test_rows_of_the_orm_and_of_the_ledger_have_one_form(database, log, keys, sealer) -> None:
    """Recovery writes through the ORM: times without microseconds, booleans of Python."""
    from tests.factories import McpRequestEnvelopeFactory, McpToolInvocationFactory

    row = McpToolInvocationFactory(failed=True)
    McpRequestEnvelopeFactory(session=row.session, process=row.process)
    sealer.seal()
    (_, _, shown) = [record for record in exported(log, keys) if "values" in record or "block" in record]
    assert shown["values"]["retryable"] is False
    assert shown["values"]["received_at"] == row.received_at.strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    assert check(exported(log, keys), keys).rows == 2


def test_a_later_sealer_continues_what_another_began(database, log, keys, sealer) -> None:
    fill(database, 2)
    sealer.seal()
    fill(database, 2)
    other = Dedicated()
    try:
        assert Sealer(service.log_of(other), keys).seal() == 4
    finally:
        other.close()
    fill(database, 1)
    assert sealer.seal() == 2
    assert verify(log, keys).rows == 10


def test_two_sealers_at_once_seal_each_row_once(database, log, keys) -> None:
    fill(database, 1)
    Sealer(log, keys).seal()
    begin, failures = threading.Barrier(3), []

    def work() -> None:
        own = Dedicated()
        try:
            sealer = Sealer(service.log_of(own), keys)
            begin.wait()
            for _ in range(20):
                fill(own, 3)
                sealer.seal()
        except Exception as error:
            failures.append(error)
        finally:
            own.close()

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    Sealer(log, keys).seal()
    assert verify(log, keys).rows == 2 + 3 * 20 * 6


@pytest.mark.parametrize("after", [False, True])
def test_a_sealer_that_dies_at_any_statement_leaves_whole_blocks(database, log, keys, after) -> None:
    total, at, failed = 0, 0, True
    while failed:
        at += 1
        fill(database, 2)
        total += 4
        own = Dedicated()
        connection = Failing(own.raw, at, after)
        try:
            Sealer(Log(lambda c=connection: c, own.is_sqlite), keys).seal()
            failed = False
        except ConnectionError:
            failed = True
        finally:
            own.close()
    assert at > 5
    Sealer(log, keys).seal()
    assert verify(log, keys).rows == total


@pytest.mark.postgresql
def test_a_row_that_commits_after_one_of_a_higher_id_is_not_missed(database, log, keys, sealer) -> None:
    slow, quick = ledger(), ledger()
    ids = [new_invocation_id() for _ in range(2)]
    try:
        with slow.raw.transaction():
            statements.insert(slow, statements.INVOCATION, [invocation(slow, ids[0])])
            with quick.transaction():
                statements.insert(quick, statements.INVOCATION, [invocation(quick, ids[1])])
            assert Sealer(log, keys).seal() == 0  # it waits for the open transaction, and gives up for this round
    finally:
        slow.close()
        quick.close()
    assert sealer.seal() == 2
    fill(database, 1)
    sealer.seal()
    assert verify(log, keys).rows == 4


@pytest.mark.postgresql
def test_a_row_that_never_commits_holds_nothing_up(database, log, keys, sealer) -> None:
    own = ledger()
    with own.raw.transaction(force_rollback=True):
        statements.insert(own, statements.ENVELOPE, [envelope(own, new_invocation_id())])
    own.close()
    fill(database, 2)
    assert sealer.seal() == 4
    assert verify(log, keys).rows == 4


def test_another_machines_key_does_not_sign(database, log, keys, sealer, tmp_path) -> None:
    fill(database, 1)
    sealer.seal()
    fill(database, 1)
    elsewhere = KeyFolder(tmp_path / "elsewhere")
    elsewhere.signer(may_make=True)
    with pytest.raises(KeyProblem, match="Copy the folder"):
        Sealer(log, elsewhere).seal()
    assert sealer.seal() == 2


def test_a_key_that_the_old_one_introduced_is_trusted(database, log, keys, sealer) -> None:
    from sessions_app.history import events

    fill(database, 1)
    sealer.seal()
    first = keys.signer()
    second = Signer.make(first.public.name)
    events.record("audit.key_rotated", before={"key": str(first.public)}, after={"key": str(second.public)})
    sealer.seal()
    keys.keep(second)
    fill(database, 1)
    assert sealer.seal() == 2
    records = exported(log, keys)
    assert [record["block"]["key"] for record in records if "block" in record] == [
        first.public.key_id,
        first.public.key_id,
        second.public.key_id,
    ]
    from invocations.chain.verifier import Verifier

    verifier = Verifier(read_keys(keys.public.read_text())[:1])
    for record in records:
        verifier.feed(record)
    assert verifier.finish().rows == 5


def test_a_new_key_that_nobody_introduced_is_not_trusted(database, log, keys, sealer) -> None:
    from sessions_app.history import events

    fill(database, 1)
    sealer.seal()
    old = keys.publics()
    lost = Signer.make(old[0].name)
    events.record("audit.key_lost", before={"key": str(old[0])}, after={"key": str(lost.public)})
    keys.keep(lost)
    sealer.seal()
    from invocations.chain import checking

    with pytest.raises(Bad, match="which no trusted key introduced"):
        checking.verify(log, keys, old, [])
    assert verify(log, keys).rows == 3


def test_checkpoints_leave_the_database_once_each(database, log, keys, sealer) -> None:
    file = service.checkpoints()
    assert publishing.Publisher(file).publish(sealer) is None
    for _ in range(3):
        fill(database, 1)
        sealer.seal()
        publisher = publishing.Publisher(file)
        assert publisher.publish(sealer) is not None
        assert publisher.publish(sealer) is None
    assert [checkpoint.size for checkpoint in publishing.published(file)] == [1, 2, 3]
    assert verify(log, keys, publishing.published(file)).blocks == 3
