"""What the specification demands of a server, and where this tree shows that it is so.

Each file of `requirements/` is an area, each table in it a demand:

    must | must_not | should | should_not   the demand, in our words
    at, page                                the section: an anchor, on the file's page unless it has its own
    site                                    where the pages of an extension are
    since, until                            the revisions it binds, the file's unless it has its own
    tests                                   node ids below tests/
    documented                              a file of docs/ and words in it: of a demand on who writes a tool
    why                                     of a SHOULD without a test, or kept in part: the reason
    awaits                                  the feature that has to come first

    python -m tests.spec.manifest           prints what awaits a feature, and figures
"""

from __future__ import annotations

import ast
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from sessions_app.protocol.revisions import ALL, NEWEST

TESTS = Path(__file__).resolve().parent.parent
FILES = sorted((Path(__file__).parent / "requirements").glob("*.toml"))
SITE = "https://modelcontextprotocol.io/specification/"
LEVELS = ("must", "must_not", "should", "should_not")
KNOWN = {*LEVELS, "at", "site", "page", "since", "until", "tests", "documented", "why", "awaits"}
BEFORE = {"site", "page", "since", "until"}
"""What a file says for all of its demands."""

AWAITED: frozenset[str] = frozenset()
"""Features that are not there yet. Whoever brings one takes it out, and gives its demands their tests."""


@dataclass(frozen=True)
class Demand:
    id: str
    """The file and the table: `http.origin`."""
    level: str
    says: str
    link: str
    since: str
    until: str
    tests: tuple[str, ...]
    documented: tuple[str, ...]
    why: str
    awaits: str

    @property
    def is_must(self) -> bool:
        return self.level.startswith("must")

    def __str__(self) -> str:
        span = self.since if self.since == self.until else f"{self.since} to {self.until}"
        return f"{self.id}: {self.level.replace('_', ' ').upper()} ({span}): {self.says} <{self.link}>"


def tables() -> Iterator[tuple[str, dict[str, Any], dict[str, Any]]]:
    """Each demand as it is written: its id, its table, and what its file says for all."""
    for file in FILES:
        whole = tomllib.loads(file.read_text())
        before = {name: value for name, value in whole.items() if not isinstance(value, dict)}
        for name, table in whole.items():
            if isinstance(table, dict):
                yield f"{file.stem}.{name}", table, before


@cache
def demands() -> tuple[Demand, ...]:
    return tuple(_demand(id, {**before, **table}) for id, table, before in tables())


@cache
def functions(file: Path) -> frozenset[str]:
    """The tests that a file defines."""
    defined = ast.walk(ast.parse(file.read_text()))
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in defined if isinstance(node, kinds) and node.name.startswith("test_"))


def exists(test: str) -> bool:
    file, _, name = test.partition("::")
    return (TESTS / file).is_file() and name in functions(TESTS / file)


def _demand(id: str, table: dict[str, Any]) -> Demand:
    level = next((each for each in LEVELS if each in table), "")
    return Demand(
        id,
        level,
        table.get(level, ""),
        f"{table.get('site', SITE)}{table['page']}{table.get('at', '')}",
        table.get("since", ALL[0]),
        table.get("until", NEWEST),
        tuple(table.get("tests", ())),
        tuple(table.get("documented", ())),
        table.get("why", ""),
        table.get("awaits", ""),
    )


def main() -> None:
    waiting = [each for each in demands() if each.awaits]
    for each in sorted(waiting, key=lambda demand: demand.awaits):
        print(f"awaits {each.awaits}: {each}")
    levels = Counter("MUST" if each.is_must else "SHOULD" for each in demands())
    shown = Counter("MUST" if each.is_must else "SHOULD" for each in demands() if each.tests and not each.awaits)
    for level, count in levels.items():
        print(f"{level}: {count}, shown by tests {shown[level]}")
    print(f"awaiting a feature: {len(waiting)}")


if __name__ == "__main__":
    main()
