"""How lists and objects are written into a request: the styles of OpenAPI 3.1, which are those of RFC 6570. Pure.

A style is named as OpenAPI names it, with `*` where it explodes: `simple`, `form*`. `json` is a value as JSON. Items
and names become text in the caller, which knows the rules of its place; the separators are written here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

from tools_catalog.call.base import Json
from tools_catalog.call.content import dump

JSON: Final = "json"
DEEP: Final = "deepObject"
IN_PATH: Final = frozenset({"simple", "simple*", "label", "label*", "matrix", "matrix*", JSON})
IN_HEADER: Final = frozenset({"simple", "simple*", JSON})
IN_PAIRS: Final = frozenset({"form", "form*", "spaceDelimited", "pipeDelimited", DEEP, JSON})
"""In query, form and cookies, where names and values stand in pairs."""
STYLES: Final = IN_PATH | IN_HEADER | IN_PAIRS

Text = Callable[[Json], str]
"""Makes text of one item, encoded for its place."""
_BETWEEN: Final = {
    "simple": ",",
    "label": ".",
    "matrix": ";",
    "form": ",",
    "spaceDelimited": "%20",
    "pipeDelimited": "%7C",
}


def scalar_text(value: Json) -> str:
    """Write a JSON value as the text that a URL or a form expects; compound values as JSON."""
    return value if isinstance(value, str) else dump(value)


def joined(style: str, name: str, value: Json, text: Text) -> str:
    """Write a value into a path or a header; `name` is the parameter's."""
    if style == JSON:
        return text(dump(value))
    kind, is_exploded = style.removesuffix("*"), style.endswith("*")
    if is_exploded and isinstance(value, dict):
        written = [f"{text(key)}={text(item)}" for key, item in _present(value)]
    else:
        written = [text(item) for item in _flat(value)]
        if kind == "matrix":
            written = [f"{name}={each}" for each in (written if is_exploded else [",".join(written)])]
    if kind == "simple":
        return ",".join(written)
    return _BETWEEN[kind] + (_BETWEEN[kind] if is_exploded else ",").join(written)


def pairs(style: str, name: str, value: Json) -> Iterator[tuple[str, str]]:
    """Write a value into query, form or cookies: names and values, percent-encoded."""
    if style == JSON:
        yield encoded(name), encoded(dump(value))
    elif style == DEEP:
        yield from _deep(name, value)
    elif style == "form*":
        items = _present(value) if isinstance(value, dict) else ((name, item) for item in _flat(value))
        yield from ((encoded(key), encoded(item)) for key, item in items)
    else:
        yield encoded(name), _BETWEEN[style].join(encoded(item) for item in _flat(value))


def encoded(value: Json) -> str:
    """Percent-encode; raises UnicodeEncodeError for half a character."""
    return quote(scalar_text(value), safe="")


def _deep(name: str, value: Json) -> Iterator[tuple[str, str]]:
    """Write `name[key][0]=item`. OpenAPI leaves lists open; Stripe, which has them, reads indices."""
    if isinstance(value, dict):
        for key, item in _present(value):
            yield from _deep(f"{name}[{key}]", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _deep(f"{name}[{index}]", item)
    elif value is not None:
        yield encoded(name), encoded(value)


def _present(value: dict[str, Json]) -> Iterator[tuple[str, Json]]:
    return ((key, item) for key, item in value.items() if item is not None)


def _flat(value: Json) -> Iterator[Json]:
    """Return the items of a list, names and values of an object in turn, or the one value."""
    if isinstance(value, dict):
        for key, item in _present(value):
            yield key
            yield item
    elif isinstance(value, list):
        yield from (item for item in value if item is not None)
    else:
        yield value
