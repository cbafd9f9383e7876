"""The strict decoder and the encoder."""

import contextlib
import hashlib
import json as stdlib
import math
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from sessions_app.kit.secret_forms import FORMS
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

from .strategies import INTEGERS, TEXT, VALUES


class Rejected(Exception):
    pass


def reference(raw: bytes) -> object:
    """The same rules in the slowest and plainest way."""

    def unique(pairs):
        if len({name for name, _ in pairs}) != len(pairs):
            raise Rejected
        return dict(pairs)

    def integer(digits):
        value = int(digits)
        if not -(2**63) <= value < 2**64:
            raise Rejected
        return value

    def finite(digits):
        value = float(digits)
        if not math.isfinite(value):
            raise Rejected
        return value

    def constant(word):
        raise Rejected

    text = raw.decode()
    if text.startswith("\ufeff"):
        raise Rejected
    value = stdlib.loads(text, object_pairs_hook=unique, parse_int=integer, parse_float=finite, parse_constant=constant)
    stdlib.dumps(value, ensure_ascii=False).encode()
    return value


@st.composite
def texts(draw, depth=3):
    """JSON texts with the dangers inside: repeated names, escapes, long numbers, blanks."""
    kind = draw(st.sampled_from(["object", "array", "string", "number", "word"] if depth else ["string", "number"]))
    blank = draw(st.sampled_from(["", " ", "\n"]))
    if kind == "object":
        names = st.sampled_from(['"a"', '"\\u0061"', '"b:"', '"\\u003a"', '":"', '"{"', '""'])
        members = draw(st.lists(st.tuples(names, texts(depth - 1)), max_size=4))
        return "{" + ",".join(f"{blank}{name}:{blank}{member}" for name, member in members) + "}"
    if kind == "array":
        return "[" + ",".join(draw(st.lists(texts(depth - 1), max_size=4))) + blank + "]"
    if kind == "string":
        parts = st.sampled_from(
            ["x", ":", "\\u003A", "\\\\", '\\"', "{", "1" * 25, "\\\\u003a", "\\ud800", "\\ud83d\\ude00"]
        )
        return '"' + "".join(draw(st.lists(parts, max_size=4))) + '"'
    if kind == "number":
        return draw(
            st.sampled_from(["1" * 18, "9" * 19, "9" * 20, "1" + "0" * 19, "1e19", "1" * 25 + ".0"]) | INTEGERS.map(str)
        )
    return draw(st.sampled_from(["null", "true", "NaN", "Infinity", "-Infinity", "1e400", "01", "-0", "-"]))


@given(texts())
@example('{"a":":","a":1}')
@example('{"\\u003a":1,"b":1,"b":2}')
@example("18446744073709551616")
@example("-9223372036854775809")
def test_fast_and_exact_reading_agree(text):
    raw = text.encode()
    try:
        expected = reference(raw)
    except (Rejected, ValueError):
        with pytest.raises(ParseError):
            json.loads(raw)
    else:
        found = json.loads(raw)
        assert found == expected
        assert repr(found) == repr(expected)


@given(VALUES)
def test_what_is_encoded_is_read_back(value):
    assert repr(json.loads(json.dumps(value))) == repr(value)


@given(st.binary() | TEXT.map(str.encode))
def test_any_bytes_are_a_value_or_a_parse_error(raw):
    with contextlib.suppress(ParseError):
        json.loads(raw)


