"""The file of a backup: what went in comes out, and every change of it is found."""

from __future__ import annotations

import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcphub.features.backup import sealed

PASSPHRASE = "correct horse battery"
HEADER = {"version": "1"}


def written(parts: list[bytes]) -> bytes:
    file = io.BytesIO()
    writer = sealed.Writer(file, PASSPHRASE, HEADER)
    for part in parts:
        writer.write(part)
    writer.finish()
    return file.getvalue()


def read(content: bytes, passphrase: str = PASSPHRASE) -> bytes:
    reader = sealed.SealedReader(io.BytesIO(content), passphrase)
    return b"".join(iter(lambda: reader.read(10_000), b""))


LONG = bytes(range(256)) * 9000
"""More than two chunks."""
WHOLE = written([LONG])


@settings(max_examples=10, deadline=None)
@given(st.lists(st.binary(max_size=3000), max_size=5))
def test_what_went_in_comes_out(parts: list[bytes]) -> None:
    assert read(written(parts)) == b"".join(parts)


def test_a_long_content_comes_out_whole_and_its_header_is_read_without_passphrase() -> None:
    assert read(WHOLE) == LONG
    assert sealed.read_header(io.BytesIO(WHOLE))[0]["version"] == "1"
    assert len(LONG) > sealed.CHUNK_BYTES * 2


@settings(max_examples=15, deadline=None)
@given(st.integers(0, len(WHOLE) - 1), st.integers(1, 255))
def test_a_changed_byte_is_found(position: int, change: int) -> None:
    changed = WHOLE[:position] + bytes([WHOLE[position] ^ change]) + WHOLE[position + 1 :]
    with pytest.raises(sealed.Unreadable):
        read(changed)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, len(WHOLE) - 1))
def test_a_cut_file_is_found(length: int) -> None:
    with pytest.raises(sealed.Unreadable):
        read(WHOLE[:length])


def test_chunks_that_change_places_or_are_left_out_are_found() -> None:
    start = WHOLE.index(b"\n", len(sealed.MAGIC)) + 1
    size = 4 + sealed.CHUNK_BYTES + 16
    head, first, second, rest = (
        WHOLE[:start],
        WHOLE[start:][:size],
        WHOLE[start + size :][:size],
        WHOLE[start + 2 * size :],
    )
    assert read(head + first + second + rest) == LONG
    for spoilt in (head + second + first + rest, head + first + rest, head + first + second):
        with pytest.raises(sealed.Unreadable):
            read(spoilt)


def test_another_passphrase_is_told_from_damage() -> None:
    with pytest.raises(sealed.WrongPassphrase):
        read(WHOLE, PASSPHRASE + " ")


def test_a_file_may_not_ask_for_all_memory() -> None:
    greedy = WHOLE.replace(b'"n":65536', b'"n":67108864')
    with pytest.raises(sealed.Unreadable, match="first lines"):
        read(greedy)
