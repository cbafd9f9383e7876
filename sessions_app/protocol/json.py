"""The one strict decoder and encoder of foreign JSON.

Every byte that comes from a client, an upstream or a provider is decoded here. Imports nothing of the hub
but the errors.
"""

from __future__ import annotations

import hashlib
import json as stdlib
import re
from collections.abc import Callable, Iterator
from typing import Any, NoReturn, TypeAlias

import orjson

from sessions_app.protocol.errors import ParseError

Json: TypeAlias = Any
"""Any JSON value: dict with string keys, list, str, int, float, bool or None. Relayed, not modelled."""

SMALLEST_INTEGER = -(2**63)
LARGEST_INTEGER = 2**64 - 1

MOST_MEMBERS = 100_000
"""Of one message. Each container costs the decoder and the collector 0.7 microseconds, with the interpreter's lock."""
_NEITHER = bytes(byte for byte in range(256) if byte not in b'{[:"')

_DIGIT_RUNS = bytes(0x30 if 0x30 <= byte <= 0x39 else 0x20 for byte in range(256))
_LONG_NUMBER = b"0" * 19
"""No integer with fewer digits than this leaves the 64-bit range."""

_NULL = b"null"
"""Looked for with `find`: for `in` the interpreter makes an exception each time, as bytes may hold a number too."""

_PIECE = 1024 * 1024
"""Characters."""

_ENCODE = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
_ENCODE_SORTED = _ENCODE | orjson.OPT_SORT_KEYS
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_ORJSON_ENCODER_DEPTH = 250
"""orjson refuses to encode values nested deeper than about this."""


def loads(raw: bytes, *, max_depth: int = 64, are_long_integers_floats: bool = False) -> Json:
    """Decode one JSON text, or raise `ParseError` with the problem.

    Refused: anything but UTF-8 without a byte order mark, duplicate names in an object, NaN, Infinity and
    numbers that overflow to it, integers outside -2^63..2^64-1, lone surrogates, nesting beyond `max_depth`
    containers (at most 1024).

    With `are_long_integers_floats` integers outside that range are not refused, and come as the nearest float.
    """
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise ParseError(*_what_is_wrong(raw, error)) from error
    if raw.count(b"{") + raw.count(b"[") > max_depth:
        _refuse_depth(value, max_depth)
    if (
        max_depth > _ORJSON_ENCODER_DEPTH
        or (not are_long_integers_floats and _may_hold_long_number(raw))
        or (raw.find(b"\\") >= 0 and raw.find(b"\\u003") >= 0)
        or raw.count(b":") != orjson.dumps(value).count(b":")
    ):
        # The cheap proofs failed. A dropped duplicate takes its colon along, while the encoder writes every colon of
        # every name and string; only an escaped colon (\u003a) spoils that comparison.
        _examine(raw, float if are_long_integers_floats else _bounded)
    return value


def refuse_many(raw: bytes) -> None:
    """Raise `ParseError` for more than `MOST_MEMBERS` members and containers, before anything is made of them."""
    if _count(raw) <= MOST_MEMBERS:
        return
    # Of what is in texts nothing is made. Escapes stand in texts only, and backslashes pair up from the left.
    outside = b"".join(raw.replace(b"\\\\", b"").replace(b'\\"', b"").translate(None, _NEITHER).split(b'"')[::2])
    if _count(outside) > MOST_MEMBERS:
        raise ParseError(
            f"The body has more than {MOST_MEMBERS} members, objects and arrays.", "Send it in parts, or as a text."
        )


def _count(raw: bytes) -> int:
    return raw.count(b"{") + raw.count(b"[") + raw.count(b":")


def loads_stored(text: str | bytes) -> Json:
    """Decode stored output of `dumps` or `canonical`, in a sixth of the time of `loads`; nothing is refused.

    Lone surrogates and integers beyond 64 bits come back: orjson would refuse the first, and make floats of the others.
    """
    raw = text.encode() if isinstance(text, str) else text
    if not _may_hold_long_number(raw):
        try:
            return orjson.loads(raw)
        except orjson.JSONDecodeError:
            pass
    return stdlib.loads(text)


def dumps(value: Json) -> bytes:
    """Encode as compact UTF-8; raise `ValueError` for NaN, Infinity, non-string names and foreign types.

    Lone surrogates and integers beyond 64 bits survive: such a value is written in ASCII with escapes.
    """
    try:
        encoded = orjson.dumps(value, option=_ENCODE)
    except orjson.JSONEncodeError:
        return _encode_slowly(value, ensure_ascii=True, sort_keys=False).encode("ascii")
    if encoded.find(_NULL) >= 0:
        _refuse_foreign(value)  # orjson writes null for NaN and Infinity
    return encoded


