"""An archive of objects proves and finds what one of files does, is written once, and outlives a kill."""

from __future__ import annotations

import fcntl
import json
import signal
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from invocations.chain.verifier import Bad
from mcphub.features.archive import doctor
from mcphub.features.archive.command import record_month
from mcphub.features.archive.places import IsBusy
from mcphub.features.archive.searching import Bounds, read_line, search
from mcphub.features.archive.verifying import verify, verify_alone
from tests import forking
from tests.features.archive.recording import hub_of_blocks
from tests.features.archive.tampering import rewrite
from tests.in_process import environment, run
from tests.object_store import KEYS, client, object_store
from tests.waiting import PATIENCE_SECONDS

ALLOWED = "127.0.0.1"


@pytest.fixture(scope="module")
def store() -> Iterator[str]:
    with object_store() as url:
        yield url


class Bucket:
    """A bucket of moto, as somebody with its keys uses it."""

    def __init__(self, url: str) -> None:
        self.name = f"b{uuid.uuid4().hex}"
        self.s3 = client(url)
        self.s3.create_bucket(Bucket=self.name)
        self.place = f"s3://{self.name}/hub/one"

    def listed(self) -> list[str]:
        found = self.s3.list_objects_v2(Bucket=self.name).get("Contents", [])
        return [each["Key"].removeprefix("hub/one/") for each in found]

    def read(self, key: str) -> bytes:
        body: bytes = self.s3.get_object(Bucket=self.name, Key=f"hub/one/{key}")["Body"].read()
        return body

    def write(self, key: str, body: bytes) -> None:
        self.s3.put_object(Bucket=self.name, Key=f"hub/one/{key}", Body=body)

    def remove(self, key: str) -> None:
        self.s3.delete_object(Bucket=self.name, Key=f"hub/one/{key}")

    def part(self, month: str, number: int = 0) -> str:
        return [key for key in self.listed() if key.startswith(month) and key.endswith(".parquet")][number]


