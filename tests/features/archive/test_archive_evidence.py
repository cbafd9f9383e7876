"""Evidence of a period names the archived months whose rows retention removed, and an archive that cannot be read."""

from __future__ import annotations

import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from invocations.chain import retention
from invocations.chain.keys import KeyFolder
from invocations.chain.log import Log
from invocations.chain.models import AuditPolicy
from mcphub.features.archive.command import record_month
from mcphub.features.archive.evidence import archived
from mcphub.features.archive.manifests import Manifest
from mcphub.features.archive.places import MANIFEST
from mcphub.features.compliance.evidence import Period, write
from sessions_app.workspaces.scope import Scope, acting_in
from tests.features.archive.recording import archive_months
from tests.in_process import inside, run
from tests.template import copy_to

OCTOBER = datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture
def september(archiver: Any, months: Log, keys: KeyFolder, settings: Any, tmp_path: Path) -> Manifest:
    """The first of two archived months of the hub's archive, on record; retention removed its rows in October."""
    settings.MCPHUB_ARCHIVE_DIR = tmp_path / "archive"
    for manifest in archiver(settings.MCPHUB_ARCHIVE_DIR).run():
        record_month(months, manifest)
    AuditPolicy(rows_days=30).save()
    assert retention.apply(months, keys, now=datetime(2026, 10, 26, tzinfo=UTC))[0] == 14
    found: Manifest = archiver(settings.MCPHUB_ARCHIVE_DIR).existing()[0]
    return found


def lines_of(file: Path, name: str) -> list[dict[str, Any]]:
    with zipfile.ZipFile(file) as archive:
        return [json.loads(line) for line in archive.read(name).splitlines()]


def report_of(file: Path) -> str:
    with zipfile.ZipFile(file) as archive:
        return archive.read("report.html").decode()


@pytest.mark.parametrize(("language", "words"), [("en", "Archived months (1)"), ("ru", "Архивные месяцы (1)")])
def test_a_month_whose_rows_are_gone_is_named_with_its_proof(
    september: Manifest, keys: KeyFolder, settings: Any, tmp_path: Path, language: str, words: str
) -> None:
    file = tmp_path / "e.zip"
    period = Period(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 10, 1, tzinfo=UTC))
    write(file, period, keys.signer(), language)
    assert lines_of(file, "archived.jsonl") == [
        {
            "month": "2026-09",
            "rows": 14,
            "first_block": 0,
            "last_block": 1,
            "manifest": september.digest,
            "place": f"{settings.MCPHUB_ARCHIVE_DIR}/2026-09",
            "removed_rows": 14,
            "state": "as signed",
        }
    ]
    (removal,) = lines_of(file, "removals.jsonl")
    assert (removal["first_block"], removal["last_block"]) == (0, 1), "removed after the period"
    page = report_of(file)
    assert words in page
    assert "mcphub audit verify --archive" in page
    assert september.digest in page


def test_a_month_without_removals_says_so(september: Manifest) -> None:
    (october,) = [line for line in archived(*OCTOBER) if line["month"] == "2026-10"]
    assert (october["rows"], october["removed_rows"], october["state"]) == (14, 0, "as signed")


def test_a_workspace_is_told_the_months_and_no_place_of_the_hub(september: Manifest) -> None:
    with acting_in(Scope(1, "ours")):
        (month,) = archived(datetime(2026, 9, 1, tzinfo=UTC), datetime(2026, 9, 30, tzinfo=UTC))
    assert (month["manifest"], "place" in month) == (september.digest, False)


def test_months_outside_the_period_are_not_in_it(september: Manifest) -> None:
    assert list(archived(datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 9, 1, tzinfo=UTC))) == []


def test_an_archive_that_cannot_be_read_is_named_with_the_months_on_record(
    september: Manifest, settings: Any, keys: KeyFolder, tmp_path: Path
) -> None:
    manifest = Path(settings.MCPHUB_ARCHIVE_DIR) / "2026-09" / MANIFEST
    manifest.write_bytes(manifest.read_bytes() + b" ")
    file = tmp_path / "e.zip"
    write(file, Period(*OCTOBER), keys.signer(), "en")
    problem, *months = lines_of(file, "archived.jsonl")
    assert problem == {
        "place": str(settings.MCPHUB_ARCHIVE_DIR),
        "state": "unreadable",
        "problem": "The manifest of 2026-09 was changed after it was signed.",
    }
    assert [line["state"] for line in months if line["month"] == "2026-10"] == ["unreadable"]
    assert "The manifest of 2026-09 was changed" in report_of(file)


def test_a_missing_month_and_one_in_another_place_are_named(september: Manifest, settings: Any, tmp_path: Path) -> None:
    Path(settings.MCPHUB_ARCHIVE_DIR).rename(tmp_path / "away")
    assert [line["state"] for line in archived(*OCTOBER) if line["month"] == "2026-10"] == ["missing"]
    settings.MCPHUB_ARCHIVE_DIR = tmp_path / "other"
    assert [line["state"] for line in archived(*OCTOBER) if line["month"] == "2026-10"] == ["elsewhere"]


@pytest.mark.program
def test_a_check_with_the_public_keys_alone_says_so(tmp_path: Path) -> None:
    home, file = tmp_path / "hub", tmp_path / "e.zip"
    home.mkdir()
    copy_to(home / "hub.sqlite3")
    with inside(home):
        archive_months()
    done = run(home, "audit", "evidence", "--from", "2026-09-01", "--until", "2026-11-01", "-o", str(file))
    assert done.returncode == 0, done.stderr
    (tmp_path / "elsewhere").mkdir()
    keys = str(home / "audit" / "public.keys")
    done = run(tmp_path / "elsewhere", "audit", "evidence", "--check", str(file), "--key", keys)
    assert done.returncode == 0, done.stderr
    assert "archived.jsonl: 2 lines. Rows that retention removed are not in the other files." in done.stdout
