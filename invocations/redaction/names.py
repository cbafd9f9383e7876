"""Which names mean a marked one: itself, written otherwise, or misspelt. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sessions_app.protocol.json import Json

Same = Callable[[str, str], bool]
"""Whether the second name is taken for the first, which is marked."""

_SHORTEST = 5
"""Of characters: shorter words are near too many others."""
_LONG = 8
"""From so many characters on two slips are still the same word."""
_LONGEST = 64
_MOST_KNOWN = 4096


def is_near(marked: str, name: str) -> bool:
    """Return whether one is the other but for case, marks between words, and one slip or, in a long word, two.

    A slip is a letter too many, one missing, another one, or two that changed places.
    """
    a, b = _folded(marked), _folded(name)
    if not a or not b:
        return marked == name
    if a == b:
        return True
    longest = max(len(a), len(b))
    if longest > _LONGEST or min(len(a), len(b)) < _SHORTEST:
        return False
    return _within(a, b, 2 if longest >= _LONG else 1)


def _folded(name: str) -> str:
    return "".join(letter for letter in name[: 2 * _LONGEST].casefold() if letter.isalnum())


def _within(a: str, b: str, slips: int) -> bool:
    at, end = 0, min(len(a), len(b))
    while at < end and a[at] == b[at]:
        at += 1
    a, b = a[at:], b[at:]
    if not slips or abs(len(a) - len(b)) > slips:
        return a == b
    return (
        a == b
        or _within(a[1:], b[1:], slips - 1)
        or _within(a[1:], b, slips - 1)
        or _within(a, b[1:], slips - 1)
        or (a[:1] == b[1:2] and a[1:2] == b[:1] != "" and _within(a[2:], b[2:], slips - 1))
    )


class Nearby:
    """Takes a name that is near to a marked one for it, unless the tool has that name itself."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(known)
        self._found: dict[tuple[str, str], bool] = {}

    def __call__(self, marked: str, name: str) -> bool:
        if marked == name:
            return True
        if name in self._known:
            return False
        pair = marked, name
        found = self._found.get(pair)
        if found is None:
            if len(self._found) >= _MOST_KNOWN:
                self._found.clear()
            found = self._found[pair] = is_near(marked, name)
        return found


def any_case(marked: str, name: str) -> bool:
    return marked == name or marked.casefold() == name.casefold()


def exact(marked: str, name: str) -> bool:
    return marked == name


def names_in(schema: Json) -> frozenset[str]:
    """Return every name that a schema gives to a member, at any depth."""
    found: set[str] = set()
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            members = node.get("properties")
            if isinstance(members, dict):
                found.update(members)
            stack += node.values()
        elif isinstance(node, list):
            stack += node
    return frozenset(found)
