"""Checks that depend on a request's headers alone: Host, Origin, the digest of the key, the accepted media types.

The verdict depends on a few headers that all requests of a client repeat, so it is kept under these. Headers that
differ per session, tool or token are read anew each time and stored nowhere: a hub that opens sessions for months
holds no more than one that has opened ten.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from sessions_app.kit.addresses import own_names
from sessions_app.protocol import envelope, revisions
from sessions_app.protocol.errors import Forbidden, InvalidRequest, MisdirectedRequest

_HOST = re.compile(r"[A-Za-z0-9._\-\[\]:]{1,255}")
_MOST_KEPT = 500
_LARGEST_KEPT = 1024
"""Characters of the headers that decide; a verdict on longer ones is made anew each time."""


@dataclass(slots=True)
class HeaderVerdict:
    """The verdict on the headers that a client repeats. Host and Origin were let in."""

    is_stateless: bool
    is_json: bool
    accepts: bool
    """Whether the client takes JSON and event streams."""
    origin: bytes | None
    """Of a browser's page that may call, for the headers of the answer."""
    is_kept: bool = False


_Key = tuple[str | None, str | None, str | None, str | None, str | None]
_kept: dict[_Key, HeaderVerdict] = {}


def check(headers: envelope.RoutingHeaders) -> HeaderVerdict:
    """Check Host and Origin; raise InvalidRequest, MisdirectedRequest or Forbidden."""
    known = _kept.get(_key(headers)) if "host" not in headers.duplicates else None
    return known or _judge(headers)


def keep(headers: envelope.RoutingHeaders, verdict: HeaderVerdict) -> None:
    """Remember a verdict; only for callers that are known, or strangers would fill the memory."""
    key = _key(headers)
    if sum(len(value) for value in key if value is not None) <= _LARGEST_KEPT:
        if len(_kept) >= _MOST_KEPT:
            _kept.clear()
        _kept[key] = verdict
        verdict.is_kept = True


def _key(headers: envelope.RoutingHeaders) -> _Key:
    return headers.host, headers.origin, headers.accept, headers.content_type, headers.protocol_version


def _judge(headers: envelope.RoutingHeaders) -> HeaderVerdict:
    status = _judge_host(headers.host)
    if status == 400 or "host" in headers.duplicates:
        raise InvalidRequest("The Host header is malformed, or came twice. Send the name of the hub once.")
    if status != 200:
        raise MisdirectedRequest
    if headers.origin is not None:
        _check_origin(headers.origin, headers.host)
    return HeaderVerdict(
        is_stateless=revisions.is_stateless(headers.protocol_version),
        is_json=(headers.content_type or "").partition(";")[0].strip().lower() == "application/json",
        accepts=envelope.accepts(headers.accept),
        origin=None if headers.origin is None else headers.origin.encode("latin-1"),
    )


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
    """Return 200, 400 malformed, or 421: a page of another name that resolves to this machine (DNS rebinding)."""
    if not host or not _HOST.fullmatch(host):
        return 400
    domain, _ = split_domain_port(host)
    if not domain:
        return 400
    return 200 if validate_host(domain, own_names()) else 421
