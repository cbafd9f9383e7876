"""Whatever is done to sealed rows, in the database or in an export, is found, and the first bad row named."""

from __future__ import annotations

import copy
import random
import shutil
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection

from invocations.chain import checking, retention, service, verifier
from invocations.chain.keys import KeyFolder, Signer
from invocations.chain.log import Log, pack
from invocations.chain.models import AuditPolicy
from invocations.chain.publishing import Publisher, published
from invocations.chain.sealer import Sealer
from invocations.chain.tables import AUDITED
from invocations.chain.verifier import Bad, canonical, leaf_hash, loads, row_bytes
from sessions_app.kit.database import Dedicated
from tests.committed import without_rules
from tests.invocations.chain.rows import check, event, exported, fill, verify
from tests.rigs import spoiling
from tests.rigs.spoiling import NEW, VALID
from tests.waiting import PATIENCE_SECONDS

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def log_of_three(transactional_db, database: Dedicated, log: Log, sealer: Sealer) -> Log:
    """Three blocks with calls and an event each."""
    for _ in range(3):
        fill(database, 4)
        event()
        sealer.seal()
        Publisher(service.checkpoints()).publish(sealer)
    return log


def tamper(*statements: str) -> None:
    with connection.cursor() as cursor, without_rules(cursor):
        for statement in statements:
            cursor.execute(statement)


def ids(table: str) -> list[int]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT id FROM {table} ORDER BY id")
        return [row[0] for row in cursor.fetchall()]


def found(log: Log, keys: KeyFolder) -> str:
    with pytest.raises(Bad) as caught:
        verify(log, keys, published(service.checkpoints()))
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("of", AUDITED, ids=lambda of: of.name)
def test_every_changed_field_is_found_and_its_row_named(of, log_of_three, database, keys) -> None:
    row = ids(of.table)[1]
    for column, kind in of.columns.items():
        value = VALID.get(column, NEW[kind]).format(column)
        with connection.cursor() as cursor, without_rules(cursor):
            cursor.execute(f"SELECT {column} FROM {of.table} WHERE id = {row}")
            was = cursor.fetchone()[0]
            try:
                cursor.execute(f"UPDATE {of.table} SET {column} = {value} WHERE id = {row}")
            except IntegrityError:  # what is against a constraint of the table does not even get in
                continue
        assert f"{of.name} {row} " in found(log_of_three, keys), column
        back = row + 1000000 if column == "id" else row
        with connection.cursor() as cursor, without_rules(cursor):
            cursor.execute(f"UPDATE {of.table} SET {column} = %s WHERE id = {back}", [was])
    verify(log_of_three, keys, published(service.checkpoints()))


@pytest.mark.parametrize("of", AUDITED, ids=lambda of: of.name)
def test_a_deleted_row_is_named(of, log_of_three, keys) -> None:
    row = ids(of.table)[-1]
    tamper(f"DELETE FROM {of.table} WHERE id = {row}")
    assert f"{of.name} {row} " in found(log_of_three, keys)
    assert "deleted" in found(log_of_three, keys)


def test_an_inserted_row_is_named(log_of_three, keys) -> None:
    """Where an id was free: a row that was rolled back, or one that has been deleted before."""
    table, columns = AUDITED[1].table, [name for name in AUDITED[1].columns if name not in ("id", "invocation_id")]
    row = ids(table)[2]
    names = ", ".join(columns)
    tamper(
        f"INSERT INTO {table} (id, invocation_id, {names}) "
        f"SELECT 1000000, 'other', {names} FROM {table} WHERE id = {row}",
        f"DELETE FROM {table} WHERE id = {row}",
        f"UPDATE {table} SET id = {row} WHERE id = 1000000",
    )
    assert f"invocation {row} " in found(log_of_three, keys)


def test_two_rows_that_changed_places_are_found(log_of_three, keys) -> None:
    table = AUDITED[0].table
    first, second, *_ = ids(table)
    tamper(
        f"UPDATE {table} SET id = 1000000 WHERE id = {first}",
        f"UPDATE {table} SET id = {first} WHERE id = {second}",
        f"UPDATE {table} SET id = {second} WHERE id = 1000000",
    )
    assert f"envelope {first} " in found(log_of_three, keys)