HOSTILE = {
    "byte order mark": b"\xef\xbb\xbf{}",
    "utf-16 little": '{"a":1}'.encode("utf-16"),
    "utf-16 without mark": '{"a":1}'.encode("utf-16-le"),
    "utf-32": '{"a":1}'.encode("utf-32-le"),
    "latin-1": '"é"'.encode("latin-1"),
    "overlong": b'"\xc0\xaf"',
    "raw surrogate": b'"\xed\xa0\x80"',
    "escaped high surrogate": b'"\\ud800"',
    "escaped low surrogate": b'"\\udc00"',
    "surrogate as a name": b'{"\\ud800":1}',
    "duplicate names": b'{"method":"ping","method":"tools/call"}',
    "duplicate names, one escaped": b'{"method":1,"\\u006dethod":2}',
    "duplicate names balanced by an escaped colon": b'{"a":"\\u003a","b":1,"b":2}',
    "deep duplicates": b'{"a":[{"b":{"c":1,"c":1}}]}',
    "NaN": b'{"a":NaN}',
    "Infinity": b"[Infinity]",
    "negative Infinity": b"-Infinity",
    "overflowing float": b"1e400",
    "overflowing negative float": b"-1e400",
    "2^64": b"18446744073709551616",
    "below -2^63": b"-9223372036854775809",
    "integer of 5000 digits": b"9" * 5000,
    "integer of 4000 digits": b"1" * 4000,
    "integer of 200 digits": b"[" + b"1" * 200 + b"]",
    "100000 arrays": b"[" * 100_000,
    "100000 balanced arrays": b"[" * 100_000 + b"]" * 100_000,
    "65 arrays": b"[" * 65 + b"]" * 65,
    "65 objects": b'{"a":' * 65 + b"1" + b"}" * 65,
    "empty": b"",
    "blank": b"  ",
    "two documents": b"{}{}",
    "trailing comma": b"[1,]",
    "comment": b"{/**/}",
    "single quotes": b"{'a':1}",
    "NUL": b"\0",
    "raw control character": b'"\x01"',
    "leading zero": b"01",
    "unfinished": b'{"a":',
}


@pytest.mark.parametrize("raw", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_a_parse_error(raw):
    with pytest.raises(ParseError) as caught:
        json.loads(raw)
    assert len(caught.value.message) < 300
    assert caught.value.jsonrpc_code == -32700


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"18446744073709551615", 2**64 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"1e19", 1e19),
        (b'"9999999999999999999999999"', "9" * 25),
        (b'{"a":{"b":1},"c":{"b":1}}', {"a": {"b": 1}, "c": {"b": 1}}),
        (b'{":":":"}', {":": ":"}),
        (b'{"\\u003a":1}', {":": 1}),
        (b'"\\ud83d\\ude00"', "😀"),
        (b'"\\u0000"', "\0"),
        (b"[" * 64 + b"]" * 64, None),
        (b'"' + b"[" * 100 + b'"', "[" * 100),
        (b'["' + b"[" * 100 + b'"]', ["[" * 100]),
    ],
)
def test_unusual_but_valid_text_is_read(raw, value):
    found = json.loads(raw)
    assert value is None or found == value


def test_depth_limit_is_the_callers():
    assert json.loads(b"[" * 300 + b"]" * 300, max_depth=300)
    with pytest.raises(ParseError):
        json.loads(b"[[]]", max_depth=1)


def test_parse_error_names_the_repeated_name():
    with pytest.raises(ParseError, match="'method' occurs twice"):
        json.loads(b'{"method":1,"method":2}')
    with pytest.raises(ParseError, match="…"):
        json.loads(b'{"%b":1,"%b":2}' % (b"x" * 100, b"x" * 100))


def test_examining_refuses_what_only_the_slow_decoder_would_take():
    for raw in (b"NaN", b"[" * 20_000 + b"]" * 20_000):
        with pytest.raises(ParseError):
            json._examine(raw, int)


@pytest.mark.parametrize("value", ["\ud800", {"\udc00": 1}, 2**64, -(2**63) - 1, 2**70, [1, ["\ud800"]]])
def test_values_beyond_the_wire_are_escaped(value):
    assert stdlib.loads(json.dumps(value)) == value
    json.dumps(value).decode("ascii")


LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    "value",
    [
        math.nan,
        math.inf,
        -math.inf,
        [math.nan],
        {"a": -math.inf},
        {1: 2},
        {"a": "\ud800", 1: 2},
        ["\ud800", {1: 2}],
        ["\ud800", math.inf],
        pytest.param(object(), id="an object of Python"),
        b"x",
        {1, 2},
        LOOP,
    ],
    ids=repr,
)
def test_what_is_not_json_is_not_written(value):
    with pytest.raises(ValueError):
        json.dumps(value)
    with pytest.raises(ValueError):
        json.canonical(value)


def test_nesting_beyond_any_encoder_is_a_value_error():
    value: list = []
    for _ in range(20_000):
        value = [value]
    with pytest.raises(ValueError):
        json.dumps(value)


def test_null_is_written():
    assert json.dumps({"a": None, "b": [1.5, (None,)]}) == b'{"a":null,"b":[1.5,[null]]}'
    assert json.canonical({"b": None, "a": 1}) == '{"a":1,"b":null}'


@given(VALUES)
def test_canonical_text_is_the_same_for_equal_values_and_reads_back(value):
    text = json.canonical(value)
    assert json.loads(text.encode()) == value
    if isinstance(value, dict):
        assert json.canonical(dict(reversed(value.items()))) == text


STORED = ["\0", "\ud800", {"\udc00": 1}, 2**64 - 1, 2**64, -(2**63) - 1, {"a": [1.5, 10**30, "é"]}, ["\ud83d", 2**80]]


@pytest.mark.parametrize(
    "write", [lambda value: json.dumps(value).decode(), json.canonical], ids=["dumps", "canonical"]
)
@pytest.mark.parametrize("value", [*STORED, "1" * 40, "\u003a", None], ids=repr)
def test_what_was_stored_is_read_back_and_integers_stay_integers(write, value):
    found = json.loads_stored(write(value))
    assert found == value
    assert type(found) is type(value)


@given(VALUES)
def test_stored_text_is_read_as_the_wire_reads_it(value):
    text = json.canonical(value)
    assert json.loads_stored(text) == json.loads(text.encode()) == value


def test_stored_text_may_be_nested_as_deeply_as_it_was_written():
    value: list = []
    for _ in range(600):
        value = [value]
    assert json.loads_stored(json.canonical(value)) == value


@pytest.mark.parametrize("value", ["\0", "\ud800", {"\0": "\udfff\0é"}, ["\ud83d", 2**80]])
def test_canonical_text_fits_a_database_column(value):
    text = json.canonical(value)
    assert "\0" not in text
    text.encode()
    assert stdlib.loads(text) == value


def test_digest_is_sha256_of_the_utf8_bytes():
    assert json.digest("é") == json.digest("é".encode())
    assert json.digest(b"") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
    assert len(json.digest("\ud800")) == 64


def peak_of(work, *given):
    """The most memory that some work takes, in bytes."""
    tracemalloc.start()
    try:
        work(*given)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("letter", ["a", "é", "\ud800", "😀"])
@pytest.mark.parametrize("count", [0, 1, 1024 * 1024, 1024 * 1024 + 1, 3 * 1024 * 1024])
def test_digest_and_size_of_a_text_are_those_of_its_bytes(letter: str, count: int) -> None:
    text = letter * count
    raw = text.encode("utf-8", "surrogatepass")
    assert (json.size(text), json.digest(text)) == (len(raw), hashlib.sha256(raw).hexdigest())
    assert b"".join(json.pieces(text)) == raw


@pytest.mark.parametrize("work", [json.digest, json.size, FORMS["payment_card"].may_be_in])
def test_a_large_text_is_looked_at_without_a_copy(work) -> None:
    assert peak_of(work, "é" * (16 * 1024 * 1024)) < 8 * 1024 * 1024


@given(VALUES)
def test_what_is_stored_as_bytes_comes_back(value: object) -> None:
    assert json.loads_stored(json.dumps(value)) == value
