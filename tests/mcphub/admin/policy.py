"""Reads `policy.txt`: who may do what, by area, and what that means for each address and each change."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

NOBODY = "-"
_WHO = re.compile(r"[nkrwpdVAOUS]+|-")
_PLACEHOLDER = re.compile(r"\(\?P<\w+>[^()]*\)|\(\[\^/\]\+\)|<[\w:]+>")
_STEPS = {
    "": "read",
    "*/change/": "change",
    "*/delete/": "delete",
    "*/history/": "history",
    "*/history/*/": "history",
    "add/": "add",
}
"""Addresses that every page of the admin has -> the column that decides about them."""


class Undeclared(LookupError):
    """The table says nothing of this."""


@dataclass(slots=True)
class Area:
    """A page of the admin or a resource of REST: its columns, and the addresses that have a line of their own."""

    columns: dict[str, str]
    own: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Address below the area, or `action:name` -> who reads it, who changes by it."""


@dataclass(slots=True)
class Policy:
    pages: dict[str, Area]
    rest: dict[str, Area]
    other: dict[str, tuple[str, str]]
    used: set[str] = field(default_factory=set)

    def admits(self, method: str, pattern: str, action: str = "") -> str:
        """Return the letters of those whom the table admits; raise `Undeclared` where it says nothing."""
        where = _PLACEHOLDER.sub("*", pattern).replace("^", "").removesuffix("$").replace("/?", "/")
        changes = method != "GET"
        if where in self.other:
            self.used.add(where)
            return self.other[where][changes]
        kind, _, rest = where.partition("/")
        if kind == "api":
            return self._of_rest(method, *rest.partition("/")[::2])
        if kind == "scim":
            name, _, below = rest.removeprefix("v2/").partition("/")
            return self._of_rest(method, f"scim.{name}", f"{below.removesuffix('/')}/" if below else "")
        app, model, below = (*rest.split("/", 2), "", "")[:3]
        return self._of_page(changes, f"{app}.{model}", f"action:{action}" if action else below)

    def unused(self) -> set[str]:
        """Name the lines that nothing was asked of."""
        own = {f"{name} {each}" for areas in (self.pages, self.rest) for name in areas for each in areas[name].own}
        return (own | set(self.pages) | set(self.rest) | set(self.other)) - self.used

    def _of_page(self, changes: bool, name: str, below: str) -> str:
        area = self._area(self.pages, name)
        if below in area.own:
            self.used.add(f"{name} {below}")
            return area.own[below][changes]
        if below == "*/":  # leads on to `change/`, which asks again
            return "VAOUS"
        if below not in _STEPS:
            raise Undeclared(f"{name} {below}")
        if changes:
            return NOBODY if below == "*/history/*/" else area.columns[_STEPS[below]]
        return area.columns["read" if below == "*/change/" else _STEPS[below]]

    def _of_rest(self, method: str, name: str, below: str) -> str:
        area = self._area(self.rest, name)
        for each in (f"{method}:{below}", below):
            if each in area.own:
                self.used.add(f"{name} {each}")
                is_named = each != below or method in ("GET", "POST")
                return area.own[each][method != "GET"] if is_named else NOBODY
        if method == "GET":
            return area.columns["read"]
        if below == "":
            return area.columns["add"] if method == "POST" else NOBODY
        if below == "*/" and method != "POST":
            return area.columns["delete" if method == "DELETE" else "change"]
        return NOBODY

    def _area(self, areas: dict[str, Area], name: str) -> Area:
        if name not in areas:
            raise Undeclared(name)
        self.used.add(name)
        return areas[name]


def read(path: Path) -> Policy:
    """Read the table; each address stands in it once."""
    policy = Policy({}, {}, {})
    section, columns, area = "", list[str](), Area({})
    for line in path.read_text().splitlines():
        words = line.split()
        if not words or words[0] == "#":
            continue
        if words[0] in ("PAGE", "RESOURCE", "ADDRESS"):
            section, columns = words[0], words[1:]
        elif line[0] == " ":
            who, names = _who(words)
            assert not area.own.keys() & set(names), line
            area.own |= dict.fromkeys(names, who)
        elif section == "ADDRESS":
            who, rest = _who(words[1:])
            assert not rest, line
            policy.other[words[0].removeprefix("/")] = who
        else:
            assert len(words) == len(columns) + 1, line
            assert all(map(_WHO.fullmatch, words[1:])), line
            area = Area(dict(zip(columns, words[1:], strict=True)))
            areas = policy.pages if section == "PAGE" else policy.rest
            assert words[0] not in areas, line
            areas[words[0]] = area
    return policy


def _who(words: list[str]) -> tuple[tuple[str, str], list[str]]:
    """Take the one or two words of letters from the front; one stands for reading and changing alike."""
    count = 2 if len(words) > 1 and _WHO.fullmatch(words[1]) else 1
    assert _WHO.fullmatch(words[0]), words
    return (words[0], words[count - 1]), words[count:]
