"""The content of the request headers, before any decision: one pass, names, media ranges, value encoding."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

_SENTINEL = re.compile(r"=\?base64\?(.*)\?=", re.DOTALL)
_PLAIN = re.compile(r"(?:[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?)?")

_FIELDS = {
    b"mcp-protocol-version": "protocol_version",
    b"mcp-method": "method",
    b"mcp-name": "name",
    b"mcp-session-id": "session_id",
    b"last-event-id": "last_event_id",
    b"accept": "accept",
    b"content-type": "content_type",
    b"authorization": "authorization",
    b"origin": "origin",
    b"host": "host",
    b"idempotency-key": "idempotency_key",
}
_PARAM_PREFIX = b"mcp-param-"
_OWN = frozenset({b"authorization", b"mcp-session-id", b"last-event-id", b"idempotency-key"})
"""Credentials, and what differs from client to client: read anew each time, and kept nowhere."""
_REPEATED = tuple(b"" if name in _OWN else name for name in _FIELDS)
"""In the order of the fields. No header has an empty name."""


@dataclass(slots=True)
class RoutingHeaders:
    """The headers that the hub reads, without surrounding blanks; None where absent.

    `params` maps the lower-case suffix of each `Mcp-Param-*` to its value. `duplicates` holds the lower-case
    names of headers that came twice; the first value is kept, except that `accept` lines are joined.
    """

    protocol_version: str | None = None
    method: str | None = None
    name: str | None = None
    session_id: str | None = None
    last_event_id: str | None = None
    accept: str | None = None
    content_type: str | None = None
    authorization: str | None = None
    origin: str | None = None
    host: str | None = None
    idempotency_key: str | None = None
    params: dict[str, str] = field(default_factory=dict)
    duplicates: tuple[str, ...] = ()


def collect(pairs: Iterable[tuple[bytes, bytes]]) -> RoutingHeaders:
    """Read ASGI header pairs, whose names are in lower case."""
    pairs = list(pairs)
    found = dict(pairs)
    if len(found) != len(pairs) or _PARAM_PREFIX in b"\n".join(found):
        return _collect_each(pairs)
    values: Iterator[Any] = map(_text, map(found.get, _REPEATED))
    headers = RoutingHeaders(*values)
    for name in _OWN & found.keys():
        setattr(headers, _FIELDS[name], _decoded(found[name]))
    return headers


def _decoded(value: bytes) -> str:
    return value.decode("latin-1").strip(" \t")


@lru_cache(maxsize=512)
def _text(value: bytes | None) -> str | None:
    return None if value is None else _decoded(value)


def _collect_each(pairs: Iterable[tuple[bytes, bytes]]) -> RoutingHeaders:
    """Read headers some of which came twice, or speak of a tool's parameters."""
    known: dict[str, str] = {}
    params: dict[str, str] = {}
    duplicates: tuple[str, ...] = ()
    for name, raw in pairs:
        attribute = _FIELDS.get(name)
        if attribute is None:
            if not name.startswith(_PARAM_PREFIX):
                continue
            target, key = params, name[len(_PARAM_PREFIX) :].decode("latin-1")
        else:
            target, key = known, attribute
        value = raw.decode("latin-1").strip(" \t")
        if key not in target:
            target[key] = value
        elif attribute == "accept":
            target[key] += "," + value
        else:
            duplicates += (name.decode("latin-1"),)
    return RoutingHeaders(**known, params=params, duplicates=duplicates)


def decode_header(value: str) -> str:
    """The text that `Mcp-Name` or `Mcp-Param-*` stands for; raises `ValueError` for a broken encoding.

    A value without both markers of `=?base64?…?=` stands for itself, if it is plain ASCII (MCP 2026-07-28,
    SEP-2243).
    """
    if not value.isascii():
        raise ValueError("A header holds plain ASCII.")
    match = _SENTINEL.fullmatch(value)
    if match is None:
        return value
    encoded = match[1].encode("latin-1")
    decoded = base64.b64decode(encoded, validate=True)
    if base64.b64encode(decoded) != encoded:
        raise ValueError("The base64 text has stray bits.")
    return decoded.decode()


def encode_header(value: str) -> str:
    """The header value for a text: itself if it is plain printable ASCII, the base64 form otherwise."""
    if _PLAIN.fullmatch(value) and not _SENTINEL.fullmatch(value):
        return value
    return f"=?base64?{base64.b64encode(value.encode()).decode()}?="


def accepts(accept: str | None) -> bool:
    """Return whether Accept covers both JSON and server-sent events; wildcards count, `q=0` does not."""
    return accept is not None and _covers(accept, "application", "json") and accepts_sse(accept)


def accepts_sse(accept: str | None) -> bool:
    return accept is not None and _covers(accept, "text", "event-stream")


@lru_cache(maxsize=256)
def _covers(accept: str, kind: str, subkind: str) -> bool:
    """The most specific range that fits decides (RFC 9110, section 12.5.1)."""
    specificity = {f"{kind}/{subkind}": 3, f"{kind}/*": 2, "*/*": 1}
    best, wanted = 0, False
    for media_range in accept.lower().split(","):
        name, *parameters = (part.strip() for part in media_range.split(";"))
        rank = specificity.get(name, 0)
        if rank > best:
            best, wanted = rank, not any(map(_is_zero_weight, parameters))
    return wanted


def _is_zero_weight(parameter: str) -> bool:
    name, _, weight = parameter.partition("=")
    return name.strip() == "q" and re.fullmatch(r"0(\.0*)?", weight.strip()) is not None
