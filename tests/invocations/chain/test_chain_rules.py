"""The database itself refuses to change what was recorded."""

from __future__ import annotations

import pytest
from django.db import DatabaseError, connection, transaction

from invocations.chain.models import AuditBlock, AuditTombstone
from invocations.chain.tables import AUDITED, ENVELOPE, INVOCATION
from tests.invocations.chain.rows import event, fill

pytestmark = pytest.mark.usefixtures("transactional_db")

TABLES = [*(of.table for of in AUDITED), AuditBlock._meta.db_table, "invocations_auditleaves"]


def refused(statement: str) -> bool:
    with connection.cursor() as cursor:
        try:
            with transaction.atomic():
                cursor.execute(statement)
                return False
        except DatabaseError as error:
            return "records never change" in str(error)


@pytest.fixture
def _sealed(transactional_db, database, sealer):
    fill(database, 3)
    event()
    sealer.seal()


@pytest.mark.usefixtures("_sealed")
@pytest.mark.parametrize("table", TABLES)
def test_nothing_is_deleted(table: str) -> None:
    assert refused(f"DELETE FROM {table}")


COLUMNS = {
    **{of.table: list(of.columns) for of in AUDITED},
    AuditBlock._meta.db_table: [field.column for field in AuditBlock._meta.concrete_fields],
    "invocations_auditleaves": ["leaves", "block_id"],
}


@pytest.mark.usefixtures("_sealed")
@pytest.mark.parametrize("table", TABLES)
def test_no_column_is_changed(table: str) -> None:
    for column in COLUMNS[table]:
        changed = f"{column} + 1000" if column in ("id", "number", "block_id") else "NULL"
        assert refused(f"UPDATE {table} SET {column} = {changed}"), column


@pytest.mark.postgresql
@pytest.mark.usefixtures("_sealed")
@pytest.mark.parametrize("table", TABLES)
def test_nothing_is_truncated(table: str) -> None:
    assert refused(f"TRUNCATE {table} CASCADE")


@pytest.mark.usefixtures("_sealed")
def test_a_tombstone_is_never_changed(database, sealer) -> None:
    from django.utils import timezone

    spans = {f"{name}_{end}": 0 for name in ("envelopes", "invocations", "events") for end in ("after", "through")}
    AuditTombstone.objects.create(
        kind="rows",
        first_block=0,
        last_block=0,
        row_count=0,
        text="{}",
        signature="",
        removed_at=timezone.now(),
        **spans,
    )
    table = AuditTombstone._meta.db_table
    assert refused(f"UPDATE {table} SET last_block = 1")
    assert refused(f"DELETE FROM {table}")
    # It covers no rows, so none goes by it.
    assert refused(f"DELETE FROM {INVOCATION.table}")
    assert refused(f"UPDATE {ENVELOPE.table} SET params = '\"sha256:{'0' * 64}\"'")
