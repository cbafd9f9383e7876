"""A backup taken from a running hub is restored in an empty place; whatever does not fit is refused with a sentence."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.release import first_call
from mcphub.features.backup import sealed
from tests import operations, secret_operations
from tests.in_process import environment, run
from tests.mcphub import running
from tests.servers import Hub, postgres_database

pytestmark = [pytest.mark.program, pytest.mark.slow]

VECTOR = "the digest of a text"
PASSPHRASE = "correct horse battery"


@pytest.fixture(params=["sqlite", "postgresql"])
def databases(request: pytest.FixtureRequest) -> Iterator[list[dict[str, str]]]:
    """Where a hub keeps its rows, and where they are restored: settings of each."""
    if request.param == "sqlite":
        yield [{}, {}]
        return
    with postgres_database(is_empty=True) as first, postgres_database(is_empty=True) as second:
        yield [{"MCPHUB_DATABASE_URL": address} for address in (first, second)]


def passphrase(folder: Path, text: str = PASSPHRASE) -> str:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "passphrase").write_text(text + "\n")
    return str(folder / "passphrase")


def test_a_drill_calls_go_on_and_everything_is_there_again(tmp_path: Path, databases: list[dict[str, str]]) -> None:
    words = str(tmp_path / "hub.backup"), "--passphrase-file", passphrase(tmp_path)
    off = {"MCPHUB_FEATURES": "-embeddings"}  # its rows stay all the same
    with Hub(tmp_path / "first", environment=databases[0]) as hub:
        hub.operate(secret_operations.keep_vector, VECTOR)
        hub.operate(secret_operations.make_secret, "house", "s3cret-of-the-house")
        first_call.make(hub.url, hub.key)
        hub.command("audit", "checkpoint")
        made = running.run(hub.data, "backup", *words, **databases[0], **off)
        assert made.returncode == 0, made.stdout + made.stderr
        first_call.make(hub.url, hub.key)
        key, before = hub.key, hub.rows()
    assert len(before) == 2
    again = Hub(tmp_path / "again", environment=databases[1])
    restored = running.run(again.data, "restore", *words, **databases[1], **off)
    assert restored.returncode == 0, restored.stdout + restored.stderr
    assert "published checkpoints agree" in restored.stdout
    with again:
        again.key = key
        assert [row["invocation_id"] for row in again.rows()] == [before[1]["invocation_id"]]
        assert again.operate(secret_operations.secret_of, "house") == "s3cret-of-the-house"
        assert again.operate(operations.values, "embeddings.CachedVector", "digest") == [VECTOR]
        first_call.make(again.url, again.key)
        assert len(again.rows()) == 2
        again.command("audit", "verify")
        assert {"hub.backed_up", "hub.restored"} <= set(again.operate(secret_operations.kinds_of_events))


@pytest.fixture(scope="module")
def backup(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of an empty hub."""
    folder = tmp_path_factory.mktemp("backup")
    made = run(folder / "data", "backup", str(folder / "hub.backup"), "--passphrase-file", passphrase(folder))
    assert made.returncode == 0, made.stderr
    return folder / "hub.backup"


def refused(data: Path, backup: Path, text: str = PASSPHRASE, **variables: str) -> str:
    """What restoring says where it must not succeed; nothing is there afterwards that was not there before."""
    before = sorted(data.rglob("*")) if data.exists() else None
    given = passphrase(data.parent / "given", text)
    ended = run(data, "restore", str(backup), "--passphrase-file", given, **variables)
    assert ended.returncode in (1, 2), ended.stdout + ended.stderr
    assert len(ended.stderr.splitlines()) == 1, ended.stderr
    assert "Nothing was restored." in ended.stderr
    assert (sorted(data.rglob("*")) if data.exists() else None) == before
    return ended.stderr


def test_a_wrong_passphrase_restores_nothing(tmp_path: Path, backup: Path) -> None:
    assert "passphrase is not the one" in refused(tmp_path / "data", backup, "wrong horse battery")