def test_changed_blocks_hashes_and_tombstones_are_named(transactional_db, database, log, keys) -> None:
    for days in (20, 10, 1):
        fill(database, 3)
        event()
        Sealer(log, keys, now=lambda days=days: datetime.now(UTC) - timedelta(days=days)).seal()
    AuditPolicy(rows_days=15, bodies_days=5).save()
    assert all(retention.apply(log, keys))
    run = spoiling.Query(log)
    for deed in (*spoiling.of_blocks(run, random.Random(7), 4), *spoiling.of_tombstones(run)):
        with spoiling.undone(database) as execute:
            for statement in deed.statements:
                execute(statement)
            with pytest.raises(Bad) as caught:
                verify(log, keys)
        assert any(name in str(caught.value) for name in deed.names), (str(caught.value), deed)
    verify(log, keys)
    AuditPolicy().save()


def test_a_row_changed_together_with_its_stored_hash_is_found(log_of_three, keys) -> None:
    table = AUDITED[1].table
    tamper(f"UPDATE {table} SET principal = 'key:2' WHERE id = {ids(table)[0]}")
    leaves = log_of_three.leaves(0)
    values = next(log_of_three.rows(AUDITED[1], 0, 10**9))
    at = next(at for at, leaf in enumerate(leaves) if at >= 4 and leaf[0] == values["id"])
    leaves[at] = (values["id"], leaf_hash(row_bytes("invocation", values)))
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("UPDATE invocations_auditleaves SET leaves = %s WHERE block_id = 0", [pack(leaves)])
    assert "Block 0" in found(log_of_three, keys)


def test_a_log_cut_at_its_end_is_found_by_what_was_published(log_of_three, keys) -> None:
    through = log_of_three.block(1).header
    tamper(
        *(f"DELETE FROM {of.table} WHERE id > {through[of.name][1]}" for of in AUDITED),
        "DELETE FROM invocations_auditleaves WHERE block_id > 1",
        "DELETE FROM invocations_auditblock WHERE number > 1",
    )
    assert "truncated: it ends after 2 blocks, and a checkpoint tells of 3" in found(log_of_three, keys)


@pytest.mark.parametrize("number", [0, 1])
def test_a_missing_block_is_named(number, log_of_three, keys) -> None:
    tamper(f"DELETE FROM invocations_auditblock WHERE number = {number}")
    assert f"Block {number} is missing" in found(log_of_three, keys)


def test_rows_without_their_leaves_are_found(log_of_three, keys) -> None:
    tamper("DELETE FROM invocations_auditleaves WHERE block_id = 1", *(f"DELETE FROM {of.table}" for of in AUDITED))
    assert "block 0" in found(log_of_three, keys)


def resealed(database: Dedicated, keys: KeyFolder, signer: Signer) -> None:
    """Rewrite the whole log over changed rows, as somebody with a key and the database can."""
    tamper(
        f"UPDATE {AUDITED[1].table} SET principal = 'key:2'",
        "DELETE FROM invocations_auditleaves",
        "DELETE FROM invocations_auditblock",
    )
    folder = KeyFolder(keys.folder.parent / "forged")
    folder.keep(signer)
    Sealer(service.log_of(database), folder).seal()


def test_a_log_signed_anew_with_another_key_is_found(log_of_three, database, keys) -> None:
    resealed(database, keys, Signer.make(keys.publics()[0].name))
    assert "Block 0 is signed with the key" in found(log_of_three, keys)


def test_a_log_signed_anew_with_the_stolen_key_is_found_by_what_was_published(log_of_three, database, keys) -> None:
    resealed(database, keys, keys.signer())
    assert "rewritten at or before block 0" in found(log_of_three, keys)


def test_a_swapped_checkpoint_is_found(log_of_three, keys) -> None:
    lines = service.checkpoints().read_text().replace("\n2\n", "\n1\n", 1)
    service.checkpoints().write_text(lines)
    assert "not signed by a key that is trusted" in found(log_of_three, keys)


def test_a_row_that_claims_erased_bodies_without_a_tombstone_is_found(log_of_three, database, keys) -> None:
    values = next(log_of_three.rows(AUDITED[0], 0, 10**9))
    digest = loads(row_bytes("envelope", values))["params"]
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute(f"UPDATE {AUDITED[0].table} SET params = %s WHERE id = %s", [f'"{digest}"', values["id"]])
    assert "no tombstone says so" in found(log_of_three, keys)


# Exports -----------------------------------------------------------------------------------------------


@pytest.fixture
def sound(log_of_three: Log, keys: KeyFolder) -> list[dict[str, Any]]:
    records = exported(log_of_three, keys)
    assert check(records, keys).rows == 27
    return records


def bad(records: list[dict[str, Any]], keys: KeyFolder) -> str:
    with pytest.raises(Bad) as caught:
        check(records, keys, published(service.checkpoints()))
    return str(caught.value)


