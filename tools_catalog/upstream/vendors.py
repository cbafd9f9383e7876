"""Extensions of other vendors that a connection passes: what a calling client declares of them goes to the upstream,
and what the upstream declares goes to clients. Their settings stay as they are. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from sessions_app.protocol import json
from sessions_app.protocol.json import Json

EXTENSIONS: Final = "extensions"
_MEMBERS: Final = (EXTENSIONS, "experimental")
"""Members of capabilities with names that others choose."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}(/[A-Za-z0-9_.-]{1,100})?")
_OURS: Final = ("io.modelcontextprotocol/", "mcphub/")
MOST: Final = 20
_LONGEST_SETTINGS: Final = 4096
"""Bytes. They are part of each request to a stateless upstream."""


class VendorExtension(NamedTuple):
    """One extension as a side declares it. Equal ones may share a session."""

    member: str
    name: str
    settings: str
    """JSON: an object."""


def wrong_names(given: Json) -> str:
    """Return the part of a list of names that cannot be one; empty where all can."""
    if not isinstance(given, list) or len(given) > MOST:
        return json.dumps(given).decode()[:200]
    for name in given:
        if not isinstance(name, str) or not _NAME.fullmatch(name) or name.startswith(_OURS):
            return json.dumps(name).decode()[:200]
    return ""


def declared_among(capabilities: Mapping[str, Json], passing: frozenset[str]) -> frozenset[VendorExtension]:
    """Return the extensions of these names that a side declares; without those that are too large, or no objects."""
    found = set()
    for member in _MEMBERS:
        named = capabilities.get(member)
        if not isinstance(named, dict):
            continue
        for name in passing & named.keys():
            if isinstance(named[name], dict) and len(settings := json.dumps(named[name])) <= _LONGEST_SETTINGS:
                found.add(VendorExtension(member, name, settings.decode()))
    return frozenset(found)


def as_capabilities(declared: Iterable[VendorExtension]) -> dict[str, dict[str, Json]]:
    """Return members of capabilities with these extensions."""
    members: dict[str, dict[str, Json]] = {}
    for each in sorted(declared):
        members.setdefault(each.member, {})[each.name] = json.loads(each.settings.encode())
    return members


def agreed(of_each: Iterable[Iterable[VendorExtension]]) -> dict[str, dict[str, Json]]:
    """Return members of capabilities for clients of several upstreams: without names that two declare otherwise."""
    all_ = {each for declared in of_each for each in declared}
    names = [(each.member, each.name) for each in all_]
    return as_capabilities(each for each in all_ if names.count((each.member, each.name)) == 1)


def undeclarable(needs: Mapping[str, Json], passing: frozenset[str]) -> bool:
    """Return whether an upstream demands an extension that a client could not declare through the connection."""
    named = [name for member in _MEMBERS if isinstance(found := needs.get(member), dict) for name in found]
    return any(not name.startswith(_OURS) and name not in passing for name in named)
