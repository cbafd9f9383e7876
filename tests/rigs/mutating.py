"""Spoils requests, structurally and byte by byte, from a seed: the same seed spoils the same way everywhere."""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

Header = tuple[bytes, bytes]

ODD_TEXTS = [
    "",
    " ",
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff\ud800",
    "\u202e",
    "\ufeff",
    "\U0001f600",
    "é" * 50,
    "x" * 5000,
    "../../etc/passwd",
    "%00",
    "{}",
    "[]",
    "null",
    "'; DROP TABLE x;--",
    "{{7*7}}",
    "${jndi:ldap://x}",
    "%s%n",
    "__proto__",
    "2026-07-28",
    "1999-01-01",
    "=?base64?!?=",
    "=?base64?/w==?=",
    "\r\nX-Injected: 1",
    "NaN",
]
ODD_NUMBERS = [0, -1, 2**31, 2**53 + 1, 2**63, 2**64 - 1, -(2**63), 1.5, -0.0, 1e308, 5e-324]
ODD_VALUES: list[Any] = [
    None,
    True,
    False,
    [],
    {},
    [[]],
    [None],
    {"": None},
    {"a": {"b": []}},
    *ODD_NUMBERS,
    *ODD_TEXTS,
]
ODD_LITERALS = [
    b"NaN",
    b"-Infinity",
    b"1e999",
    b"9" * 400,
    b"-" + b"9" * 5000,
    b"01",
    b"1.",
    b".5",
    b"0x10",
    b"undefined",
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\\x41"',
    b'"\x01"',
    b'"\xff"',
    b"'a'",
    b"tru",
    b"18446744073709551616",
    b"",
    b"[" * 70 + b"]" * 70,
    b"[" * 20_000,
    b'{"a":' * 300,
    b'{"a":1,"a":2}',
    b'{"a":1,"\\u0061":2}',
    b"/* */1",
]
ODD_HEADER_VALUES = [
    b"",
    b" ",
    b"\xff\xfe",
    b"\xc3\xa9",
    b"null",
    b"*",
    b"*/*",
    b"a" * 6000,
    b"=?base64?***?=",
    b"=?base64?/w==?=",
    b"2026-07-28",
    b"2025-11-25",
    b"2025-03-26",
    b"2024-11-05",
    b"v999",
    b"application/json",
    b"text/event-stream",
    b"application/json;q=0",
    b"tools/call",
    b"tools/list",
    b"echo",
    b"%00",
    b"0",
    b"-1",
    b"gzip",
    b"Bearer",
    b",",
    b";;q=",
]
HEADERS = [
    b"accept",
    b"content-type",
    b"mcp-protocol-version",
    b"mcp-method",
    b"mcp-name",
    b"mcp-session-id",
    b"origin",
    b"host",
    b"last-event-id",
    b"content-encoding",
    b"mcp-param-region",
    b"mcp-param-",
    b"user-agent",
    b"x-forwarded-for",
    b"x-request-id",
    b"traceparent",
    b"accept-encoding",
    b"expect-ct",
    b"idempotency-key",
]
_MARK = "\x1amark\x1a"


@dataclass
class Call:
    """One HTTP request, as bytes."""

    method: str
    path: str
    headers: list[Header]
    body: bytes
    how: list[str] = field(default_factory=list)
    """Which mutations it went through, for the report."""

    def header(self, name: bytes) -> bytes | None:
        return next((value for each, value in self.headers if each == name), None)


class Mutator:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def spoil(self, method: str, path: str, headers: list[Header], value: Any) -> Call:
        """Return the request with its JSON value spoilt in one to three ways; now and then only its headers."""
        call = Call(method, path, list(headers), b"")
        value = deepcopy(value)
        if self.random.random() < 0.75:
            for _ in range(self.random.choice([1, 1, 1, 2, 3])):
                change = self.random.choice(_STRUCTURAL)
                call.how.append(change.__name__.strip("_"))
                value = change(self.random, value)
        call.body = _encoded(value)
        if self.random.random() < 0.35:
            alter = self.random.choice(_OF_BYTES)
            call.how.append(alter.__name__.strip("_"))
            call.body = alter(self.random, call.body, value)
        if self.random.random() < 0.35 or not call.how:
            for _ in range(self.random.choice([1, 1, 2])):
                self._header(call)
        if self.random.random() < 0.03:
            call.method = self.random.choice(["GET", "PUT", "PATCH", "OPTIONS", "HEAD", "DELETE", "PROPFIND"])
            call.how.append(call.method)
        if self.random.random() < 0.02:
            call.path += self.random.choice(["/", "?", "?a=%00", "?sessionId=x&sessionId=y", "?" + "a=b&" * 200, "#x"])
            call.how.append("path")
        return call

    def _header(self, call: Call) -> None:
        name, value = self.random.choice(HEADERS), self.random.choice(ODD_HEADER_VALUES)
        kind = self.random.choice(["set", "twice", "drop"])
        if kind != "twice":
            call.headers = [each for each in call.headers if each[0] != name]
        if kind != "drop":
            call.headers.append((name, value))
        call.how.append(f"{kind} {name.decode()}")


