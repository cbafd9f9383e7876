"""The pure parts: trees, proofs, notes and canonical bytes, against definitions written down separately."""

from __future__ import annotations

import contextlib
import hashlib
import json
import sqlite3
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from invocations.chain import verifier
from invocations.chain.keys import KeyFolder, KeyProblem, Signer, note, sign_checkpoint
from invocations.chain.log import Log, inclusion_in
from invocations.chain.verifier import (
    Bad,
    Checkpoint,
    Frontier,
    PublicKey,
    canonical,
    check_consistency,
    leaf_hash,
    merkle_root,
    read_checkpoints,
    root_from_inclusion,
    row_bytes,
)


def tree(leaves: list[bytes]) -> bytes:
    """MTH of RFC 9162, 2.1.1, word for word."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return leaves[0]
    k = 1
    while k * 2 < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + tree(leaves[:k]) + tree(leaves[k:])).digest()


def hashes(count: int) -> list[bytes]:
    return [leaf_hash(str(number).encode()) for number in range(count)]


@contextlib.contextmanager
def log_of(count: int) -> Iterator[Log]:
    """A log that has nothing but the nodes of `count` blocks."""
    with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as raw:
        raw.execute("CREATE TABLE invocations_auditblock (number INTEGER PRIMARY KEY, nodes TEXT)")
        growing = Frontier()
        for number, leaf in enumerate(hashes(count)):
            nodes = "".join(node.hex() for node in growing.append(leaf))
            raw.execute("INSERT INTO invocations_auditblock VALUES (?, ?)", (number, nodes))
        yield Log(lambda: raw, True)


def test_the_empty_tree_and_one_leaf_are_those_of_the_rfc() -> None:
    assert merkle_root([]).hex() == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert leaf_hash(b"").hex() == "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d"


@given(st.integers(0, 70))
def test_roots_are_those_of_the_definition(size: int) -> None:
    leaves = hashes(size)
    growing = Frontier()
    for leaf in leaves:
        growing.append(leaf)
    assert merkle_root(leaves) == tree(leaves) == growing.root()
    assert Frontier(size, growing.roots).root() == tree(leaves)


@given(st.integers(1, 70), st.data())
def test_inclusion_proofs_lead_to_the_root(size: int, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, size - 1))
    leaves = hashes(size)
    with log_of(size) as log:
        stored = log.inclusion(index, size)
    for path in (stored, inclusion_in(leaves, index)):
        assert root_from_inclusion(index, size, leaves[index], path) == tree(leaves)
        other = data.draw(st.integers(0, size - 1))
        if other != index:
            with contextlib.suppress(Bad):
                assert root_from_inclusion(other, size, leaves[index], path) != tree(leaves)


@given(st.integers(1, 70), st.data())
def test_consistency_proofs_hold_for_the_continued_log_alone(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(1, size))
    leaves = hashes(size)
    with log_of(size) as log:
        path = log.consistency(old, size)
    check_consistency(old, tree(leaves[:old]), size, tree(leaves), path)
    if old < size:
        rewritten = [leaf_hash(b"x"), *leaves[1:]]
        with pytest.raises(Bad):
            check_consistency(old, tree(rewritten[:old]), size, tree(leaves), path)


@given(
    st.dictionaries(
        st.text(min_size=1), st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(), max_size=6
    )
)
def test_both_encoders_write_the_same_canonical_bytes(value: dict[str, object]) -> None:
    assert canonical(value) == verifier._dumps_slowly(value)
    assert json.loads(canonical(value)) == value


def test_a_body_counts_by_its_digest_and_may_be_gone() -> None:
    row = {"id": 1, "params": '{"a":1}'}
    digest = hashlib.sha256(b'{"a":1}').hexdigest()
    expected = f'{{"id":1,"params":"sha256:{digest}","table":"envelope"}}'.encode()
    assert row_bytes("envelope", row) == expected
    assert row_bytes("envelope", {**row, "params": f'"sha256:{digest}"'}) == expected


def test_checkpoints_are_signed_notes_that_others_can_read(tmp_path) -> None:
    signer = Signer.make("log.example/audit")
    root = leaf_hash(b"")
    text = note(signer.public, 7, root, sign_checkpoint(signer, 7, root))
    body, signature = text.split("\n\n")
    assert body.split("\n") == ["log.example/audit", "7", "bjQLnP+zepicpUTmu3gKLHiQHT+zNzh2hRGjBhevoB0="]
    assert signature.startswith("\u2014 log.example/audit ")
    found = Checkpoint.parse(text)
    assert signer.public.has_signed(found.signature, found.text.encode())
    assert not Signer.make("log.example/audit").public.has_signed(found.signature, found.text.encode())
    assert PublicKey.parse(str(signer.public)) == signer.public
    assert Signer.parse(str(signer)) == signer
    assert [each.size for each in read_checkpoints(f"{text}\n{text}\n")] == [7, 7]
    with pytest.raises(Bad, match="cut off"):
        read_checkpoints(text + "log.example/audit\n8\n")


def test_key_files_are_for_the_owner_alone_and_keep_every_public_key(tmp_path) -> None:
    folder = KeyFolder(tmp_path / "audit")
    with pytest.raises(KeyProblem, match="missing"):
        folder.signer()
    first = folder.signer(may_make=True)
    assert folder.signer() == first
    assert folder.private.stat().st_mode & 0o777 == 0o600
    second = Signer.make(first.public.name)
    folder.keep(second)
    assert folder.signer() == second
    assert folder.publics() == [first.public, second.public]
    folder.private.write_text("nonsense")
    with pytest.raises(KeyProblem, match="damaged"):
        folder.signer()
