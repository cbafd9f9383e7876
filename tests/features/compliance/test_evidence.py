"""`mcphub audit evidence`: an archive holds what happened in its period, and a check finds each way to change it."""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from django.contrib.auth import get_user_model

from invocations.chain.keys import Signer
from invocations.chain.models import AuditHold, AuditPolicy
from invocations.chain.verifier import Bad
from mcphub.features.compliance.evidence import Period, check, write
from sessions_app.models import ApiKey
from tests.factories import McpToolInvocationFactory

pytestmark = pytest.mark.django_db

BEGIN = datetime(2026, 7, 1, tzinfo=UTC)
END = datetime(2026, 10, 1, tzinfo=UTC)
INSIDE = BEGIN + timedelta(days=3)


def call(at: datetime, **more: object) -> None:
    McpToolInvocationFactory(received_at=at, started_at=at, finished_at=at, **more)


@pytest.fixture
def signer() -> Signer:
    return Signer.make("mcphub-audit/tests")


@pytest.fixture
def archive(tmp_path: Path, signer: Signer) -> Path:
    call(INSIDE, tool_name="pay", tool_version="3")
    call(INSIDE, tool_name="pay", tool_version="3", failed=True, error_code="policy_denied", policy_rule="no pay")
    call(BEGIN - timedelta(seconds=1), tool_name="before")
    call(END, tool_name="after")
    ApiKey.issue("robot", scopes=["tools:call"])
    get_user_model().objects.create_user("anna")
    AuditPolicy(rows_days=400).save()
    AuditHold(name="case 7", reason="court").save()
    write(tmp_path / "q3.zip", Period(BEGIN, END), signer, "en")
    return tmp_path / "q3.zip"


def lines(archive: Path, name: str) -> list[dict[str, object]]:
    with zipfile.ZipFile(archive) as file:
        return [json.loads(line) for line in file.read(name).splitlines()]


def test_calls_of_the_period_are_in_it_and_no_others(archive: Path) -> None:
    (tool,) = lines(archive, "tools.jsonl")
    assert (tool["tool_name"], tool["tool_version"], tool["calls"]) == ("pay", "3", 2)
    (refused,) = lines(archive, "refused.jsonl")
    assert (refused["error_code"], refused["policy_rule"]) == ("policy_denied", "no pay")


def test_access_retention_and_holds_are_in_it(archive: Path) -> None:
    access = lines(archive, "access.jsonl")
    assert ["anna" in line.values() for line in access].count(True) == 1
    (key,) = [line for line in access if line.get("key") == "robot"]
    assert (key["scopes"], key["unused"]) == (["tools:call"], False)
    policy, hold = lines(archive, "retention.jsonl")
    assert policy["rows_days"] == 400
    assert (hold["hold"], hold["released"]) == ("case 7", None)


def test_the_report_has_each_table(archive: Path) -> None:
    with zipfile.ZipFile(archive) as file:
        page = file.read("report.html").decode()
    assert "policy_denied" in page
    assert "no pay" in page
    assert "<script" not in page


def test_the_report_is_there_in_russian(tmp_path: Path, signer: Signer) -> None:
    write(tmp_path / "ru.zip", Period(BEGIN, END), signer, "ru")
    with zipfile.ZipFile(tmp_path / "ru.zip") as file:
        page = file.read("report.html").decode()
    assert '<html lang="ru">' in page
    assert "Запечатано блоков" in page


def test_only_its_owner_reads_it_and_nothing_is_overwritten(archive: Path, signer: Signer) -> None:
    assert archive.stat().st_mode & 0o777 == 0o600
    with pytest.raises(FileExistsError):
        write(archive, Period(BEGIN, END), signer, "en")
    assert [path.name for path in archive.parent.iterdir()] == ["q3.zip"]


def test_an_archive_as_it_was_signed_passes(archive: Path, signer: Signer) -> None:
    manifest = check(archive, [Signer.make("mcphub-audit/tests").public, signer.public])
    assert manifest["from"] == "2026-07-01T00:00:00+00:00"


def rewritten(archive: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    with zipfile.ZipFile(archive) as file:
        parts = {name: file.read(name) for name in file.namelist()}
    change(parts)
    out = archive.with_name("changed.zip")
    with zipfile.ZipFile(out, "w") as file:
        for name, data in parts.items():
            file.writestr(name, data)
    return out


def forged(parts: dict[str, bytes]) -> None:
    """Change a file and, in the manifest, its digest."""
    parts["refused.jsonl"] = b""
    manifest = json.loads(parts["manifest.json"])
    manifest["files"]["refused.jsonl"] |= {"bytes": 0, "lines": 0, "sha256": hashlib.sha256(b"").hexdigest()}
    parts["manifest.json"] = json.dumps(manifest).encode()


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (lambda parts: parts.update({"refused.jsonl": b""}), "refused.jsonl is not as it was signed"),
        (lambda parts: parts.update({"tools.jsonl": parts["tools.jsonl"] + b"{}\n"}), "tools.jsonl is not as"),
        (lambda parts: parts.pop("approvals.jsonl"), "approvals.jsonl is missing"),
        (lambda parts: parts.update({"more.txt": b"trust me"}), "more.txt is not in the manifest"),
        (forged, "the manifest is not what was signed"),
        (lambda parts: parts.pop("manifest.sig"), "no evidence archive"),
        (lambda parts: parts.update({"manifest.sig": b"a b !"}), "none of the trusted keys"),
        (lambda parts: parts.update({"manifest.sig": b"nothing"}), "is not a name, an ID and a signature"),
    ],
)
def test_a_changed_archive_is_named(archive: Path, signer: Signer, change, found: str) -> None:
    with pytest.raises(Bad, match=found):
        check(rewritten(archive, change), [signer.public])


def test_an_archive_of_another_key_is_not_trusted(archive: Path) -> None:
    with pytest.raises(Bad, match="none of the trusted keys"):
        check(archive, [Signer.make("mcphub-audit/tests").public])


def test_a_file_that_is_no_archive_is_named(tmp_path: Path, signer: Signer) -> None:
    (tmp_path / "x.zip").write_bytes(b"no zip")
    with pytest.raises(Bad, match="no evidence archive"):
        check(tmp_path / "x.zip", [signer.public])