def test_a_damaged_or_cut_backup_restores_nothing(tmp_path: Path, backup: Path) -> None:
    whole = backup.read_bytes()
    (tmp_path / "cut").write_bytes(whole[:-1])
    assert "ends too early" in refused(tmp_path / "data", tmp_path / "cut")
    (tmp_path / "longer").write_bytes(whole + b"x")
    assert "goes on after its end" in refused(tmp_path / "data", tmp_path / "longer")
    (tmp_path / "changed").write_bytes(whole[:-40] + bytes([whole[-40] ^ 1]) + whole[-39:])
    assert "damaged" in refused(tmp_path / "data", tmp_path / "changed")
    (tmp_path / "none").write_text("# notes\n")
    assert "is no backup" in refused(tmp_path / "data", tmp_path / "none")


def test_a_backup_of_a_newer_version_is_refused(tmp_path: Path, backup: Path) -> None:
    with backup.open("rb") as file:
        reader = sealed.SealedReader(file, PASSPHRASE)
        content = reader.read()
    header = {name: value for name, value in reader.header.items() if name != "lock"}
    header |= {"version": "9.0", "migrations": [*header["migrations"], ["invocations", "0999_later"]]}
    with (tmp_path / "newer").open("wb") as file:
        writer = sealed.Writer(file, PASSPHRASE, header)
        writer.write(content)
        writer.finish()
    told = refused(tmp_path / "data", tmp_path / "newer")
    assert "invocations.0999_later" in told
    assert "Restore it with version 9.0" in told


def test_a_place_that_is_not_empty_is_refused(tmp_path: Path, backup: Path) -> None:
    assert run(tmp_path / "data", "token", "create", "x").returncode == 0
    assert "hub.sqlite3 exists" in refused(tmp_path / "data", backup)
    (tmp_path / "data" / "hub.sqlite3").unlink()
    assert "encryption_keys exists and is another" in refused(tmp_path / "data", backup)


def test_a_backup_overwrites_nothing_and_wants_a_long_passphrase(tmp_path: Path, backup: Path) -> None:
    given = passphrase(tmp_path)
    told = run(tmp_path / "data", "backup", str(backup), "--passphrase-file", given)
    assert (told.returncode, "exists; name another file" in told.stderr) == (1, True)
    short = run(tmp_path / "data", "backup", "x", "--passphrase-file", passphrase(tmp_path, "short"))
    assert (short.returncode, "at least 12" in short.stderr) == (2, True)


def test_a_full_disk_keeps_nothing(tmp_path: Path) -> None:
    """A bound on the size of files stands for the disk: the same calls fail, with another number."""
    given, target = passphrase(tmp_path), tmp_path / "hub.backup"
    assert run(tmp_path / "data", "token", "create", "x").returncode == 0
    words = f"ulimit -f 1024; trap '' XFSZ; exec mcphub backup {target} --passphrase-file {given}"
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    full = subprocess.run(
        ["bash", "-c", words], env=environment(tmp_path / "data", PATH=path), capture_output=True, text=True
    )
    assert full.returncode == 1
    assert "Nothing was kept." in full.stderr, full.stderr
    assert len(full.stderr.splitlines()) == 1
    assert [path for path in tmp_path.iterdir() if path.name.startswith("hub.backup")] == []


def test_secrets_move_to_a_new_key_while_a_hub_runs(tmp_path: Path) -> None:
    with Hub(tmp_path) as hub:
        hub.operate(secret_operations.make_secret, "house", "s3cret-of-the-house")
        old = (hub.data / "encryption_keys").read_text()
        before = hub.operate(secret_operations.ciphertext_of, "house")
        assert hub.operate(secret_operations.secret_of, "house") == "s3cret-of-the-house"
        told = hub.command("secrets", "rotate")
        assert "1 rows with secrets are encrypted" in told
        new = (hub.data / "encryption_keys").read_text()
        assert new.endswith(old)
        assert hub.operate(secret_operations.ciphertext_of, "house") != before
        assert hub.operate(secret_operations.secret_of, "house") == "s3cret-of-the-house", (
            "a process that runs reads the file again"
        )
        (hub.data / "draft").write_text(new.removesuffix(old))
        (hub.data / "draft").replace(hub.data / "encryption_keys")  # at once for every reader
        assert hub.command("secrets", "rotate", "--keep-key").startswith("0 rows")
