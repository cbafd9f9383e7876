"""A release is packed to the same bytes everywhere, and signed with a key that stays outside the repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from deploy.release import hashes, keys, packing
from mcphub.features.provenance.minisign import ReleaseKey

pytestmark = pytest.mark.program
CHART = hashes.HOME / "deploy" / "chart"
by_minisign = pytest.mark.skipif(shutil.which("minisign") is None, reason="minisign is not installed")


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", *map(str, words)]
    return subprocess.run(command, cwd=hashes.HOME, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def test_the_chart_is_the_same_bytes_from_another_folder_with_other_times_and_modes(tmp_path: Path) -> None:
    other = tmp_path / "deep" / "copy"
    shutil.copytree(CHART, other)
    for number, path in enumerate(other.rglob("*")):
        os.utime(path, (number, number))
        path.chmod(0o700)
    one, two = packing.chart(CHART, tmp_path, 1_700_000_000), packing.chart(other, tmp_path / "deep", 1_700_000_000)
    assert one.read_bytes() == two.read_bytes()
    with tarfile.open(one) as tar:
        members = tar.getmembers()
    assert {(each.uid, each.gid, each.mode, each.mtime) for each in members} == {(0, 0, 0o644, 1_700_000_000)}
    assert "mcphub/Chart.yaml" in [each.name for each in members]


def test_a_checkout_has_the_files_of_the_commit_with_two_modes(tmp_path: Path) -> None:
    source = packing.checkout("HEAD", tmp_path / "source")
    words = ["git", "ls-tree", "-r", "--name-only", "HEAD", "deploy"]
    listed = subprocess.run(words, cwd=hashes.HOME, check=True, capture_output=True, text=True).stdout.split()
    modes = {path.stat().st_mode & 0o777 for path in source.rglob("*") if path.is_file() and not path.is_symlink()}
    assert modes <= {0o644, 0o755}
    there = [path.relative_to(source).as_posix() for path in (source / "deploy").rglob("*") if path.is_file()]
    assert sorted(there) == sorted(listed)


def test_what_builds_is_pinned_with_digests() -> None:
    text = packing.TOOLS.read_text()
    assert list(hashes.read(text).values()) != []
    assert all(hashes.read(text).values())


@pytest.mark.rig
@by_minisign
def test_a_key_with_a_passphrase_is_read_with_it_alone_here_and_by_minisign(tmp_path: Path) -> None:
    word, key, file = tmp_path / "word", tmp_path / "key", tmp_path / "file"
    word.write_text("correct horse\n")
    file.write_bytes(b"a release")
    made = run("deploy.release.keys", key, "--passphrase-file", word)
    assert made.returncode == 0, made.stderr
    assert keys.read(key, word).public == ReleaseKey.parse((tmp_path / "key.pub").read_text())
    assert key.stat().st_mode & 0o777 == 0o600
    sign = ["minisign", "-S", "-s", str(key), "-m", str(file)]
    subprocess.run(sign, input="correct horse\n", text=True, check=True, capture_output=True)
    verify = ["minisign", "-V", "-p", str(tmp_path / "key.pub"), "-m", str(file)]
    assert subprocess.run(verify, capture_output=True).returncode == 0
    word.write_text("wrong horse\n")
    with pytest.raises(keys.Unusable, match="passphrase is not that of"):
        keys.read(key, word)


def test_a_key_is_made_and_read_outside_the_repository_only(tmp_path: Path) -> None:
    inside = hashes.HOME / "dist" / "release.key"
    made = run("deploy.release.keys", inside, "--no-passphrase")
    assert made.returncode == 2
    assert "in the repository" in made.stderr
    assert not inside.exists()
    assert "in the repository" in run("deploy.release.release", "--key", inside).stderr


def test_a_key_that_is_there_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("mine")
    again = run("deploy.release.keys", tmp_path / "key", "--no-passphrase")
    assert again.returncode == 2
    assert "left as it is" in again.stderr
    assert (tmp_path / "key").read_text() == "mine"


def test_a_key_that_others_can_read_or_that_is_none_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text(keys.text_of(keys.make(), ""))
    path.chmod(0o644)
    with pytest.raises(keys.Unusable, match="chmod 600"):
        keys.read(path)
    path.chmod(0o600)
    path.write_text("untrusted comment: x\nbm9uZQ==\n")
    with pytest.raises(keys.Unusable, match=r"python -m deploy\.release\.keys"):
        keys.read(path)


def test_a_release_without_a_key_names_the_command_that_makes_one() -> None:
    done = run("deploy.release.release")
    assert done.returncode == 2
    assert keys.MAKE_ONE in done.stderr


def test_a_release_is_made_of_a_clone_only(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(hashes.HOME / "deploy", copy / "deploy")
    (tmp_path / "key").write_text(keys.text_of(keys.make(), ""))
    (tmp_path / "key").chmod(0o600)
    command = [sys.executable, "-m", "deploy.release.release", "--key", str(tmp_path / "key")]
    around = {"GIT_CEILING_DIRECTORIES": str(tmp_path), "PYTHONPATH": str(hashes.HOME)}
    done = subprocess.run(command, cwd=copy, env=os.environ | around, capture_output=True, text=True)
    assert done.returncode == 2
    assert "must be a clone" in done.stderr


def test_the_repository_holds_no_secret_key() -> None:
    found = subprocess.run(
        ["git", "grep", "-lE", "^untrusted comment: minisign (encrypted )?secret key"],
        cwd=hashes.HOME,
        capture_output=True,
        text=True,
    )
    assert (found.stdout, found.returncode) == ("", 1)


@by_minisign
def test_minisign_accepts_the_signature_and_uses_the_key(tmp_path: Path) -> None:
    signer = keys.make()
    key, public, file = tmp_path / "key", tmp_path / "key.pub", tmp_path / "file"
    key.write_text(keys.text_of(signer, ""))
    public.write_text(signer.public.text())
    file.write_bytes(b"a release")
    (tmp_path / "file.minisig").write_text(signer.file(file, 1_700_000_000).text())
    verify = ["minisign", "-V", "-H", "-p", str(public), "-m", str(file)]
    assert subprocess.run(verify, capture_output=True).returncode == 0
    file.write_bytes(b"another")
    assert subprocess.run(verify, capture_output=True).returncode != 0
    subprocess.run(["minisign", "-S", "-W", "-s", str(key), "-m", str(file)], check=True, capture_output=True)
    assert subprocess.run(verify, capture_output=True).returncode == 0
