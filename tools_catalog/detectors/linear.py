"""Patterns that take time in proportion to the text, whatever the text is: RE2, over bytes of UTF-8. Pure.

RE2 has no lookaround. Callers inspect the surroundings of a match themselves.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any

import re2

Place = tuple[int, int]


def _options() -> re2.Options:
    options = re2.Options()
    options.never_capture = True
    options.log_errors = False
    options.max_mem = 64 << 20
    return options


class Linear:
    """One pattern, compiled when it is first needed."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern

    @cached_property
    def _pattern(self) -> Any:
        options = _options()
        options.never_capture = "(?P<" not in self._text
        return re2.compile(self._text, options)

    def prepare(self) -> None:
        """Compile it, before a call waits for that."""
        self._pattern  # noqa: B018 - it is kept

    def places(self, raw: bytes) -> Iterator[Place]:
        """Return where it is found, or its one group is, none within another."""
        group = 1 if self._pattern.groups else 0
        for found in self._pattern.finditer(raw):
            yield found.span(group)

    def first(self, raw: bytes, at: int = 0) -> Place | None:
        found = self._pattern.search(raw, at)
        return None if found is None else found.span()


class AnyOf:
    """Reports in one pass which of many patterns a text contains."""

    def __init__(self, patterns: Iterable[tuple[str, str]]) -> None:
        """`patterns`: names and patterns; several may have one name."""
        self._names: list[str] = []
        self._set = re2.Set.SearchSet(_options())
        for name, pattern in patterns:
            self._set.Add(pattern)
            self._names.append(name)
        if self._names:
            self._set.Compile()

    def names_in(self, raw: bytes) -> frozenset[str]:
        if not self._names:
            return frozenset()
        return frozenset(self._names[at] for at in self._set.Match(raw) or ())


def in_characters(text: str, raw: bytes, places: Iterable[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """Return places in bytes as places in characters, in order of their beginnings."""
    ordered = sorted(places, key=lambda place: (place[1], -place[2]))
    if len(raw) == len(text):
        return ordered
    made, done, characters = [], 0, 0
    for kind, begin, end in ordered:
        characters += len(raw[done:begin].decode("utf-8", "surrogatepass"))
        done = begin
        made.append((kind, characters, characters + len(raw[begin:end].decode("utf-8", "surrogatepass"))))
    return made


def literal(text: str) -> str:
    return str(re2.escape(text))


def either(texts: Iterable[str]) -> str:
    return "|".join(map(literal, texts))


def class_of(points: Iterable[int]) -> str:
    """Return a pattern for any of the characters, by ranges."""
    ranges: list[list[int]] = []
    for point in sorted(points):
        if ranges and ranges[-1][1] == point - 1:
            ranges[-1][1] = point
        else:
            ranges.append([point, point])
    return "[" + "".join(f"\\x{{{first:x}}}-\\x{{{last:x}}}" for first, last in ranges) + "]"
