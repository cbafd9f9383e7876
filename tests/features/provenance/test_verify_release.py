"""`mcphub verify-release` names whatever is not as it was signed, without a hub."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from base64 import b64decode, b64encode
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploy.release import keys, release
from mcphub.features.provenance import statements
from mcphub.features.provenance.checking import check, read_key
from mcphub.features.provenance.minisign import BadSignature, FileSignature, ReleaseKey
from tests.in_process import ROOT

RELEASER, STRANGER = keys.make(), keys.make()
WHEEL, CHART = "mcphub-1.0.0-py3-none-any.whl", "mcphub-chart-1.0.0.tgz"
ENVELOPE = f"mcphub-{release.version()}.intoto.json"
EPOCH = 1_700_000_000


def released(folder: Path, signer: keys.Signer = RELEASER, more: tuple[str, ...] = ()) -> Path:
    """Return a folder with a signed release of two small files."""
    folder.mkdir()
    files = [folder / name for name in (WHEEL, CHART, *more)]
    for path in files:
        path.write_bytes(f"content of {path.name}".encode())
    described = release.statement(files, "c" * 40, EPOCH, "https://git.example/hub", "urn:example:builder")
    release.sign(files, described, signer, EPOCH, folder)
    return folder


def faults(folder: Path, key: ReleaseKey = RELEASER.public) -> list[str]:
    return [f"{fault.kind}: {fault.name}" for fault in check(folder, key).faults]


def test_a_release_as_it_was_signed_has_no_fault_and_says_what_it_is(tmp_path: Path) -> None:
    checked = check(released(tmp_path / "release"), RELEASER.public)
    assert checked.faults == ()
    assert checked.provenance is not None
    assert checked.provenance.commit == "c" * 40
    assert checked.provenance.builder == "urn:example:builder"
    assert sorted(checked.provenance.files) == [WHEEL, CHART]


def test_the_same_release_signed_again_is_the_same_bytes(tmp_path: Path) -> None:
    one, two = released(tmp_path / "one"), released(tmp_path / "two")
    assert {path.name: path.read_bytes() for path in one.iterdir()} == {
        path.name: path.read_bytes() for path in two.iterdir()
    }


def exchanged(folder: Path) -> None:
    (folder / WHEEL).rename(folder / "kept")
    (folder / CHART).rename(folder / WHEEL)
    (folder / "kept").rename(folder / CHART)


def signed_by_stranger(folder: Path) -> None:
    (folder / f"{WHEEL}.minisig").write_text(STRANGER.file(folder / WHEEL, EPOCH).text())


def changed_and_signed_by_stranger(folder: Path) -> None:
    (folder / WHEEL).write_bytes(b"other")
    signed_by_stranger(folder)


def of_another_comment(folder: Path) -> None:
    path = folder / f"{WHEEL}.minisig"
    path.write_text(path.read_text().replace(f"timestamp:{EPOCH}", "timestamp:1800000000"))


def with_another_digest(folder: Path) -> None:
    """A statement that fits a changed file, under the signature of the former one."""
    envelope = json.loads((folder / ENVELOPE).read_text())
    statement = json.loads(b64decode(envelope["payload"]))
    statement["subject"][0]["digest"]["sha256"] = "0" * 64
    envelope["payload"] = b64encode(json.dumps(statement).encode()).decode()
    (folder / ENVELOPE).write_text(json.dumps(envelope))


def signed_as_something_else(folder: Path) -> None:
    other = {"_type": statements.STATEMENT, "subject": [], "predicateType": "https://example.org/other/v1"}
    (folder / ENVELOPE).write_text(statements.sealed(other, RELEASER.public, RELEASER.sign))


def linked(folder: Path) -> None:
    (folder / WHEEL).rename(folder.parent / "outside")
    (folder / WHEEL).symlink_to(folder.parent / "outside")


TAMPERED: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "a file is gone": (lambda at: (at / WHEEL).unlink(), [f"missing: {WHEEL}"]),
    "a signature is gone": (lambda at: (at / f"{CHART}.minisig").unlink(), [f"missing: {CHART}.minisig"]),
    "the provenance is gone": (lambda at: (at / ENVELOPE).unlink(), ["missing: the provenance (*.intoto.json)"]),
    "a file more": (lambda at: (at / "setup.py").write_text("x"), ["extra: setup.py"]),
    "a folder more": (lambda at: (at / "inside").mkdir(), ["extra: inside"]),
    "a second provenance": (
        lambda at: (at / "z.intoto.json").write_bytes((at / ENVELOPE).read_bytes()),
        ["extra: z.intoto.json"],
    ),
    "a changed byte": (
        lambda at: (at / WHEEL).write_bytes((at / WHEEL).read_bytes()[:-1] + b"X"),
        [f"changed: {WHEEL}", f"wrongly signed: {WHEEL}"],
    ),
    "an empty file": (lambda at: (at / WHEEL).write_bytes(b""), [f"changed: {WHEEL}", f"wrongly signed: {WHEEL}"]),
    "two exchanged files": (
        exchanged,
        [f"changed: {WHEEL}", f"changed: {CHART}", f"wrongly signed: {WHEEL}", f"wrongly signed: {CHART}"],
    ),
    "a link in place of a file": (linked, [f"changed: {WHEEL}"]),
    "a signature of another key": (signed_by_stranger, [f"wrongly signed: {WHEEL}"]),
    "a file and signature of somebody else": (
        changed_and_signed_by_stranger,
        [f"changed: {WHEEL}", f"wrongly signed: {WHEEL}"],
    ),
    "a changed trusted comment": (of_another_comment, [f"wrongly signed: {WHEEL}"]),
    "a signature that is none": (
        lambda at: (at / f"{WHEEL}.minisig").write_bytes(b"\xff\x00"),
        [f"wrongly signed: {WHEEL}"],
    ),
    "a huge signature": (lambda at: (at / f"{WHEEL}.minisig").write_bytes(b"x" * 10_000), [f"wrongly signed: {WHEEL}"]),
    "another digest in the statement": (with_another_digest, [f"wrongly signed: {ENVELOPE}"]),
    "a signed statement of another kind": (signed_as_something_else, [f"wrongly signed: {ENVELOPE}"]),
    "an envelope that is none": (lambda at: (at / ENVELOPE).write_text("[]"), [f"wrongly signed: {ENVELOPE}"]),
    "a deep envelope": (lambda at: (at / ENVELOPE).write_text("[" * 200_000), [f"wrongly signed: {ENVELOPE}"]),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_tampered_with_is_named(tmp_path: Path, name: str) -> None:
    tamper, expected = TAMPERED[name]
    folder = released(tmp_path / "release")
    tamper(folder)
    assert sorted(faults(folder)) == sorted(expected)


def test_a_release_of_another_key_is_wrongly_signed_and_both_keys_are_named(tmp_path: Path) -> None:
    (fault,) = check(released(tmp_path / "release", STRANGER), RELEASER.public).faults
    assert STRANGER.public.name in fault.reason
    assert RELEASER.public.name in fault.reason


def test_a_stranger_who_takes_the_id_of_the_key_is_found_out(tmp_path: Path) -> None:
    forger = keys.Signer(RELEASER.key_id, STRANGER.private)
    assert faults(released(tmp_path / "release", forger)) == [f"wrongly signed: {ENVELOPE}"]


def test_a_name_that_leads_out_of_the_folder_is_missing_and_not_opened(tmp_path: Path) -> None:
    folder = released(tmp_path / "release")
    outside = tmp_path / "outside"
    outside.write_bytes(b"x")
    described = release.statement([folder / WHEEL, folder / CHART], "c" * 40, EPOCH, "", "urn:example:builder")
    described["subject"].append({"name": "../outside", "digest": {"sha256": release._sha256(outside)}})  # type: ignore[attr-defined]
    release.sign([folder / WHEEL, folder / CHART], described, RELEASER, EPOCH, folder)
    assert faults(folder) == ["missing: ../outside"]


@given(st.text(max_size=200))
def test_any_text_as_key_signature_or_envelope_is_refused_with_a_reason(text: str) -> None:
    for read in (ReleaseKey.parse, FileSignature.parse, lambda given: statements.opened(given, RELEASER.public)):
        with pytest.raises(BadSignature, match=r"\w"):
            read(text)


def test_a_key_is_a_file_or_its_line(tmp_path: Path) -> None:
    (tmp_path / "key.pub").write_text(RELEASER.public.text())
    assert read_key(str(tmp_path / "key.pub")) == read_key(RELEASER.public.line()) == RELEASER.public


def verify(folder: Path, key: str) -> subprocess.CompletedProcess[str]:
    """Run the command in an empty folder, with a database that nothing could use."""
    home = folder.parent / "home"
    home.mkdir(exist_ok=True)
    broken = {"MCPHUB_DATABASE_URL": "nonsense://", "MCPHUB_MAX_CALLS": "many", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "mcphub.cli", "verify-release", str(folder), "--key", key],
        cwd=home,
        env=os.environ | broken,
        capture_output=True,
        text=True,
    )
    assert list(home.iterdir()) == []
    return done


@pytest.mark.program
def test_the_command_needs_no_hub_and_ends_with_status_one_for_a_fault(tmp_path: Path) -> None:
    folder = released(tmp_path / "release")
    good = verify(folder, RELEASER.public.line())
    assert (good.returncode, good.stderr) == (0, "")
    assert f"2 files: as built from commit {'c' * 40}" in good.stdout
    (folder / WHEEL).write_bytes(b"other")
    (folder / "steer\x1b[2J").write_text("x")
    bad = verify(folder, RELEASER.public.line())
    assert bad.returncode == 1
    assert f"BAD changed: {WHEEL}" in bad.stdout
    assert "BAD extra: steer\\x1b[2J" in bad.stdout
    assert "Do not install it" in bad.stderr


@pytest.mark.program
@pytest.mark.parametrize("key", ["no/such/file", "/dev/null"])
def test_a_key_that_is_none_ends_the_command_with_status_two(tmp_path: Path, key: str) -> None:
    done = verify(released(tmp_path / "release"), key)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"mcphub verify-release: {key}")
    assert done.stderr.count("\n") == 1


@pytest.mark.program
def test_a_folder_that_is_not_there_ends_the_command_with_status_two(tmp_path: Path) -> None:
    done = verify(tmp_path / "nowhere", RELEASER.public.line())
    assert done.returncode == 2
    assert "name the folder of a release" in done.stderr
