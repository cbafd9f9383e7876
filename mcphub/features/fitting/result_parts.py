"""Parts of a whole result: by path, by range, by search. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from mcphub.features.fitting.fitting import text_of, value_of
from mcphub.features.fitting.preview import size
from sessions_app.protocol import json
from sessions_app.protocol.json import Json
from tools_catalog.call.base import NOTHING

MOST_FOUND = 100
_DEEPEST = 64
_AROUND = 200
"""Characters of a long text that are shown on both sides of the searched words."""


class PartError(ValueError):
    """A part that a result does not have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultPart:
    """The requested part of a result; without members the whole."""

    path: str = ""
    start: int | None = None
    end: int | None = None
    search: str = ""

    @classmethod
    def read(cls, values: Mapping[str, str]) -> ResultPart:
        """Return the part that a query names. Raises PartError."""
        return cls(
            path=values.get("path", ""),
            start=_number("start", values.get("start")),
            end=_number("end", values.get("end")),
            search=values.get("search", ""),
        )


@dataclass(frozen=True, slots=True)
class ShownPart:
    """A part as it is sent."""

    text: str
    mime_type: str


def of(wire: dict[str, Json], part: ResultPart) -> Json:
    """Return a part of a result: a JSON value, or a text. Raises PartError."""
    value = value_of(wire)
    if value is NOTHING:
        value = text_of(wire) or wire["content"]
    value = _at(value, part.path)
    if part.search:
        value = list(_found(value, part.search.casefold()))
    if part.start is not None or part.end is not None:
        value = _range(value, part.start or 0, part.end)
    return value


def shown(value: Json) -> ShownPart:
    if isinstance(value, str):
        return ShownPart(value, "text/plain")
    return ShownPart(json.dumps(value).decode("utf-8", "surrogatepass"), "application/json")


def _at(value: Json, path: str) -> Json:
    """Return the value at a JSON Pointer (RFC 6901)."""
    if not path:
        return value
    if not path.startswith("/"):
        raise PartError(f"path must be a JSON Pointer that begins with /, such as /items/0, not {path[:100]}.")
    for raw in path[1:].split("/"):
        name = raw.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            raise PartError(f"The result has nothing at {path[:200]}. {_what_there_is(value)}")
    return value


def _what_there_is(value: Json) -> str:
    if isinstance(value, dict):
        return f"Members there: {', '.join(list(value)[:20])[:400]}."
    if isinstance(value, list):
        return f"It is a list of {len(value)} items."
    return "Nothing is below it."


def _range(value: Json, start: int, end: int | None) -> Json:
    if not isinstance(value, (list, str)):
        raise PartError("start and end choose items of a list or characters of a text. Add a path to one.")
    if end is not None and end < start:
        raise PartError("end must not be before start.")
    return value[start:end]


def _found(value: Json, words: str) -> Iterator[Json]:
    """Yield the items, members or lines that hold some words, each with its place."""
    count = 0
    for path, each in _leaves(value):
        if words in (each if isinstance(each, str) else json.dumps(each).decode("utf-8", "surrogatepass")).casefold():
            yield {"path": path, "value": _near(each, words)}
            count += 1
            if count == MOST_FOUND:
                return


def _leaves(value: Json) -> Iterator[tuple[str, Json]]:
    """Yield the units of a search: items of a list, lines of a text, else all values at their paths."""
    if isinstance(value, str):
        yield from ((f"line {at}", line) for at, line in enumerate(value.splitlines(), 1))
    elif isinstance(value, list):
        yield from ((f"/{at}", item) for at, item in enumerate(value))
    else:
        yield from _walk(value, "", 0)


def _walk(value: Json, path: str, depth: int) -> Iterator[tuple[str, Json]]:
    if isinstance(value, dict) and depth < _DEEPEST:
        for name, member in value.items():
            yield from _walk(member, f"{path}/{name.replace('~', '~0').replace('/', '~1')}", depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST:
        for at, item in enumerate(value):
            if isinstance(item, dict) and size(item) <= 2000:
                yield f"{path}/{at}", item
            else:
                yield from _walk(item, f"{path}/{at}", depth + 1)
    else:
        yield path, value


def _near(value: Json, words: str) -> Json:
    if not isinstance(value, str) or len(value) <= 4 * _AROUND:
        return value
    at = max(0, value.casefold().find(words))
    return f"…{value[max(0, at - _AROUND) : at + len(words) + _AROUND]}…"


def _number(name: str, text: str | None) -> int | None:
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 12:
        raise PartError(f"{name} must be a whole number from 0, not {text[:20]}.")
    return int(text)
