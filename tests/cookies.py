"""Cookies of a hub, whose names end with what tells it from its neighbours on the host."""

from __future__ import annotations

from collections.abc import Iterable, Mapping


def name_of(cookies: Iterable[str], begin: str) -> str:
    """Return the whole name of the one cookie that begins so."""
    [name] = [name for name in cookies if name.startswith(begin)]
    return name


def cookie_of(cookies: Mapping[str, str], begin: str) -> str:
    return cookies[name_of(cookies, begin)]