def canonical(value: Json) -> str:
    """Write the same value always as the same text: names sorted by code point, no blanks.

    NUL and lone surrogates are escaped, so that a database text column takes it. Raises like `dumps`.
    """
    try:
        encoded = orjson.dumps(value, option=_ENCODE_SORTED)
    except orjson.JSONEncodeError:
        text = _encode_slowly(value, ensure_ascii=False, sort_keys=True)
        return _LONE_SURROGATE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)
    if encoded.find(_NULL) >= 0:
        _refuse_foreign(value)
    return encoded.decode()


def digest(text: str | bytes) -> str:
    """SHA-256 in lower-case hexadecimal; text is taken as UTF-8."""
    if isinstance(text, str):
        if len(text) > _PIECE:
            found = hashlib.sha256()
            for piece in pieces(text):
                found.update(piece)
            return found.hexdigest()
        text = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(text).hexdigest()


def pieces(text: str) -> Iterator[bytes]:
    """Yield a text as UTF-8, so that a large one is not in memory twice."""
    for at in range(0, len(text), _PIECE):
        yield text[at : at + _PIECE].encode("utf-8", "surrogatepass")


def size(text: str) -> int:
    """Return the bytes of a text as UTF-8."""
    return len(text) if text.isascii() else sum(map(len, pieces(text)))


def _what_is_wrong(raw: bytes, error: orjson.JSONDecodeError) -> tuple[str, str]:
    if raw.startswith(b"\xef\xbb\xbf"):
        return "The body starts with a byte order mark.", "Send UTF-8 without one."
    try:
        raw.decode()
    except UnicodeDecodeError as broken:
        return f"The body is not UTF-8: bad byte at offset {broken.start}.", "Send UTF-8."
    where = f"line {error.lineno}, column {error.colno}"
    return f"The body is not valid JSON: {error.msg} ({where}).", "Send one JSON text."


def _may_hold_long_number(raw: bytes) -> bool:
    # Nineteen digits in a row are three in a row among every sixth byte.
    return raw[::6].translate(_DIGIT_RUNS).find(b"000") >= 0 and raw.translate(_DIGIT_RUNS).find(_LONG_NUMBER) >= 0


def _refuse_depth(value: Json, max_depth: int) -> None:
    level = [value] if isinstance(value, dict | list) else []
    depth = 0
    while level:
        depth += 1
        if depth > max_depth:
            raise ParseError(f"The body is nested deeper than {max_depth} levels.", "Send it flatter.")
        level = [
            child
            for container in level
            for child in (container.values() if isinstance(container, dict) else container)
            if isinstance(child, dict | list)
        ]


def _examine(raw: bytes, parse_integer: Callable[[str], object]) -> None:
    """Read the text once more, slowly, for problems that orjson hides: duplicate names, integers read as floats."""
    try:
        stdlib.loads(raw.decode(), object_pairs_hook=_unique, parse_int=parse_integer, parse_constant=_no_constant)
    except RecursionError as error:
        raise ParseError("The body is nested too deeply.", "Send it flatter.") from error


def _unique(pairs: list[tuple[str, Json]]) -> None:
    names = set()
    for name, _ in pairs:
        if name in names:
            raise ParseError(f"The name {_shown(name)} occurs twice in one object.", "Send each name once.")
        names.add(name)


def _bounded(digits: str) -> None:
    # The length goes first: int() of very long texts raises or takes quadratic time.
    if len(digits) > 20 or not SMALLEST_INTEGER <= int(digits) <= LARGEST_INTEGER:
        raise ParseError(f"The integer {digits[:24]} is outside -2^63..2^64-1.", "Send it as a string.")


def _no_constant(word: str) -> NoReturn:
    raise ParseError(f"{word} is not JSON.", "Send a finite number or a string.")


def _encode_slowly(value: Json, *, ensure_ascii: bool, sort_keys: bool) -> str:
    try:
        text = stdlib.dumps(
            value, ensure_ascii=ensure_ascii, sort_keys=sort_keys, allow_nan=False, separators=(",", ":")
        )
    except (TypeError, RecursionError) as error:
        raise ValueError(f"Not a JSON value: {error}") from error
    _refuse_foreign(value)
    return text


def _refuse_foreign(value: Json) -> None:
    """Raise `ValueError` for a number that is not finite or a name that is not a string; no cycles here."""
    stack = [value]
    while stack:
        item = stack.pop()
        if isinstance(item, dict):
            if not all(isinstance(name, str) for name in item):
                raise ValueError("The names of an object must be strings.")
            stack.extend(item.values())
        elif isinstance(item, list | tuple):
            stack.extend(item)
        elif isinstance(item, float) and (item != item or item in (float("inf"), float("-inf"))):
            raise ValueError(f"{item} is not a JSON number.")


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else name[:60] + "…")
