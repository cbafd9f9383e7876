"""Previews of JSON values that keep to a number of characters: whole items of lists, heads of texts. Pure.

A preview is valid JSON of the same type: lists lose items at their end, never parts of one; long texts within objects
end early; members stay while there is room for them.
"""

from __future__ import annotations

from dataclasses import dataclass

from sessions_app.protocol import json
from sessions_app.protocol.json import Json

_COMMA = 1
_SMALL = 200
"""Characters of a member that an object keeps before larger ones share what is left."""
_DEEPEST = 64
MOST_NAMED = 8


@dataclass(frozen=True, slots=True)
class Omission:
    """Something that a preview leaves out: so many of `total` items, characters or members at `path` are shown."""

    path: str
    unit: str
    shown: int
    total: int

    def words(self) -> str:
        return f"{self.shown} of {self.total} {self.unit} at {self.path or '/'}"


def size(value: Json) -> int:
    """Return the characters of a value as JSON."""
    return len(json.dumps(value).decode("utf-8", "surrogatepass"))


def shortened(value: Json, room: int, path: str = "") -> tuple[Json, list[Omission]]:
    """Return a value that takes at most about `room` characters, and what it lacks."""
    left_out: list[Omission] = []
    return _shortened(value, room, path, left_out, 0), left_out


def _shortened(value: Json, room: int, path: str, left_out: list[Omission], depth: int) -> Json:
    if size(value) <= room or depth > _DEEPEST:
        return value
    if isinstance(value, list):
        return _items(value, room, path, left_out)
    if isinstance(value, dict):
        return _members(value, room, path, left_out, depth)
    if isinstance(value, str):
        kept = head(value, max(0, room - 2))
        if len(kept) < len(value):
            left_out.append(Omission(path, "characters", len(kept), len(value)))
        return kept
    return value


def _items(value: list[Json], room: int, path: str, left_out: list[Omission]) -> list[Json]:
    kept: list[Json] = []
    used = 2
    for item in value:
        used += size(item) + _COMMA
        if used > room:
            break
        kept.append(item)
    if len(kept) < len(value):
        left_out.append(Omission(path, "items", len(kept), len(value)))
    return kept


def _members(value: dict[str, Json], room: int, path: str, left_out: list[Omission], depth: int) -> dict[str, Json]:
    sizes = {name: size(name) + 1 + size(member) + _COMMA for name, member in value.items()}
    left = room - 2
    kept: dict[str, Json] = {}
    small = sorted((name for name in value if sizes[name] <= _SMALL), key=lambda name: sizes[name])
    large = sorted((name for name in value if sizes[name] > _SMALL), key=lambda name: sizes[name])
    missing = 0
    for name in small:
        if sizes[name] > left:
            missing += 1
            continue
        kept[name] = value[name]
        left -= sizes[name]
    for at, name in enumerate(large):
        share = left // (len(large) - at) - size(name) - 2
        if share < _least(value[name]):
            missing += 1
            continue
        kept[name] = _shortened(value[name], share, f"{path}/{_escaped(name)}", left_out, depth + 1)
        left -= size(name) + 2 + size(kept[name])
    if missing:
        left_out.append(Omission(path, "members", len(value) - missing, len(value)))
    return {name: kept[name] for name in value if name in kept}


def _least(value: Json) -> int:
    """Return the characters of the shortest preview of a value."""
    return 2 if isinstance(value, (dict, list, str)) else size(value)


def head(text: str, room: int) -> str:
    """Return the beginning of a text, up to the end of a line or a word where one is near."""
    if len(text) <= room:
        return text
    kept = text[:room]
    for mark in ("\n", " "):
        if (at := kept.rfind(mark)) >= room * 3 // 4:
            return kept[: at + 1]
    return kept


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