@pytest.mark.slow
def test_each_row_of_an_export_that_is_changed_deleted_repeated_or_moved_is_named(sound, keys) -> None:
    rows = [at for at, record in enumerate(sound) if "row" in record]
    for at in rows:
        name = f"{sound[at]['row']} {sound[at]['id']} "
        position = f"osition {sound[at]['position']} "
        for field in sound[at]["values"]:
            changed = copy.deepcopy(sound)
            changed[at]["values"][field] = "changed"
            assert name in bad(changed, keys), field
        assert position in bad([*sound[:at], *sound[at + 1 :]], keys).replace(")", " ").replace(",", " ")
        assert name in bad([*sound[: at + 1], sound[at], *sound[at + 1 :]], keys)
        if at + 1 in rows:
            moved = [*sound[:at], sound[at + 1], sound[at], *sound[at + 2 :]]
            assert position in bad(moved, keys).replace(")", " ").replace(",", " ")


def test_no_byte_of_an_export_can_change_unseen(sound, keys) -> None:
    """A thousand bytes at random, each with another value; only what the verifier does not read may go unseen."""
    whole = b"".join(canonical(record) + b"\n" for record in sound)
    first = whole.index(b"\n")
    choose = random.Random(4)
    for _ in range(1000):
        at = choose.randrange(first + 1, len(whole))
        changed = bytearray(whole)
        changed[at] ^= choose.randrange(1, 256)
        try:
            records = [loads(line) for line in bytes(changed).split(b"\n") if line]
            check(records, keys)
        except (Bad, ValueError):
            continue
        assert [canonical(record) for record in records] == [canonical(record) for record in sound], changed[
            at - 40 : at
        ]


def test_another_spelling_of_the_same_bytes_is_found(sound, keys) -> None:
    """Hexadecimal digits have capitals, and base64 has bits that nobody reads: a change there must not go unseen."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    tried = 0
    for at, record in enumerate(sound):
        for name, value in record.items():
            spelled = None
            if name == "hash":
                spelled = value.upper()
            elif name == "signature":
                spelled = value.rstrip("=")[:-1] + alphabet[alphabet.index(value.rstrip("=")[-1]) + 1] + "=="
            if spelled is not None and spelled != value:
                tried += 1
                with pytest.raises(Bad):
                    check([*sound[:at], {**record, name: spelled}, *sound[at + 1 :]], keys)
    assert tried > 5


def test_an_export_that_is_cut_off_is_found(sound, keys) -> None:
    for at in range(1, len(sound)):
        assert "cut off" in bad(sound[:at], keys) or at == 0


def test_an_export_that_hides_its_end_is_found_by_its_checkpoint(sound, keys) -> None:
    last = max(at for at, record in enumerate(sound) if "block" in record)
    shorter = [*sound[:last], {"end": {"blocks": 2, "rows": 18}}]
    assert "truncated" in bad(shorter, keys)


ALONE = """
import runpy, sys
for name in ("django", "orjson", "invocations", "mcphub", "sessions_app", "tools_catalog"):
    sys.modules[name] = None
runpy.run_path("verifier.py", run_name="__main__")
"""


@pytest.mark.program
def test_a_copy_of_the_verifier_needs_nothing_of_the_hub(sound, keys, tmp_path) -> None:
    whole = b"".join(canonical(record) + b"\n" for record in sound)
    shutil.copy(verifier.__file__, tmp_path / "verifier.py")
    (tmp_path / "keys").write_text(f"{keys.publics()[0]}\n")

    def run(content: bytes) -> subprocess.CompletedProcess[str]:
        (tmp_path / "export").write_bytes(content)
        words = [sys.executable, "-I", "-c", ALONE, "export", "--key", "keys"]
        return subprocess.run(
            words, cwd=tmp_path, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
        )

    assert "27 rows in 3 blocks are as they were sealed" in run(whole).stdout
    done = run(whole.replace(b"hi \xc3\xa9", b"hi \xc3\xa8", 1))
    assert (done.returncode, "was changed after it was sealed" in done.stderr) == (1, True), done.stderr


def test_a_filter_leaves_hashes_in_place_of_rows(database, log, keys, sealer) -> None:
    fill(database, 3, tool="echo")
    fill(database, 3, tool="other")
    sealer.seal()
    fill(database, 3, tool="echo")
    sealer.seal()
    records = exported(log, keys, tool="other")
    summary = check(records, keys)
    assert (summary.rows, summary.omitted) == (6, 12)
    assert {record["values"]["tool_name"] for record in records if "values" in record} == {"other"}
    assert [record["rows"] for record in records if "block" in record] == ["here", "omitted"]
    assert checking.verify(log, keys, keys.publics(), []).rows == 18
