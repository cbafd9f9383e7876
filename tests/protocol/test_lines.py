from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sessions_app.protocol.lines import LineReader, TooLong, glimpse_id
from tests.protocol.strategies import INTEGERS, TEXT, VALUES

IDS = TEXT | INTEGERS
LINE = st.binary(max_size=30).map(lambda raw: raw.replace(b"\n", b""))


@st.composite
def cut(draw: st.DrawFn, lines: st.SearchStrategy[list[bytes]]) -> tuple[list[bytes], list[bytes]]:
    """Lines, and the same as a stream cut anywhere."""
    told = draw(lines)
    stream = b"\n".join(told)
    places = sorted(draw(st.lists(st.integers(0, len(stream)))))
    return told, [stream[start:end] for start, end in zip([0, *places], [*places, len(stream)], strict=True)]


def read(chunks: list[bytes], limit: int) -> list[bytes | TooLong]:
    reader = LineReader(limit)
    return [line for chunk in chunks for line in reader.feed(chunk)] + reader.end()


@given(cut(st.lists(LINE)))
def test_lines_come_out_whole_and_in_order_wherever_the_stream_is_cut(told: tuple[list[bytes], list[bytes]]) -> None:
    lines, chunks = told
    assert read(chunks, 100) == [line for line in lines if line.strip(b" \t\r")]


@given(cut(st.lists(LINE)), st.integers(1, 30))
def test_a_line_over_the_bound_is_told_once_and_harms_no_other(
    told: tuple[list[bytes], list[bytes]], limit: int
) -> None:
    lines, chunks = told
    seen = read(chunks, limit)
    wanted = [line for line in lines if len(line) > limit or line.strip(b" \t\r")]
    assert len(seen) == len(wanted)
    for line, whole in zip(seen, wanted, strict=True):
        if isinstance(line, TooLong):
            assert len(whole) > limit
            assert whole.startswith(line.head)
            assert len(line.head) > limit
        else:
            assert line == whole


def test_a_line_without_end_is_not_kept() -> None:
    reader = LineReader(1000)
    told = [line for _ in range(1000) for line in reader.feed(b"x" * 1000)]
    assert told == [TooLong(b"x" * 2000)]
    assert reader.feed(b"\nnext\n") == [b"next"]
    assert reader.end() == []


@given(IDS, VALUES)
def test_the_id_of_a_request_is_seen_wherever_it_stands(id: str | int, params: object) -> None:
    members = {"jsonrpc": "2.0", "id": id, "method": "m", "params": params}
    for names in (("jsonrpc", "id", "method", "params"), ("method", "params", "jsonrpc", "id")):
        text = json.dumps({name: members[name] for name in names}).encode()
        assert glimpse_id(text) == id


@pytest.mark.parametrize(
    "text",
    [
        '{"id":7,"method":"tools/call","params":{"a":NaN}}',
        '{"method":"tools/call","params":{"a":NaN, "b": Infinity},"id":7}',
        '{"method":"tools/call","params":{"a":1,"a":2},"id":7}',
        '{"method":"tools/call","params":{"a":"\\ud800"},"id":7}',
        '{"method":"tools/call","params":%s,"id":7}' % ("[" * 100 + "]" * 100),
        '{"method":"tools/call","params":123456789012345678901234567890,"id":7}',
        '{"id":7,"method":"tools/call","params":{"a',
        '{"id":7,"method":"tools/call" "params"',
        ' { "id" : 7 , "method" : "tools/call" , nonsense',
    ],
)
def test_the_id_is_seen_in_what_the_strict_decoder_refuses(text: str) -> None:
    assert glimpse_id(text.encode()) == 7


@pytest.mark.parametrize(
    "text",
    [
        "",
        "7",
        "[]",
        "{}",
        "nonsense",
        '{"id":7}',
        '{"id":7,"result":{"a":NaN}}',
        '[{"id":7,"method":"m"}]',
        '{"id":null,"method":"m"}',
        '{"id":true,"method":"m"}',
        '{"id":1.5,"method":"m"}',
        '{"id":[7],"method":"m"}',
        '{"id":18446744073709551616,"method":"m"}',
        '{"id":"\\ud800","method":"m"}',
        '{7:7,"id":7,"method":"m"}',
        '{"params":%s,"id":7,"method":"m"}' % ("[" * 60_000),
        '{"params":{"a"',
        '{"a":%s,"id":7,"method":"m"}' % ("9" * 5000),
    ],
)
def test_no_id_is_guessed(text: str) -> None:
    assert glimpse_id(text.encode()) is None


def test_an_id_that_is_not_utf_8_is_none() -> None:
    assert glimpse_id(b'{"id":"\xff","method":"m"}') is None
    assert glimpse_id(b'{"id":7,"method":"m","params":{"a":"\xff"}}') == 7


@given(st.binary(max_size=200))
def test_no_bytes_break_the_glimpse(raw: bytes) -> None:
    glimpse_id(raw)
    glimpse_id(b'{"id":7,"method":"m",' + raw)
