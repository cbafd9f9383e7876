"""Checks what the headers of a request decide alone: Host, Origin, the digest of the key, the accepted media types.

A client on one connection repeats its headers, so a verdict is kept under them. Only headers that passed are kept,
and of a key only the digest: the snapshot of keys says for each request whether the key is still valid.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from sessions_app.caller import Keys
from sessions_app.protocol import envelope, revisions
from sessions_app.protocol.errors import Forbidden, InvalidRequest, MisdirectedRequest

Pairs = Iterable[tuple[bytes, bytes]]

_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")
_OF_ONE_REQUEST = frozenset({b"content-length", b"traceparent", b"tracestate"})
_MOST_KEPT = 2000
_LARGEST_KEPT = 2048
"""Bytes of headers; what is larger, as with long tokens of proxies, is read anew each time."""
_kept: dict[tuple[tuple[bytes, bytes], ...], CheckedHeaders] = {}


class CheckedHeaders:
    """The verdict on one set of headers."""

    __slots__ = ("accepts", "digest", "headers", "is_json", "is_kept", "is_stateless", "origin")

    def __init__(self, headers: envelope.RoutingHeaders) -> None:
        self.headers = headers
        self.is_stateless = revisions.is_stateless(headers.protocol_version)
        self.is_json = (headers.content_type or "").partition(";")[0].strip().lower() == "application/json"
        self.accepts = envelope.accepts(headers.accept)
        """Whether the client takes JSON and event streams."""
        self.digest = Keys.digest(headers.authorization)
        """Of the bearer key; None where there is none that can be read."""
        self.origin: bytes | None = None
        """Of a browser's page that may call, for the headers of the answer."""
        self.is_kept = False


def known(pairs: Pairs) -> CheckedHeaders | None:
    """Give the verdict on headers that passed before."""
    return _kept.get(_key(pairs))


def admit(headers: envelope.RoutingHeaders) -> CheckedHeaders:
    """Check Host and Origin; raise InvalidRequest, MisdirectedRequest or Forbidden."""
    checked = CheckedHeaders(headers)
    verdict = _judge_host(headers.host)
    if verdict == 400 or "host" in headers.duplicates:
        raise InvalidRequest("The Host header is malformed, or came twice. Send the name of the hub once.")
    if verdict != 200:
        raise MisdirectedRequest
    if headers.origin is not None:
        _check_origin(headers.origin, headers.host)
        checked.origin = headers.origin.encode("latin-1")
    return checked


def keep(pairs: Pairs, checked: CheckedHeaders) -> None:
    """Remember a verdict; only for callers that are known, or strangers would fill the memory."""
    key = _key(pairs)
    if checked.headers.idempotency_key is None and sum(len(name) + len(value) for name, value in key) <= _LARGEST_KEPT:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = checked
        checked.is_kept = True


def _key(pairs: Pairs) -> tuple[tuple[bytes, bytes], ...]:
    # The length belongs to the body and a trace to one request: they would make nearly every request another.
    return tuple([pair for pair in pairs if pair[0] not in _OF_ONE_REQUEST])


def _check_origin(origin: str, own_host: str | None) -> None:
    """Refuse a browser's page of another origin. Absent is no browser."""
    if origin in settings.MCPHUB_ALLOWED_ORIGINS or "*" in settings.MCPHUB_ALLOWED_ORIGINS:
        return
    scheme, _, host = origin.partition("://")
    is_ours = scheme in ("http", "https") and _judge_host(host) == 200
    # Without keys every page of this machine could call tools: then only the hub's own pages may.
    if not is_ours or (settings.MCPHUB_ALLOW_ANONYMOUS and host != own_host):
        raise Forbidden("Pages of this origin may not call the hub. Name it in MCPHUB_ALLOWED_ORIGINS or with --cors.")


def _judge_host(host: str | None) -> int:
    """Give 200, 400 malformed, or 421: a page of another name that resolves to this machine (DNS rebinding)."""
    if not host or not _HOST.fullmatch(host):
        return 400
    domain, _ = split_domain_port(host)
    if not domain:
        return 400
    return 200 if validate_host(domain, settings.ALLOWED_HOSTS) else 421