@pytest.fixture
def bucket(store: str, settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Bucket:
    settings.MCPHUB_DATA_DIR = tmp_path / "data"
    settings.MCPHUB_EGRESS_ALLOW = [ALLOWED]
    for name, value in {**KEYS, "AWS_ENDPOINT_URL_S3": store}.items():
        monkeypatch.setenv(name, value)
    return Bucket(store)


@pytest.fixture
def archive(bucket: Bucket, archiver: Any, months: Any) -> Bucket:
    """September and October as objects, recorded in the log."""
    for manifest in archiver(bucket.place, most_rows=7).run():
        record_month(months, manifest)
    return bucket


def refused(archive: Bucket, log: Any, keys: Any) -> str:
    with pytest.raises(Bad) as bad:
        verify(archive.place, log, keys.publics(), ())
    return str(bad.value)


def found(archive: Bucket, keys: Any, line: str = "") -> list[str]:
    page = search(archive.place, keys.publics(), read_line(line), most=50, bounds=Bounds.of_settings())
    return [each.call.tool_name for each in page.calls]


def cached(settings: Any) -> list[Path]:
    return sorted((settings.MCPHUB_DATA_DIR / "archive" / "cache").iterdir())


def test_months_are_objects_that_are_verified_and_searched(archive: Bucket, months, keys, archiver, settings) -> None:
    before = archive.listed()
    assert {key.partition("/")[2] for key in before if key.startswith("2026-10")} == {
        *(key.partition("/")[2] for key in before if "2026-10/part-" in key),
        "manifest.json",
        "manifest.sig",
        "tombstones.jsonl",
    }
    assert list(archiver(archive.place).run()) == []
    summary = verify(archive.place, months, keys.publics(), ())
    assert (summary.blocks, summary.rows) == (4, 28)
    assert verify_alone(archive.place, keys.publics()).rows == 28
    assert found(archive, keys, "tool:tool3") == ["tool3"] * 3
    assert len(cached(settings)) == len([key for key in before if key.endswith(".parquet")])
    assert not list((settings.MCPHUB_DATA_DIR / "archive" / "outbox").glob("*/2026-*"))


def _swap(archive: Bucket) -> None:
    one, other = archive.part("2026-09"), archive.part("2026-10")
    bodies = archive.read(one), archive.read(other)
    archive.write(one, bodies[1])
    archive.write(other, bodies[0])


def _swap_months(archive: Bucket) -> None:
    for name in ("manifest.json", "manifest.sig"):
        bodies = archive.read(f"2026-09/{name}"), archive.read(f"2026-10/{name}")
        archive.write(f"2026-09/{name}", bodies[1])
        archive.write(f"2026-10/{name}", bodies[0])


def _edit(archive: Bucket, folder: Path) -> None:
    key, path = archive.part("2026-09"), folder / "part.parquet"
    path.write_bytes(archive.read(key))
    rewrite(path, "SELECT * REPLACE ('other' AS tool_name)")
    archive.write(key, path.read_bytes())


_TAMPERED: list[tuple[Callable[[Bucket], object], str]] = [
    (lambda archive: archive.remove(archive.part("2026-10")), "The file 2026-10/part-.* is missing"),
    (_swap, "2026-(09|10)/part-"),
    (_swap_months, "The folder 2026-09 holds the month 2026-10: it was swapped"),
    (lambda archive: archive.write("2026-09/manifest.json", b"{}"), "The manifest of 2026-09 was changed"),
    (lambda archive: archive.remove("2026-10/manifest.sig"), "2026-10/manifest.sig is missing"),
    (lambda archive: archive.remove("2026-09/manifest.json"), "A month before 2026-10 is missing"),
    (lambda archive: archive.write(archive.part("2026-09"), b"x" * 2_000_000), "it has 2000000 bytes"),
]


@pytest.mark.parametrize(("tamper", "named"), _TAMPERED)
def test_a_changed_missing_or_swapped_object_is_named(
    archive: Bucket, months, keys, tamper: Callable[[Bucket], object], named: str
) -> None:
    tamper(archive)
    with pytest.raises(Bad, match=named):
        verify_alone(archive.place, keys.publics())
    with pytest.raises(Bad, match=named):
        found(archive, keys)


def test_a_tampered_row_and_a_missing_last_month_are_named(archive: Bucket, months, keys, tmp_path: Path) -> None:
    kept = archive.read(archive.part("2026-09"))
    _edit(archive, tmp_path)
    assert "was changed after it was sealed" in refused(archive, months, keys)
    archive.write(archive.part("2026-09"), kept)
    archive.remove("2026-10/manifest.json")
    assert "The month 2026-10 is missing" in refused(archive, months, keys)


def test_a_search_reads_what_is_kept_and_verification_does_not(archive: Bucket, months, keys, settings) -> None:
    assert len(found(archive, keys)) == 12
    (first, *_rest) = cached(settings)
    first.write_bytes(b"of somebody else")
    assert len(found(archive, keys)) == 12
    archive.remove(archive.part("2026-09"))
    assert len(found(archive, keys)) == 12
    assert "is missing" in refused(archive, months, keys)


def test_what_is_kept_is_bounded_and_nobody_loses_what_he_reads(archive: Bucket, keys, settings) -> None:
    settings.MCPHUB_ARCHIVE_SEARCH_MIB = 1
    folder = settings.MCPHUB_DATA_DIR / "archive" / "cache"
    folder.mkdir(parents=True, exist_ok=True)
    old, read = folder / "old", folder / "read"
    for path in (old, read):
        path.write_bytes(b"x" * 2_000_000)
    with read.open("rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        assert len(found(archive, keys)) == 12
        assert (old.exists(), read.exists()) == (False, True)


def test_nothing_that_is_there_is_overwritten(bucket: Bucket, archiver) -> None:
    bucket.write("2026-09/manifest.sig", b"of another run")
    with pytest.raises(IsBusy, match=r"manifest.sig is there with other content.*the objects of 2026-09"):
        list(archiver(bucket.place).run())
    assert bucket.read("2026-09/manifest.sig") == b"of another run"
    assert "2026-09/manifest.json" not in bucket.listed()
    bucket.remove("2026-09/manifest.sig")
    assert [each.month for each in archiver(bucket.place).run()] == ["2026-09", "2026-10"]


def test_the_doctor_names_an_archive_without_access_and_one_that_keeps_no_versions(
    bucket: Bucket, settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.MCPHUB_ARCHIVE_DIR = "/a/folder"
    assert not list(doctor.check())
    settings.MCPHUB_ARCHIVE_DIR = bucket.place
    assert [(each.level, "no versions" in each.what) for each in doctor.check()] == [("hint", True)]
    bucket.s3.put_bucket_versioning(Bucket=bucket.name, VersioningConfiguration={"Status": "Enabled"})
    assert not list(doctor.check())
    settings.MCPHUB_ARCHIVE_DIR = "s3://nobodys-bucket/x"
    assert ["NoSuchBucket" in each.what for each in doctor.check()] == [True]
    settings.MCPHUB_EGRESS_ALLOW = []
    assert ["127.0.0.1" in each.what for each in doctor.check()] == [True]
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert ["AWS_SECRET_ACCESS_KEY" in each.what.upper() for each in doctor.check()] == [True]
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    assert ["no credentials file" in each.what for each in doctor.check()] == [True]


@pytest.mark.parametrize("place", ["s3://", "s3:///x", "S3://bucket/x", "gs://bucket/x", "s3://bucket/a?b"])
def test_a_place_that_is_neither_a_folder_nor_a_bucket_is_named(place: str, settings) -> None:
    settings.MCPHUB_ARCHIVE_DIR = place
    assert ["neither a folder nor s3://bucket/prefix" in each.what for each in doctor.check()] == [True]


@pytest.mark.parametrize("endpoint", ["store", "https://", "http://[", "https://store.example.org:99999"])
def test_an_endpoint_that_is_no_address_is_named(endpoint: str, settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "id")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_ENDPOINT_URL_S3", endpoint)
    settings.MCPHUB_ARCHIVE_DIR = "s3://bucket/x"
    found = list(doctor.check())
    assert ["AWS_ENDPOINT_URL_S3: " in each.what and ".." not in each.what for each in found] == [True]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hub")
    hub_of_blocks(folder)
    return folder


@pytest.mark.program
@pytest.mark.parametrize("objects", [1, 3, 5, 6])
def test_a_run_killed_while_it_sends_is_continued(home: Path, store: str, objects: int) -> None:
    """Of 3 files, tombstones, signature and manifest, the run is killed after as many."""
    bucket = Bucket(store)
    more = {**KEYS, "AWS_ENDPOINT_URL_S3": store, "MCPHUB_EGRESS_ALLOW": ALLOWED}
    killed = forking.run(
        "tests.features.archive.killed",
        bucket.place,
        str(objects),
        env=environment(home, **more),
        timeout=PATIENCE_SECONDS,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    sent = {key: bucket.s3.head_object(Bucket=bucket.name, Key=f"hub/one/{key}")["ETag"] for key in bucket.listed()}
    assert len(sent) == objects
    searched = run(home, "audit", "search", "tool:echo", "--archive", bucket.place, **more)
    is_month = objects == 6
    assert (searched.returncode, "There is no archived month" in searched.stderr) == (
        (0, False) if is_month else (2, True)
    )

    done = run(home, "audit", "archive", "--to", bucket.place, **more)
    assert done.returncode == 0, done.stderr
    for key, etag in sent.items():
        assert bucket.s3.head_object(Bucket=bucket.name, Key=f"hub/one/{key}")["ETag"] == etag
    figures = json.loads(run(home, "audit", "verify", "--archive", bucket.place, "--json", **more).stdout)
    assert figures["archive"]["blocks"] == 4
    alone = run(home, "audit", "archive", "--check", bucket.place, **more)
    assert (alone.returncode, " rows in 4 blocks" in alone.stdout) == (0, True), alone.stderr
