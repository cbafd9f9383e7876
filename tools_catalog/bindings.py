"""The binding of a secret: permitted origins, places of a request, and senders. Pure.

An operator writes each as a list of words: origins `https://api.example.org:8443 *.example.net git.stdio`, places
`headers.Authorization query.key body environment.*`, users `service:tickets connection:git tool:weather`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol
from urllib.parse import urlsplit

import httpx2
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _t

from tools_catalog.egress import hosts

SERVICE, CONNECTION, TOOL = "service", "connection", "tool"
PROFILE: Final = ".stdio"
"""A launch profile `git` is the origin `git.stdio`, which approves it as a user too."""
DEFAULT_PLACES: Final = "headers.Authorization environment.*"
_REMEMBERED: Final = 1024
"""Decisions that a process keeps, so that calls do not parse the same words again."""
_PORTS: Final = {"http": 80, "https": 443}
_PLACE: Final = re.compile(r"body|(?:headers|query|environment)\.[^\s,]+")
_USER: Final = re.compile(r"(?:service|connection|tool):[^\s,]+")


@dataclass(frozen=True, slots=True, order=True)
class Destination:
    """Where one secret is about to go."""

    origin: str
    """As `origin_of` gives it, or `PROFILE.stdio`."""
    users: tuple[str, ...] = ()
    """Its senders, such as `tool:weather` of `service:tickets`; the approval of one is enough."""
    place: str = ""

    def at(self, place: str) -> Destination:
        """Return the same with the place that a template names, such as `body.user.token`."""
        return replace(self, place="body" if place.partition(".")[0] == "body" else place)

    def of(self, user: str) -> Destination:
        return replace(self, users=(user, *self.users))


class Bound(Protocol):
    """The three lists of a secret."""

    origins: str
    places: str
    users: str


@dataclass(frozen=True, slots=True)
class Unbound:
    """Why a secret does not go to a destination. Sentences are for clients and for operators of the hub."""

    field: str
    word: str
    """The value missing from the field."""

    def __str__(self) -> str:
        said = {"origins": "is not for", "places": "must not stand in", "users": "is not approved for"}[self.field]
        return f"{said} {self.word}"

    @property
    def remedy(self) -> str:
        return f"Somebody who may edit secrets can add {self.word} to its {self.field}"


@lru_cache(maxsize=_REMEMBERED)
def origin_of(url: str) -> str:
    """Return scheme, host and port of a URL, the port only where it is not the scheme's own."""
    parsed = httpx2.URL(url)  # as the request will read it
    host = parsed.raw_host.decode("ascii")
    shown = f"[{host}]" if ":" in host else host
    return f"{parsed.scheme}://{shown}" + (f":{parsed.port}" if parsed.port is not None else "")


def unbound(bound: Bound, to: Destination) -> Unbound | None:
    """Return why the secret must not go there; None where it may."""
    return _unbound(bound.origins, bound.places, bound.users, to)


@lru_cache(maxsize=_REMEMBERED)
def _unbound(origins: str, places: str, users: str, to: Destination) -> Unbound | None:
    if not any(_covers(entry, to.origin) for entry in _words(origins)):
        return Unbound("origins", to.origin)
    if not any(_stands(entry, to.place) for entry in _words(places)):
        return Unbound("places", to.place)
    if not _is_profile(to.origin) and set(to.users).isdisjoint(_words(users)):
        return Unbound("users", to.users[-1] if to.users else "it")
    return None


def check_origins(text: str) -> None:
    """Raise ValidationError for an invalid or empty list of origins."""
    entries = list(_words(text))
    for entry in entries:
        scheme, _, rest = entry.rpartition("://")
        try:
            split = urlsplit(f"//{rest}")
            is_bare = split.netloc == rest and "@" not in rest and split.port != 0
            if scheme not in ("", *_PORTS) or not is_bare:
                raise ValueError
            hosts.check(split.hostname or "")
        except (ValueError, ValidationError):
            raise ValidationError(
                _t("“%(entry)s” isn't a valid origin. Enter https://api.example.org, with :PORT if needed.")
                % {"entry": entry}
            ) from None
    if not entries:
        raise ValidationError(_t("Enter at least one origin."))


def check_places(text: str) -> None:
    _check(
        text,
        _PLACE,
        _t("“%(entry)s” isn't a valid location. Enter headers.NAME, query.NAME, environment.NAME or body."),
    )


def check_users(text: str) -> None:
    _check(text, _USER, _t("“%(entry)s” isn't valid here. Enter service:NAME, connection:NAME or tool:NAME."))


def _check(text: str, pattern: re.Pattern[str], message: str) -> None:
    for entry in _words(text):
        if not pattern.fullmatch(entry):
            raise ValidationError(message % {"entry": entry})


def _words(text: str) -> Iterator[str]:
    return (entry for entry in re.split(r"[\s,]+", text) if entry)


def _covers(entry: str, origin: str) -> bool:
    """Return whether an entry covers an origin. Without a scheme it means https, without a port the scheme's own."""
    if _is_profile(origin):
        return entry.lower() == origin
    scheme, _, rest = entry.lower().rpartition("://")
    there, here = urlsplit(f"{scheme or 'https'}://{rest}"), urlsplit(origin)
    same = there.scheme == here.scheme and _port(there.scheme, there.port) == _port(here.scheme, here.port)
    return same and hosts.covers(there.hostname or "", here.hostname or "")


def _is_profile(origin: str) -> bool:
    return origin.endswith(PROFILE) and "://" not in origin


def _port(scheme: str, port: int | None) -> int | None:
    return port if port is not None else _PORTS.get(scheme)


def _stands(entry: str, place: str) -> bool:
    """Names of headers have no case."""
    if entry.endswith(".*"):
        return place.startswith(entry[:-1])
    if place.startswith("headers."):
        return entry.lower() == place.lower()
    return entry == place