def _encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=True).encode()


def _paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [here]
    if isinstance(value, dict):
        for name, inner in value.items():
            found += _paths(inner, (*here, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            found += _paths(inner, (*here, index))
    return found


def _at(value: Any, path: tuple[Any, ...], change: Callable[[Any], Any]) -> Any:
    if not path:
        return change(value)
    value[path[0]] = _at(value[path[0]], path[1:], change)
    return value


def _replace(source: random.Random, value: Any) -> Any:
    return _at(value, source.choice(_paths(value)), lambda _: deepcopy(source.choice(ODD_VALUES)))


def _remove(source: random.Random, value: Any) -> Any:
    inner = [path for path in _paths(value) if path and isinstance(path[-1], str)]
    if not inner:
        return value
    path = source.choice(inner)

    def without(parent: Any) -> Any:
        return {name: each for name, each in parent.items() if name != path[-1]}

    return _at(value, path[:-1], without)


def _add(source: random.Random, value: Any) -> Any:
    places = [path for path in _paths(value) if isinstance(_look(value, path), dict)]
    if not places:
        return value
    name = source.choice(["id", "method", "result", "error", "params", "_meta", "cursor", "x" * 300, *ODD_TEXTS])
    return _at(value, source.choice(places), lambda old: {**old, name: deepcopy(source.choice(ODD_VALUES))})


def _wrap(source: random.Random, value: Any) -> Any:
    path = source.choice(_paths(value))
    return _at(value, path, lambda old: source.choice([[old], {"a": old}, [old, old]]))


def _batch(source: random.Random, value: Any) -> Any:
    return [deepcopy(value) for _ in range(source.choice([0, 1, 2, 5, 150]))] + source.choice([[], [1], [[]], [None]])


def _id(source: random.Random, value: Any) -> Any:
    if isinstance(value, dict):
        value["id"] = deepcopy(source.choice(ODD_VALUES))
    return value


def _rename(source: random.Random, value: Any) -> Any:
    if isinstance(value, dict) and "method" in value:
        value["method"] = source.choice(
            [
                "tools/call",
                "tools/list",
                "ping",
                "initialize",
                "notifications/cancelled",
                "tools/CALL",
                "rpc.x",
                *ODD_TEXTS,
            ]
        )
    return value


def _look(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = value[step]
    return value


def _literal(source: random.Random, body: bytes, value: Any) -> bytes:
    """JSON that no encoder writes, in the place of a value."""
    marked = _at(deepcopy(value), source.choice(_paths(value)), lambda _: _MARK)
    return _encoded(marked).replace(_encoded(_MARK), source.choice(ODD_LITERALS), 1)


def _doubled(source: random.Random, body: bytes, value: Any) -> bytes:
    if not body.startswith(b"{") or len(body) < 3:
        return body + body
    name = source.choice([b'"id"', b'"method"', b'"params"', b'"jsonrpc"', b'"\\u0069d"'])
    return b"{" + name + b":" + source.choice([b"1", b'"x"', b"{}", b"null"]) + b"," + body[1:]


def _cut(source: random.Random, body: bytes, value: Any) -> bytes:
    return body[: source.randrange(len(body) + 1)]


def _flipped(source: random.Random, body: bytes, value: Any) -> bytes:
    raw = bytearray(body)
    for _ in range(source.choice([1, 2, 8])):
        if raw:
            raw[source.randrange(len(raw))] = source.randrange(256)
    return bytes(raw)


def _inserted(source: random.Random, body: bytes, value: Any) -> bytes:
    at = source.randrange(len(body) + 1)
    return (
        body[:at]
        + source.choice([b"\x00", b"\xff", b"\xed\xa0\x80", b"\xc0\x80", b"\\", b'"', b"{", b"\n"])
        + body[at:]
    )


def _recoded(source: random.Random, body: bytes, value: Any) -> bytes:
    coding = source.choice(["utf-16", "utf-16-le", "utf-32", "utf-8-sig", "utf-7", "cp037"])
    return body.decode("latin-1").encode(coding)


def _foreign(source: random.Random, body: bytes, value: Any) -> bytes:
    return source.choice(
        [
            b"",
            b"   ",
            source.randbytes(200),
            zlib.compress(body),
            b"a=b&c=d",
            b"<?xml version='1.0'?><a/>",
            body + body,
            body + b"\n\x00",
            b"\xef\xbb\xbf" + body,
            b"[" * 100_000,
            b'"' + b"x" * 100_000 + b'"',
        ]
    )


_STRUCTURAL = [_replace, _replace, _replace, _remove, _add, _wrap, _batch, _id, _rename]
_OF_BYTES = [_literal, _literal, _doubled, _cut, _flipped, _inserted, _recoded, _foreign]
