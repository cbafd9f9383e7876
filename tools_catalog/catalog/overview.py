"""A short overview of many tools for a model: their names by group, within a number of characters. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

MOST_CHARACTERS = 1_200
"""Of an overview: about 300 tokens, which every conversation pays."""
MOST_GROUPS = 20
_MOST_NAMED = 12
"""Names of one group."""
_OTHERS = "others"


def overview(names: Iterable[str], calls: Mapping[str, int]) -> str:
    """Return groups with the number of their tools and some names; empty for no tools. `calls`: of each tool lately.

    A group is what stands before the first dot of a name. Large groups come first, and in them the tools that are
    called most.
    """
    groups: dict[str, list[str]] = {}
    for name in names:
        group, dot, _rest = name.partition(".")
        groups.setdefault(group if dot else _OTHERS, []).append(name)
    if not groups:
        return ""
    ordered = sorted(groups.items(), key=lambda pair: (pair[0] == _OTHERS, -len(pair[1]), pair[0]))
    chosen, left = ordered[:MOST_GROUPS], ordered[MOST_GROUPS:]
    room = MOST_CHARACTERS // len(chosen)
    lines = [_line(group, sorted(each, key=lambda name: (-calls.get(name, 0), name)), room) for group, each in chosen]
    if left:
        lines.append(f"{len(left)} more groups with {sum(len(each) for _, each in left)} tools")
    return f"Tools here: {'; '.join(lines)}."


def _line(group: str, names: list[str], room: int) -> str:
    named: list[str] = []
    used = len(group) + 8
    for name in names[:_MOST_NAMED]:
        short = name.removeprefix(f"{group}.")
        if used + len(short) + 2 > room:
            break
        named.append(short)
        used += len(short) + 2
    head = group if group == _OTHERS else f"{group}.*"
    more = ", …" if named and len(named) < len(names) else ""
    return f"{head[:room]} ({len(names)}){': ' if named else ''}{', '.join(named)}{more}"
