"""Members that a provider adds to OpenAI's wire, gathered from one body or from the pieces of a stream. Pure."""

from __future__ import annotations

from collections.abc import Container

from sessions_app.protocol.json import Json

REASONING = ("reasoning_content", "reasoning", "thinking", "reasoning_text")
"""Names under which providers send the thoughts of a model as text."""
_PIECES = frozenset({*REASONING, "text", "summary", "data", "signature"})
"""Texts that come in pieces, also where two pieces are equal."""


def add(members: dict[str, Json], value: dict[str, Json], *, without: Container[str] = ()) -> None:
    """Add the members of `value` except the names in `without`; null adds nothing."""
    for name, more in value.items():
        if name in without or more is None:
            continue
        held = members.get(name)
        if isinstance(held, dict) and isinstance(more, dict):
            add(held, more)
        elif isinstance(held, list) and isinstance(more, list):
            extend(held, more)
        elif isinstance(held, str) and isinstance(more, str):
            members[name] = held + more if name in _PIECES or held != more else held
        elif isinstance(more, list):
            members[name] = []
            extend(members[name], more)
        elif isinstance(more, dict):
            members[name] = {}
            add(members[name], more)
        else:
            members[name] = more


def extend(items: list[Json], more: list[Json]) -> None:
    """Add items to a list; a piece of an item goes on with it: the one of its `index`, or the last of its type."""
    for item in more:
        held = _continued(items, item) if isinstance(item, dict) else None
        if held is None:
            items.append(_copy(item))
        else:
            add(held, item, without=("type", "index", "id", "format"))


def _continued(items: list[Json], item: dict[str, Json]) -> dict[str, Json] | None:
    index, kind = item.get("index"), item.get("type")
    if isinstance(index, int):
        found = (each for each in items if isinstance(each, dict) and each.get("index") == index)
        return next((each for each in found if each.get("type") == kind), None)
    last = items[-1] if items else None
    may_go_on = isinstance(last, dict) and kind in ("text", "thinking") and last.get("type") == kind
    return last if may_go_on else None


def _copy(value: Json) -> Json:
    if isinstance(value, dict):
        return {name: _copy(each) for name, each in value.items()}
    return [_copy(each) for each in value] if isinstance(value, list) else value
