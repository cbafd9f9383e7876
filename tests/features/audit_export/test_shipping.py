"""The audit leaves the house in order, at least once, and what leaves can be proved by whoever got it."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from django.db import connection
from django.utils import timezone
from hypothesis import given
from hypothesis import strategies as st

from invocations.chain import retention
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Log
from invocations.chain.models import AuditPolicy
from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Bad, Verifier, loads
from invocations.chain.watching import Rewritten
from mcphub.features.audit_export.delivering import TargetShipping
from mcphub.features.audit_export.joining import CannotJoin, join
from mcphub.features.audit_export.models import ShippingState, ShippingTarget
from mcphub.features.audit_export.reading import Portion, Reached, ShippingReader
from mcphub.features.audit_export.service import lags
from mcphub.features.notifications import sources
from tests.committed import without_rules
from tests.invocations.chain.rows import event, fill, retain

pytestmark = pytest.mark.usefixtures("transactional_db")


def grow(database, sealer: Sealer, blocks: int = 3, calls: int = 4) -> None:
    for _ in range(blocks):
        fill(database, calls)
        event()
        sealer.seal()


def verified(files: list[Path], keys: KeyFolder) -> Verifier:
    """Join what a target kept, and verify it as its auditor would."""
    out = io.BytesIO()
    join(files, out)
    verifier = Verifier(keys.publics(), ())
    for line in out.getvalue().splitlines():
        verifier.feed(loads(line))
    verifier.finish()
    return verifier


def in_forty_days(log: Log, keys: KeyFolder, **days: int) -> None:
    """Apply a policy of so many days, once, as it will be applied then."""
    AuditPolicy(**days).save()
    retention.apply(log, keys, now=timezone.now() + timedelta(days=40))
    AuditPolicy().save()


def state_of(row: ShippingTarget) -> ShippingState:
    return ShippingState.objects.get(pk=row.pk)


@pytest.mark.parametrize("with_bodies", [True, False])
@pytest.mark.parametrize("most_rows", [1, 3, 500])
def test_any_cut_of_the_log_joins_to_an_export_that_verifies(
    database, log: Log, keys: KeyFolder, sealer: Sealer, tmp_path: Path, most_rows: int, with_bodies: bool
) -> None:
    grow(database, sealer)
    reader, reached, file = ShippingReader(log, keys), Reached(0), tmp_path / "got.jsonl"
    with file.open("wb") as out:
        while (shipment := reader.next(reached, Portion(with_bodies=with_bodies, most_rows=most_rows))) is not None:
            assert shipment.first == reached.position
            assert shipment.rows <= most_rows
            reached = shipment.reached
            out.write(shipment.lines)
    assert reached.position == log.head().position == reader.head()
    summary = verified([file], keys).summary
    assert (summary.rows, summary.blocks) == (27, 3)
    assert ("hi é".encode() in file.read_bytes()) == with_bodies
    assert summary.erased == (0 if with_bodies else 24)


@given(cuts=st.lists(st.integers(1, 9), min_size=1, max_size=30))
def test_what_arrives_twice_is_joined_once(cuts: list[int]) -> None:
    """Each repeat begins at a place where a delivery began, as a process that died does."""
    lines = [{"export": 1, "first_block": 0, "first_position": 0}]
    for block in range(4):
        lines.append({"block": {"number": block}})
        lines += [{"row": "event", "position": block * 3 + at} for at in range(3)]
    got: list[dict[str, object]] = []
    at = 0
    for number, cut in enumerate(cuts):
        got += lines[at : at + cut]
        at += 0 if number % 2 else cut
    got += lines[at:]
    out = io.BytesIO()
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as file:
        file.write(b"".join(json.dumps(each).encode() + b"\n" for each in got))
        file.flush()
        assert join([Path(file.name)], out) == (4, 12)
    assert [json.loads(line) for line in out.getvalue().splitlines()][:-1] == lines


def test_a_folder_gets_all_in_order_and_goes_on_after_a_kill_in_the_middle_of_a_line(
    database,
    keys: KeyFolder,
    sealer: Sealer,
    target: Callable[..., ShippingTarget],
    settings,
    ship: Callable[[ShippingTarget], TargetShipping],
) -> None:
    row = target("folder", "siem", with_bodies=True)
    grow(database, sealer, 2)
    ship(row).step()
    before = state_of(row)
    assert not before.problem
    folder = Path(settings.MCPHUB_SHIPPING_DIR) / "siem"
    (file,) = folder.iterdir()
    assert (before.position, before.rows, oct(file.stat().st_mode)[-3:]) == (19, 19, "600")
    # A process that was killed after it wrote, and before the position was noted; then one in the middle of a line.
    grow(database, sealer, 1)
    ship(row).step()
    ShippingState.objects.filter(pk=row.pk).update(
        position=before.position, block=before.block, tree_root=before.tree_root
    )
    with file.open("ab") as out:
        out.write(b'{"row":"invocation","position":')
    grow(database, sealer, 1)
    ship(row).step()
    assert state_of(row).position == 37
    assert state_of(row).rows > 37
    assert verified([folder], keys).summary.rows == 37
    assert [each.rows for each in lags()] == [0]


def test_a_file_that_is_full_is_followed_by_the_next(
    database, keys: KeyFolder, sealer: Sealer, target, settings, ship
) -> None:
    row = target("folder", "siem", with_bodies=True, file_mib=1)
    for _ in range(3):
        fill(database, 1, **{})
        sealer.seal()
        shipping = ship(row)
        shipping.step()
        (newest,) = sorted((Path(settings.MCPHUB_SHIPPING_DIR) / "siem").iterdir())[-1:]
        with newest.open("r+b") as file:  # a trial line of a megabyte fills it
            file.seek(0, 2)
            file.write(json.dumps({"test": "x" * 1024 * 1024}).encode() + b"\n")
    files = sorted((Path(settings.MCPHUB_SHIPPING_DIR) / "siem").iterdir())
    assert len(files) == 3
    assert verified(files, keys).summary.rows == 7


def test_a_target_that_is_away_holds_nothing_up_and_loses_nothing(
    database, log: Log, keys: KeyFolder, sealer: Sealer, target, settings, ship, said
) -> None:
    """Its rows are in the database alone, and retention waits for them."""
    away = target("webhook", "http://127.0.0.1:1/hook", name="away", with_bodies=True)
    there = target("folder", "siem", with_bodies=True)
    grow(database, sealer, 2)
    ship(there).step()
    dead = ship(away)
    pauses = [dead.step() for _ in range(4)]
    assert pauses == sorted(pauses)
    assert state_of(there).position == 20
    assert (state_of(away).position, state_of(away).failures) == (0, 4)
    assert [level for level, _ in said] == ["error"]
    assert {each.name: each.rows for each in lags()} == {"away": 20, "folder": 0}
    settings.MCPHUB_SHIPPING_BEHIND_SECONDS = 0
    [facts] = [facts for (kind, _), facts in sources.states().items() if kind == "shipping.behind"]
    assert (facts["target"], facts["rows"]) == ("away", 20)
    in_forty_days(log, keys, rows_days=30)
    assert log.run("SELECT count(*) FROM invocations_audittombstone").fetchone()[0] == 0
    AuditPolicy(rows_days=30).save()
    assert retention.awaits_targets(log, timezone.now() + timedelta(days=40))
    # A day later it is back.
    away.kind, away.address = "folder", "came-back"
    away.save()
    ship(away).step()
    folder = Path(settings.MCPHUB_SHIPPING_DIR) / "came-back"
    assert verified([folder], keys).summary.rows == log.head().position
    assert state_of(away).failures == 0
    assert said[-1] == ("info", "The audit arrives at away again.")
    assert not retention.awaits_targets(log, timezone.now() + timedelta(days=40))
    in_forty_days(log, keys, rows_days=30)
    assert log.run("SELECT count(*) FROM invocations_audittombstone").fetchone()[0] > 0


def test_a_target_that_retention_does_not_wait_for_is_told_what_went(
    database, log: Log, keys: KeyFolder, sealer: Sealer, target, settings, ship
) -> None:
    row = target("folder", "siem", holds_retention=False, with_bodies=True)
    fill(database, 3)
    retain(rows_days=30)  # seals the calls as of long ago
    assert log.run("SELECT count(*) FROM invocations_audittombstone").fetchone()[0] == 1
    grow(database, sealer, 1)
    ship(row).step()
    summary = verified([Path(settings.MCPHUB_SHIPPING_DIR) / "siem"], keys).summary
    assert summary.removed > 0
    assert state_of(row).position == log.head().position


@pytest.mark.parametrize("waits_for", ["rows", "bodies"])
def test_bodies_go_though_a_target_without_bodies_still_has_to_get_their_rows(
    database, log: Log, sealer: Sealer, target, waits_for: str
) -> None:
    target("folder", "siem", with_bodies=waits_for == "bodies")
    fill(database, 2)
    retain(bodies_days=30)
    gone = log.run("SELECT count(*) FROM invocations_audittombstone").fetchone()[0]
    assert gone == (0 if waits_for == "bodies" else 1)


def test_a_removal_is_shipped_with_its_tombstone(
    database, log: Log, keys: KeyFolder, sealer: Sealer, target, settings, ship
) -> None:
    row = target("folder", "siem", with_bodies=True)
    fill(database, 3)
    Sealer(log, keys).seal()
    ship(row).step()
    in_forty_days(log, keys, bodies_days=30)
    sealer.seal()
    ship(row).step()
    folder = Path(settings.MCPHUB_SHIPPING_DIR) / "siem"
    assert verified([folder], keys).summary.rows == log.head().position
    assert b'"tombstone"' in b"".join(each.read_bytes() for each in folder.iterdir())


def test_checkpoints_go_alone_where_a_target_wants_no_rows(
    database, log: Log, keys: KeyFolder, sealer: Sealer, target, settings, ship
) -> None:
    row = target("folder", "witness", content="checkpoints")
    grow(database, sealer)
    ship(row).step()
    (file,) = (Path(settings.MCPHUB_SHIPPING_DIR) / "witness").iterdir()
    notes = [record["checkpoint"] for record in map(loads, file.read_bytes().splitlines()) if "block" in record]
    assert len(notes) == 3
    assert all(note.startswith(keys.publics()[0].name) for note in notes)
    assert verified([file], keys).summary.omitted == 28
    assert state_of(row).position == log.head().position


def test_a_target_may_begin_with_the_next_row(database, log: Log, keys, sealer: Sealer, target, settings, ship) -> None:
    grow(database, sealer, 2)
    row = target("folder", "siem", begins="now")
    assert state_of(row).position == log.head().position
    sealer.seal()  # the event of the new target
    ship(row).step()
    assert state_of(row).rows == 1
    # It begins in the middle, and says with what.
    assert verified([Path(settings.MCPHUB_SHIPPING_DIR) / "siem"], keys).summary.rows == 1


def test_a_log_that_was_rewritten_is_shipped_no_more_until_a_person_says_so(
    database, log: Log, keys: KeyFolder, sealer: Sealer, target, ship
) -> None:
    row = target("folder", "siem")
    grow(database, sealer, 2)
    ship(row).step()
    ShippingState.objects.filter(pk=row.pk).update(tree_root="0" * 64)
    grow(database, sealer, 1)
    ship(row).step()
    state = state_of(row)
    assert state.position == 19
    assert "mcphub audit ship rewind" in state.problem
    state.rewind(1)
    ship(row).step()
    assert (state_of(row).position, state_of(row).problem) == (28, "")
    with pytest.raises(Rewritten):
        ShippingReader(log, keys).next(Reached(18, 1, "0" * 64), Portion())


def test_a_row_that_was_deleted_is_shipped_as_what_it_is(
    database, log: Log, keys: KeyFolder, sealer: Sealer, tmp_path: Path
) -> None:
    grow(database, sealer, 1)
    (row_id,) = log.run("SELECT max(id) FROM invocations_mcptoolinvocation").fetchone()
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("DELETE FROM invocations_mcptoolinvocation WHERE id = %s", [row_id])
    shipment = ShippingReader(log, keys).next(Reached(0), Portion(with_bodies=True))
    assert shipment is not None
    assert [each["position"] for each, _ in shipment.records if "row" in each] == list(range(9))
    (tmp_path / "got.jsonl").write_bytes(shipment.lines)
    with pytest.raises(Bad, match=f"invocation {row_id} .* was deleted after it was sealed"):
        verified([tmp_path / "got.jsonl"], keys)


def test_files_that_are_no_shipment_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "audit-1.jsonl"
    for text, words in (
        ("{", "line 1 is no JSON"),
        ("[]", "no record"),
        ('{"row":"event"}', "first record"),
        ("", "no"),
    ):
        file.write_text(text)
        with pytest.raises(CannotJoin, match=words):
            join([file], io.BytesIO())
    with pytest.raises(CannotJoin, match="No such file"):
        join([tmp_path / "none"], io.BytesIO())
