"""Members reserved to the hub, removed from upstream messages. Pure."""

from __future__ import annotations

from typing import Any, Final

Json = Any

OWN: Final = "mcphub/"
"""Prefix of the `_meta` keys by which the hub describes calls, errors and connections to its clients."""
HOP: Final = "io.modelcontextprotocol/"
"""Begins the `_meta` keys of the protocol itself, which end at each hop (MCP, `_meta`)."""


def meta_of(meta: dict[str, Json]) -> dict[str, Json]:
    """Return `_meta` without the keys of one hop and those of the hub."""
    return {key: value for key, value in meta.items() if not key.startswith((HOP, OWN))}


_OF_THE_HOP: Final = frozenset({"resultType", "ttlMs", "cacheScope"})
"""Members of a result for the two ends of one hop; the hub's own client gets the hub's."""


def result_of(raw: dict[str, Json], member: str, parts: list[Json]) -> dict[str, Json]:
    """Return a result as received, in its order, with these parts as its `member` and the members that count beyond
    this hop.
    """
    shown = {name: value for name, value in raw.items() if name not in _OF_THE_HOP}
    shown[member] = without_own(parts)
    if "_meta" in shown:
        meta = shown["_meta"]
        shown["_meta"] = meta_of(meta) if isinstance(meta, dict) else None
        if not shown["_meta"]:
            del shown["_meta"]
    return shown


def without_own(parts: list[Json]) -> list[Json]:
    """Return content blocks, contents of resources or messages of a prompt without the hub's keys in their `_meta`."""
    return [_without_own(part) for part in parts]


def _without_own(part: Json) -> Json:
    if not isinstance(part, dict):
        return part
    changed = {}
    if isinstance(meta := part.get("_meta"), dict) and any(key.startswith(OWN) for key in meta):
        changed["_meta"] = {key: value for key, value in meta.items() if not key.startswith(OWN)}
    for name in ("resource", "content"):
        if isinstance(inner := part.get(name), dict) and (cleaned := _without_own(inner)) is not inner:
            changed[name] = cleaned
    return {**part, **changed} if changed else part
