"""Files go to an object store in pieces, whole or not at all, and its lists are read to their end."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.object_store import client, object_store
from tools_catalog.egress.object_store import PIECE_BYTES, Credential, ObjectStore
from tools_catalog.egress.rules import EgressPolicy
from tools_catalog.egress.sending import HttpSender, NotDelivered, TargetAnswer

_POLICY = EgressPolicy(allow=("127.0.0.1",))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with object_store() as url:
        yield url


@pytest.fixture
def bucket(url: str) -> str:
    name = f"b{os.urandom(8).hex()}"
    client(url).create_bucket(Bucket=name)
    return name


class FailingSender(HttpSender):
    """Sends one piece, and finds the store gone at the next."""

    def send(self, method: str, url: str, *more: Any, **options: Any) -> TargetAnswer:
        if "partNumber=2" in url:
            raise NotDelivered("it is gone")
        return super().send(method, url, *more, **options)


def store_of(sender: HttpSender, url: str, bucket: str) -> ObjectStore:
    return ObjectStore(sender, f"{url}/{bucket}/a prefix", Credential("id", "secret", "token"), "")


def test_a_long_file_goes_in_pieces_and_comes_back(url: str, bucket: str, tmp_path: Path) -> None:
    path, sent = tmp_path / "long", []
    path.write_bytes(os.urandom(2 * PIECE_BYTES + 1000))
    with HttpSender(_POLICY, "") as sender:
        store = store_of(sender, url, bucket)
        store.put_file("long", "x/y", path, sent.append)
        assert sent == [PIECE_BYTES, PIECE_BYTES, 1000]
        assert store.objects()["long"].size == 2 * PIECE_BYTES + 1000
        pieces = [store.piece("long", begin, PIECE_BYTES) for begin in range(0, 2 * PIECE_BYTES + 1, PIECE_BYTES)]
        assert b"".join(pieces) == path.read_bytes()
        for size in (10, PIECE_BYTES + 10):
            path.write_bytes(b"x" * size)
            with pytest.raises(NotDelivered) as refused:
                store.put_file("long", "x/y", path, sent.append)
            assert refused.value.status == 412, "what is there is not overwritten"


def test_of_a_file_that_did_not_arrive_whole_nothing_stays(url: str, bucket: str, tmp_path: Path) -> None:
    path = tmp_path / "long"
    path.write_bytes(b"x" * 3 * PIECE_BYTES)
    with FailingSender(_POLICY, "") as sender:
        store = store_of(sender, url, bucket)
        with pytest.raises(NotDelivered, match="it is gone"):
            store.put_file("long", "x/y", path, lambda size: None)
        assert store.objects() == {}
    assert "Uploads" not in client(url).list_multipart_uploads(Bucket=bucket)


def test_a_list_is_read_to_its_end(url: str, bucket: str) -> None:
    s3 = client(url)
    for number in range(1001):
        s3.put_object(Bucket=bucket, Key=f"a prefix/ö&{number:04d}", Body=b"")
    s3.put_object(Bucket=bucket, Key="a prefix of others/x", Body=b"")
    with HttpSender(_POLICY, "") as sender:
        store = store_of(sender, url, bucket)
        assert sorted(store.objects()) == [f"ö&{number:04d}" for number in range(1001)]
        assert not store.keeps_versions()
        with pytest.raises(NotDelivered, match=r"^status 404, NoSuchKey: The specified key does not exist$") as missing:
            store.piece("none", 0, 10)
        assert missing.value.status == 404


class RepeatingSender(HttpSender):
    """Returns one page of a list again and again."""

    page = b""

    def send(self, method: str, url: str, *more: Any, **options: Any) -> TargetAnswer:
        return TargetAnswer(200, self.page, {})


@pytest.mark.parametrize(
    ("size", "token", "words"),
    [("1", "<NextContinuationToken>a</NextContinuationToken>", "does not end"), ("1", "", "does not end")]
    + [(size, "", "not that of an S3 store") for size in ("", "many")],
)
def test_a_list_without_an_end_or_sizes_is_refused(size: str, token: str, words: str) -> None:
    listed = f"<Contents><Key>x</Key><Size>{size}</Size></Contents><IsTruncated>true</IsTruncated>{token}"
    with RepeatingSender(_POLICY, "") as sender:
        sender.page = f"<ListBucketResult>{listed}</ListBucketResult>".encode()
        with pytest.raises(NotDelivered, match=words):
            store_of(sender, "https://127.0.0.1", "b").objects()
