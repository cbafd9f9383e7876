"""A log that is cut or rewritten with the hub's own rights is noticed: while the hub runs, and after it stood still."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from django.db import connection, transaction

from invocations.chain import alarms, checking, publishing, service, watching
from invocations.chain.alarms import AlarmFile
from invocations.chain.keys import KeyFolder, Signer, note, sign_checkpoint
from invocations.chain.log import Log
from invocations.chain.models import AuditVerification
from invocations.chain.sealer import Sealer
from invocations.chain.tables import AUDITED
from invocations.chain.verifier import Bad, canonical
from invocations.chain.watching import Outside, Rewritten, Watch
from sessions_app.history.events import record
from tests.committed import without_rules
from tests.invocations.chain.processes import Process
from tests.invocations.chain.rows import fill, verify

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def log_of_three(database, log: Log, sealer: Sealer) -> Log:
    for _ in range(3):
        fill(database, 4)
        sealer.seal()
    publishing.Publisher(service.checkpoints()).publish(sealer)
    return log


def take_out(log: Log, keys: KeyFolder, blocks: int = 1) -> None:
    """Remove a sealed call from the block in the middle, and seal all from there anew with the hub's key.

    In one transaction: a process that verifies meanwhile finds no row missing whose block is there still.
    """
    first = log.block(1).header["invocation"][0]
    with connection.cursor() as cursor, without_rules(cursor), transaction.atomic():
        cursor.execute(f"DELETE FROM invocations_mcptoolinvocation WHERE id = {first + 1}")
        cursor.execute("DELETE FROM invocations_auditleaves WHERE block_id >= 1")
        cursor.execute("DELETE FROM invocations_auditblock WHERE number >= 1")
    if blocks:
        Sealer(log, keys).seal()


def test_a_running_sealer_that_sees_its_log_rewritten_seals_no_more(database, log_of_three, keys, sealer) -> None:
    take_out(log_of_three, keys)
    assert verify(log_of_three, keys).blocks == 2  # by itself the log is sound
    fill(database, 3)
    with pytest.raises(Rewritten, match="had 3 blocks and has 2"):
        sealer.seal()
    assert log_of_three.size() == 2


def test_a_head_whose_block_was_taken_out_meanwhile_is_bad(log_of_three) -> None:
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("DELETE FROM invocations_auditleaves WHERE block_id >= 1")
        cursor.execute("DELETE FROM invocations_auditblock WHERE number >= 1")
    with pytest.raises(Bad, match="Block 1 is missing; the log had 2 blocks"):
        log_of_three.head(2)


def test_a_log_that_was_rewritten_and_grew_again_is_noticed(database, log_of_three, keys, sealer) -> None:
    take_out(log_of_three, keys)
    other = Sealer(log_of_three, keys)
    for _ in range(2):
        fill(database, 1)
        other.seal()
    assert log_of_three.size() == 4
    with pytest.raises(Rewritten, match="rewritten at or before block 2"):
        sealer.seal()


def test_what_others_seal_is_no_alarm(database, log_of_three, keys, sealer) -> None:
    watch = Watch(log_of_three)
    assert watch.head().tree.size == 3
    fill(database, 1)
    assert Sealer(log_of_three, keys).seal() == 2
    fill(database, 1)
    assert sealer.seal() == 2
    told = watching.head_of(json.loads(json.dumps(watching.words_of(watch.head()))))
    assert Watch(log_of_three, told).head().tree.root() == log_of_three.root(5)


def test_a_rewritten_log_is_found_by_the_checkpoints_outside(log_of_three, keys) -> None:
    outside = Outside(service.checkpoints(), keys.publics)
    assert outside.compare(log_of_three) == 1
    take_out(log_of_three, keys)
    with pytest.raises(Rewritten, match="tells of 3 blocks, which the log does not have"):
        Outside(service.checkpoints(), keys.publics).compare(log_of_three)
    with pytest.raises(Rewritten, match="tells of 3 blocks"):
        outside.compare(log_of_three)


def test_checkpoints_that_vanish_or_change_while_the_hub_runs_are_noticed(database, log_of_three, keys, sealer) -> None:
    file, outside = service.checkpoints(), Outside(service.checkpoints(), keys.publics)
    outside.compare(log_of_three)
    fill(database, 1)
    sealer.seal()
    publishing.Publisher(file).publish(sealer)
    assert outside.compare(log_of_three) == 2
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    with pytest.raises(Rewritten, match="changed or cut"):
        outside.compare(log_of_three)
    file.unlink()
    with pytest.raises(Rewritten, match="are gone"):
        outside.compare(log_of_three)
    file.write_bytes(whole)
    assert outside.compare(log_of_three) == 2


def test_a_checkpoint_that_was_cut_off_as_it_was_written_hides_no_other(database, log_of_three, keys, sealer) -> None:
    file = service.checkpoints()
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2] + b"\n" + whole)
    assert Outside(file, keys.publics).compare(log_of_three) == 1


def test_a_database_that_is_an_older_copy_is_noticed(log_of_three, keys) -> None:
    with connection.cursor() as cursor, without_rules(cursor):
        for of in AUDITED:
            cursor.execute(f"DELETE FROM {of.table} WHERE id > {log_of_three.block(1).header[of.name][1]}")
        cursor.execute("DELETE FROM invocations_auditleaves WHERE block_id > 1")
        cursor.execute("DELETE FROM invocations_auditblock WHERE number > 1")
    with pytest.raises(Rewritten, match="an old copy was restored"):
        Outside(service.checkpoints(), keys.publics).compare(log_of_three)


def test_a_bad_verdict_stays_until_a_person_lifts_it(log_of_three) -> None:
    assert watching.verdict(log_of_three) is None
    watching.keep(log_of_three, 3)
    assert watching.verdict(log_of_three).problem == ""
    watching.keep(log_of_three, 3, "Block 1 is missing.")
    watching.keep(log_of_three, 3)
    assert watching.verdict(log_of_three).problem == "Block 1 is missing."
    watching.lift(log_of_three)
    assert watching.verdict(log_of_three).problem == ""


# Alarms ----------------------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path) -> AlarmFile:
    return AlarmFile(tmp_path / "outside" / "checkpoints")


def lifted(log, file: AlarmFile, reason: str = "a restore") -> None:
    for each in alarms.reconcile(log, file):
        record(alarms.LIFTED, subject=each.id, reason=reason)
        file.lift(each, "ann", reason)
    watching.lift(log)


def test_an_alarm_stays_in_the_file_when_the_database_forgets_it(log_of_three, file: AlarmFile) -> None:
    watching.keep(log_of_three, 3, "Block 1 is missing.")
    (found,) = alarms.reconcile(log_of_three, file)
    assert found.problem == "Block 1 is missing."
    watching.lift(log_of_three)  # by whoever rewrote the log
    assert alarms.reconcile(log_of_three, file) == [found]
    assert watching.verdict(log_of_three).problem == "Block 1 is missing."


def test_an_alarm_stays_in_the_database_when_the_file_is_gone(log_of_three, file: AlarmFile) -> None:
    watching.keep(log_of_three, 3, "Block 1 is missing.")
    alarms.reconcile(log_of_three, file)
    file.path.unlink()
    assert [each.problem for each in alarms.reconcile(log_of_three, file)] == ["Block 1 is missing."]
    assert file.path.exists()


def test_an_alarm_that_nobody_lifted_on_record_is_open(log_of_three, file: AlarmFile) -> None:
    watching.keep(log_of_three, 3, "Block 1 is missing.")
    (found,) = alarms.reconcile(log_of_three, file)
    watching.lift(log_of_three)
    file.lift(found, "mallory", "nothing to see")
    assert file.open() == []
    assert alarms.reconcile(log_of_three, file) == [found]
    lifted(log_of_three, file)
    assert alarms.reconcile(log_of_three, file) == []
    watching.keep(log_of_three, 3, "Block 2 is missing.")
    assert [each.problem for each in alarms.reconcile(log_of_three, file)] == ["Block 2 is missing."]


def test_a_changed_file_of_alarms_is_an_alarm_and_a_cut_off_line_is_none(log_of_three, file: AlarmFile) -> None:
    file.sound("one")
    whole = file.path.read_bytes()
    file.path.write_bytes(whole + whole[:20])
    assert [each.problem for each in file.open()] == ["one"]
    file.sound("two")
    assert [each.problem for each in file.open()][-1] == "two"
    file.path.write_bytes(b"nothing\n")
    assert "it was changed" in alarms.reconcile(log_of_three, file)[0].problem


def change_block(number: int, **columns: str) -> None:
    with connection.cursor() as cursor, without_rules(cursor):
        for name, value in columns.items():
            cursor.execute(f"UPDATE invocations_auditblock SET {name} = %s WHERE number = {number}", [value])


def test_a_block_that_bears_no_signature_is_not_sealed_over(database, log_of_three, keys, sealer) -> None:
    fill(database, 1)
    Sealer(log_of_three, keys).seal()
    change_block(3, signature=log_of_three.block(2).signature)
    fill(database, 1)
    with pytest.raises(Rewritten, match="Block 3 does not bear the signature"):
        sealer.seal()
    with pytest.raises(Rewritten, match="Block 3 does not bear the signature"):
        Sealer(log_of_three, keys).seal()
    assert log_of_three.size() == 4


def test_a_turn_verifies_the_signature_of_every_block_since_the_last(database, log_of_three, keys, sealer) -> None:
    sweep = checking.Sweep(log_of_three, keys)
    assert sweep.turn(0) == 3
    for _ in range(3):
        fill(database, 1)
        sealer.seal()
    change_block(4, signature=log_of_three.block(2).signature)
    with pytest.raises(Bad, match="Block 4 does not bear the signature"):
        sweep.turn(0)


def test_a_turn_verifies_a_bounded_number_of_signatures_and_goes_on_where_it_ended(log_of_three, keys) -> None:
    sweep = checking.Sweep(log_of_three, keys, at_once=2)
    assert (sweep.turn(0), sweep.is_behind) == (2, True)
    assert (sweep.turn(0), sweep.is_behind) == (3, False)


def test_signatures_of_older_blocks_are_verified_again(log_of_three, keys) -> None:
    sweep = checking.Sweep(log_of_three, keys)
    assert sweep.turn(0) == 3
    change_block(0, signature=log_of_three.block(2).signature)
    with pytest.raises(Bad, match="Block 0 does not bear the signature"):
        sweep.turn(0)


def test_a_header_that_was_rewritten_below_the_roots_that_were_published_is_found(log_of_three, keys) -> None:
    """The stored roots agree with the checkpoints, and the block is signed: what was signed is not what is stored."""
    assert Outside(service.checkpoints(), keys.publics).compare(log_of_three) == 1
    block = log_of_three.block(1)
    header = {**block.header, "sealed_at": "2020-01-01T00:00:00.000000+00:00"}
    change_block(1, header=canonical(header).decode())
    assert Outside(service.checkpoints(), keys.publics).compare(log_of_three) == 1
    with pytest.raises(Bad, match="Block 1"):
        checking.Sweep(log_of_three, keys).turn(0)


def test_a_checkpoint_that_somebody_else_signed_is_an_alarm(log_of_three, keys) -> None:
    file = service.checkpoints()
    forged = Signer.make(keys.publics()[0].name)
    root = log_of_three.block(2).tree_root
    watching.append(file, [note(forged.public, 3, root, sign_checkpoint(forged, 3, root))])
    with pytest.raises(Rewritten, match="not signed by a key of this log"):
        Outside(file, keys.publics).compare(log_of_three)


# The sealing process -----------------------------------------------------------------------------------


@pytest.fixture
def started() -> Iterator[list[Process]]:
    found: list[Process] = []
    yield found
    for process in found:
        process.end()


@pytest.mark.program
def test_the_sealing_process_stops_sealing_and_the_next_one_does_not_begin(
    database, log_of_three, keys, started
) -> None:
    fill(database, 1)
    started.append(Process())
    started[0].hears("Audit checkpoint")
    take_out(log_of_three, keys)
    # If it was looking in that very moment it first says something else; at the next look it says this.
    started[0].hears("sealed no more. The log had 4 blocks")
    problems = list(AuditVerification.objects.exclude(problem="").values_list("problem", flat=True))
    assert any("4 blocks" in problem for problem in problems)
    assert watching.verdict(log_of_three).problem in problems
    size = log_of_three.size()
    started.pop().end()
    fill(database, 1)
    started.append(Process())
    started[0].hears("sealed no more")
    assert log_of_three.size() == size


@pytest.mark.program
def test_what_was_sealed_after_the_last_checkpoint_is_known_to_the_next_process(
    database, log_of_three, keys, started
) -> None:
    fill(database, 1)
    started.append(Process())
    started[0].hears("Audit checkpoint")
    with connection.cursor() as cursor:
        size = log_of_three.size()
        fill(database, 1)
        while log_of_three.size() == size:
            cursor.execute("SELECT 1")
    take_out(log_of_three, keys)
    started[0].hears("sealed no more")
    started.pop().end()
    assert publishing.published(service.checkpoints())[-1].size == size + 1


@pytest.mark.program
def test_a_row_that_is_changed_while_the_hub_runs_is_found_without_a_command(database, log_of_three, started) -> None:
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute(f"UPDATE {AUDITED[1].table} SET principal = 'key:2'")
    started.append(Process())
    assert "was changed after it was sealed" in started[0].hears("not as it was sealed")
    started.pop().end()
    assert "was changed" in watching.verdict(log_of_three).problem


def test_verifications_are_kept_up_to_a_bound_and_bad_ones_for_good(log_of_three, keys) -> None:
    log = log_of_three
    watching.record(log, "watch", 3, 3, 0.5, "Block 1 is missing.")
    watching.record(log, "watch", 3, 3, 0.5, "Block 1 is missing.")
    watching.record(log, "page", 3, 1, 0.1, "Block 1 is missing.")
    log.run_many(
        "INSERT INTO invocations_auditverification (verified_at, way, size, blocks, milliseconds, problem) "
        "VALUES (?, 'watch', 3, 3, 1, '')",
        [(log.moment(datetime.now(UTC)),)] * (watching.KEPT_VERIFICATIONS + 20),
    )
    watching.record(log, "whole", 3, 3, 2.0)
    kept = AuditVerification.objects
    assert kept.filter(problem="").count() == watching.KEPT_VERIFICATIONS
    assert list(kept.exclude(problem="").values_list("way", flat=True).order_by("id")) == ["watch", "page"]
    assert kept.order_by("-id").values_list("way", "milliseconds").first() == ("whole", 2000)
