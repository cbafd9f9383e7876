"""Closed months leave the database as files that prove what the log proves; what was changed there is named."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from django.db import connection

from invocations.chain import retention, service
from invocations.chain.models import AuditPolicy
from invocations.chain.sealer import Sealer
from invocations.chain.verifier import Bad, Checkpoint, Summary
from mcphub.features.archive import files
from mcphub.features.archive.command import record_month
from mcphub.features.archive.places import IsBusy
from mcphub.features.archive.verifying import verify, verify_alone
from sessions_app.history.models import AuditEvent
from tests.committed import without_rules
from tests.features.archive.recording import sealed
from tests.features.archive.tampering import rewrite
from tests.invocations.chain.rows import fill

pytestmark = pytest.mark.usefixtures("transactional_db")


@pytest.fixture
def folder(archiver, months, tmp_path: Path) -> Path:
    """An archive of September and October, recorded in the log."""
    folder = tmp_path / "archive"
    for manifest in archiver(folder, most_rows=7).run():
        record_month(months, manifest)
    return folder


def checked(folder: Path, log, keys) -> Summary:
    return verify(folder, log, keys.publics(), ())


def refused(folder: Path, log, keys) -> str:
    with pytest.raises(Bad) as bad:
        checked(folder, log, keys)
    with pytest.raises(Bad):
        verify_alone(folder, keys.publics())
    return str(bad.value)


def test_closed_months_are_written_with_all_their_rows(folder: Path, months, keys) -> None:
    assert sorted(path.name for path in folder.iterdir() if path.is_dir()) == ["2026-09", "2026-10"]
    summary = checked(folder, months, keys)
    assert (summary.blocks, summary.rows, summary.erased) == (4, 28, 0)
    assert verify_alone(folder, keys.publics()).rows == 28
    part = sorted((folder / "2026-09").glob("*.parquet"))[0]
    calls = [json.loads(each["covered"]) for each in files.read(part) if each.get("row") == "invocation"]
    assert [each["tool_name"] for each in calls] == ["tool0"] * 3
    assert {path.stat().st_mode & 0o077 for path in folder.rglob("*")} == {0}


def test_a_second_run_changes_nothing(folder: Path, archiver) -> None:
    before = {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()}
    assert list(archiver(folder).run()) == []
    assert {path: path.read_bytes() for path in folder.rglob("*.*") if path.is_file()} == before


def test_a_month_is_archived_once_it_is_closed_and_on_record_once(archiver, months, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    assert [each.month for each in archiver(folder).run("2026-09")] == ["2026-09"]
    for manifest in [*archiver(folder).run(), *archiver(folder).existing()]:
        record_month(months, manifest)
    (event,) = AuditEvent.objects.filter(kind="audit.archived", subject_id="2026-10")
    assert (event.after["first_block"], event.after["last_block"], event.after["rows"]) == (2, 3, 14)


def test_what_retention_removes_afterwards_is_still_proved(folder: Path, months, keys, database) -> None:
    AuditPolicy(rows_days=1, bodies_days=1).save()
    removed, _ = retention.apply(months, keys)
    assert removed == 35
    assert checked(folder, months, keys).rows == 28
    assert verify_alone(folder, keys.publics()).rows == 28


def test_what_retention_removed_before_stays_provable(months, archiver, keys, tmp_path: Path) -> None:
    AuditPolicy(rows_days=30, bodies_days=20).save()
    now = datetime(2026, 10, 26, tzinfo=UTC)
    assert retention.apply(months, keys, now=now) == (14, 7)
    summary = verify_alone(_written(archiver, tmp_path), keys.publics())
    assert (summary.rows, summary.removed, summary.erased) == (14, 14, 6)


def _written(archiver, tmp_path: Path) -> Path:
    assert len(list(archiver(tmp_path / "archive").run())) == 2
    return tmp_path / "archive"


def test_a_tampered_row_of_the_database_is_not_archived(months, archiver, tmp_path: Path) -> None:
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("UPDATE invocations_mcptoolinvocation SET tool_name = 'other' WHERE tool_name = 'tool1'")
    with pytest.raises(Bad, match=r"invocation \d+ .*block 1\) was changed after it was sealed"):
        list(archiver(tmp_path / "archive").run())
    assert not (tmp_path / "archive" / "2026-09").exists()


def _part(folder: Path, month: str, number: int) -> Path:
    return sorted((folder / month).glob("*.parquet"))[number]


def _flip(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:200] + bytes([content[200] ^ 1]) + content[201:])


def _edit_manifest(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "rows": 13}))


def test_a_row_of_any_text_is_hashed_as_the_log_hashed_it(months, archiver, keys, database, tmp_path: Path) -> None:
    odd = "".join(map(chr, range(1, 0xA1))) + '\u2028\ufeff\U0001f600"\\u001F'
    at = datetime(2026, 11, 8, tzinfo=UTC)
    labels = [{"caller_label": each} for each in (odd[:100], odd[100:])]  # the column takes 150 characters
    sealed(database, months, keys, at, *labels, {"arguments": json.dumps({"odd": odd})})
    folder = tmp_path / "archive"
    assert len(list(archiver(folder, now=lambda: datetime(2026, 12, 1, tzinfo=UTC)).run())) == 3
    assert verify_alone(folder, keys.publics()).rows == 38
    rewrite(_part(folder, "2026-11", 0), "SELECT * REPLACE (replace(caller_label, chr(11), '') AS caller_label)")
    with pytest.raises(Bad, match=r"invocation \d+ .* was changed after it was sealed"):
        verify_alone(folder, keys.publics())


_CALLER = "SELECT * REPLACE (CASE WHEN kind = 'invocation' THEN 'key:9' ELSE principal END AS principal)"
_BODY = "SELECT * REPLACE (CASE WHEN result IS NULL THEN NULL ELSE '{}' END AS result)"
_SMUGGLED = (
    "SELECT * REPLACE (duration_ms::VARCHAR || coalesce(',\"error_code\":' || to_json(error_code), '') AS duration_ms)"
)
_TO_ERASED = (
    "SELECT * REPLACE (CASE WHEN result IS NULL THEN NULL ELSE '\"sha256:' || sha256(result) || '\"' END AS result)"
)
TAMPERED: list[tuple[Callable[[Path], object], str]] = [
    (lambda it: rewrite(_part(it, "2026-10", 1), _CALLER), r"2026-10/part-\S+: invocation .*, block 3\) was changed"),
    (lambda it: rewrite(_part(it, "2026-09", 0), _BODY), r"invocation \d+ .*, block 0\) was changed after"),
    (lambda it: rewrite(_part(it, "2026-09", 0), _SMUGGLED), "Its column duration_ms is VARCHAR, not BIGINT"),
    (lambda it: rewrite(_part(it, "2026-09", 0), _TO_ERASED), r"The bodies of invocation \d+ .* no tombstone says so"),
    (
        lambda it: rewrite(_part(it, "2026-09", 0), "SELECT *", "WHERE position != 4"),
        "Position 4 in block 0 is missing",
    ),
    (lambda it: _flip(_part(it, "2026-10", 0)), r"2026-10/part-\S+\.parquet"),
    (lambda it: rewrite(_part(it, "2026-10", 0), "SELECT *"), r"2026-10/part-\S+ was changed after it was archived"),
    (lambda it: _part(it, "2026-09", 1).unlink(), r"The file 2026-09/part-\S+ is missing\."),
    (
        lambda it: shutil.copy(_part(it, "2026-09", 1), it / "2026-10"),
        r"2026-10/\S+ is not one that the manifest names",
    ),
    (lambda it: _edit_manifest(it / "2026-09" / "manifest.json"), "The manifest of 2026-09 was changed after"),
    (lambda it: (it / "2026-09" / "manifest.sig").unlink(), "2026-09/manifest.sig is missing"),
    (lambda it: (it / "2026-09" / "tombstones.jsonl").write_text("{}\n"), "tombstones.jsonl was changed after"),
    (lambda it: shutil.rmtree(it / "2026-09"), "A month before 2026-10 is missing"),
]


def test_what_was_tampered_with_in_the_files_is_named(folder: Path, months, keys, tmp_path: Path) -> None:
    for number, (deed, words) in enumerate(TAMPERED):
        copy = shutil.copytree(folder, tmp_path / str(number))
        deed(copy)
        assert re.search(words, refused(copy, months, keys)), words


def test_swapped_months_are_named(folder: Path, months, keys) -> None:
    (folder / "2026-09").rename(folder / "2026-08.kept")
    (folder / "2026-10").rename(folder / "2026-09")
    (folder / "2026-08.kept").rename(folder / "2026-10")
    assert refused(folder, months, keys) == ("The folder 2026-09 holds the month 2026-10: it was swapped, or renamed.")


def test_a_month_of_another_run_is_named(folder: Path, archiver, months, keys, tmp_path: Path) -> None:
    assert len(list(archiver(tmp_path / "other").run())) == 2
    shutil.rmtree(folder / "2026-09")
    shutil.copytree(tmp_path / "other" / "2026-09", folder / "2026-09")
    assert "The month 2026-10 does not follow 2026-09 as it stands here" in refused(folder, months, keys)


def test_a_missing_month_is_named(folder: Path, months, keys) -> None:
    shutil.rmtree(folder / "2026-10")
    with pytest.raises(Bad, match="The month 2026-10 is missing: the log records that it was archived here"):
        checked(folder, months, keys)
    (folder / "2026-09").rename(folder / "kept")
    with pytest.raises(Bad, match="There is no archived month"):
        checked(folder, months, keys)


def test_an_archive_of_another_log_is_named(folder: Path, months, keys, tmp_path: Path, settings) -> None:
    settings.MCPHUB_AUDIT_DIR = tmp_path / "elsewhere"
    other = service.keys()
    other.signer(may_make=True)
    with pytest.raises(Bad, match="which is not trusted"):
        verify_alone(folder, other.publics())


def test_a_rewritten_log_does_not_continue_its_archive(folder: Path, months, keys) -> None:
    with connection.cursor() as cursor, without_rules(cursor):
        cursor.execute("DELETE FROM invocations_auditblock WHERE number >= 3")
    with pytest.raises(Bad, match="The log is truncated: it ends after 3 blocks"):
        checked(folder, months, keys)


def test_checkpoints_kept_outside_are_compared(folder: Path, months, keys) -> None:
    block = months.block(1)
    other = Checkpoint(keys.publics()[0].name, 2, os.urandom(32), block.key_id, b"")
    with pytest.raises(Bad, match="checkpoint of 2 blocks"):
        verify(folder, months, keys.publics(), [other])


def test_one_process_writes_at_a_time(archiver, tmp_path: Path) -> None:
    running = archiver(tmp_path / "archive").run()
    next(running)
    with pytest.raises(IsBusy):
        next(archiver(tmp_path / "archive").run())
    assert [each.month for each in running] == ["2026-10"]


def test_a_clock_that_went_back_opens_no_archived_month_again(months, keys, database, archiver, tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    assert len(list(archiver(folder).run())) == 2
    fill(database, 1)
    Sealer(months, keys, now=lambda: datetime(2026, 10, 5, tzinfo=UTC)).seal()
    later = archiver(folder, now=lambda: datetime(2026, 12, 1, tzinfo=UTC))
    assert [(each.month, each.rows) for each in later.run()] == [("2026-11", 9)]
    assert verify_alone(folder, keys.publics()).blocks == 6
