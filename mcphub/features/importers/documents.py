"""Descriptions of APIs as they come in: JSON or YAML, bounded, read without surprises. Pure.

YAML here is the part of it that is JSON, with aliases and merges within a bound on their total size, and without tags,
which make objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import yaml

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

MAX_DEPTH = 128
MOST_REPEATED = 1_000_000
"""Values that the aliases of one document repeat."""
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentRefused(ValueError):
    """The document cannot be imported; the message is the reason."""


def read(raw: bytes, *, is_yaml_1_1: bool = False) -> dict[str, Any]:
    """Decode a document; raises DocumentRefused.

    Integers beyond 64 bits become floats: they are common as bounds, and no call could violate them. YAML is read as
    1.2 has it, or else as 1.1, where `yes` is true and 010 eight.
    """
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if not raw.strip():
        raise DocumentRefused("The document is empty.")
    if raw.lstrip()[:1] == b"{":
        try:
            value = json.loads(raw, max_depth=MAX_DEPTH, are_long_integers_floats=True)
        except ParseError as error:
            raise DocumentRefused(str(error).replace("The body", "The document")) from error
    else:
        value = _yaml(raw, _old_plain() if is_yaml_1_1 else _plain)
    if not isinstance(value, dict):
        raise DocumentRefused("The document is no object.")
    return value


def _yaml(raw: bytes, plain: Callable[[str], Any]) -> Any:
    try:
        return _built(yaml.parse(raw.decode("utf-8"), Loader=_LOADER), plain)
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DocumentRefused(f"The document is neither JSON nor YAML: {error.problem}{place}.") from error
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise DocumentRefused(f"The document is neither JSON nor YAML: {str(error)[:200]}") from error


def _built(events: Iterator[Any], plain: Callable[[str], Any]) -> Any:
    """Return the value of the first document. It is built from events, so that nesting costs no stack and an alias is
    seen before anything is made of it. `plain` reads scalars without quotes."""
    holders: list[tuple[dict[str, Any] | list[Any], list[str]]] = []
    anchors: list[str | None] = []
    aliases = _Aliases()
    value: Any = None
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event, plain)
            aliases.keep(event.anchor, value)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            _refuse_tag(event)
            if len(holders) == MAX_DEPTH:
                raise DocumentRefused(f"The document is nested deeper than {MAX_DEPTH} levels.")
            holders.append(({} if isinstance(event, yaml.MappingStartEvent) else [], []))
            anchors.append(event.anchor)
            continue
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            value = _merged(holders.pop()[0])
            aliases.keep(anchors.pop(), value)
        elif isinstance(event, yaml.AliasEvent):
            value = aliases.value(str(event.anchor), len(holders))
        elif isinstance(event, yaml.DocumentEndEvent):
            return value
        else:
            continue
        if holders:
            holder, name = holders[-1]
            if isinstance(holder, list):
                holder.append(value)
            elif name:
                holder[name.pop()] = value
            else:
                name.append(_name(value))
    return value


class _Aliases:
    """The named nodes of the document, and the size of their repetitions."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Any, int, int]] = {}
        """Name -> value, its count of values with aliases written out, its levels."""
        self._sizes: dict[int, tuple[int, int]] = {}
        self._left = MOST_REPEATED

    def keep(self, name: str | None, value: Any) -> None:
        if name is not None:
            self._known[name] = (value, *self._measured(value))

    def value(self, name: str, depth: int) -> Any:
        """Return the node of an alias; raise DocumentRefused for an unknown one, or one too many."""
        if name not in self._known:
            raise DocumentRefused(f"The YAML uses the alias *{name[:100]} where nothing of that name is complete.")
        value, size, levels = self._known[name]
        self._left -= size
        if self._left < 0:
            raise DocumentRefused(
                f"The aliases of the YAML repeat more than {MOST_REPEATED} values. Write it as JSON with references."
            )
        if depth + levels > MAX_DEPTH:
            raise DocumentRefused(f"The document is nested deeper than {MAX_DEPTH} levels.")
        return value

    def _measured(self, value: Any) -> tuple[int, int]:
        if not isinstance(value, dict | list):
            return 1, 0
        known = self._sizes.get(id(value))
        if known is None:
            inner = [self._measured(each) for each in (value.values() if isinstance(value, dict) else value)]
            known = 1 + sum(size for size, _ in inner), 1 + max((levels for _, levels in inner), default=0)
            self._sizes[id(value)] = known  # complete values live as long as the document
        return known


def _merged(value: Any) -> Any:
    """Return a mapping merged with the nodes of `<<`, as YAML 1.1 has it and editors of OpenAPI write it."""
    if not isinstance(value, dict) or "<<" not in value:
        return value
    named = value["<<"]
    sources = named if isinstance(named, list) else [named]
    if not all(isinstance(each, dict) for each in sources):
        return value
    own = {name: each for name, each in value.items() if name != "<<"}
    merged: dict[str, Any] = {}
    for each in reversed(sources):
        merged |= each
    return {**merged, **own}


# Scalars as YAML 1.2 reads them, which OpenAPI is written in: NO is a country, 12:30:00 a text, 010 ten.
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_OTHER_BASE = re.compile(r"0(?:o[0-7]{1,21}|x[0-9a-fA-F]{1,15})\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_LONGEST_NUMBER = 40
_NO_NUMBER = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")


def _scalar(event: Any, plain: Callable[[str], Any]) -> Any:
    text: str = event.value
    if not text.isascii() and re.search("[\ud800-\udfff]", text):
        raise DocumentRefused("The document is neither JSON nor YAML: a text has half a character (a lone surrogate).")
    _refuse_tag(event)
    return text if event.tag or not event.implicit[0] else plain(text)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] not in "-+.0123456789":
        return text
    if _INTEGER.match(text):
        return int(text) if len(text) < 20 else _finite(text)
    if _OTHER_BASE.match(text):
        return int(text, 0)
    if _NO_NUMBER.match(text):
        raise DocumentRefused(f"The document is neither JSON nor YAML: {text} is not a number.")
    return _finite(text) if _FLOAT.match(text) else text


def _old_plain() -> Callable[[str], Any]:
    """Return a function that reads a scalar as YAML 1.1 has it; dates and infinite numbers are texts."""
    loader: Any = yaml.SafeLoader("")

    def plain(text: str) -> Any:
        if len(text) > _LONGEST_NUMBER:
            return text
        node = yaml.ScalarNode(loader.resolve(yaml.ScalarNode, text, (True, False)), text)
        try:
            value = loader.construct_object(node)
        except (yaml.YAMLError, ValueError):
            return text
        is_json = isinstance(value, bool | int | None) or (isinstance(value, float) and math.isfinite(value))
        return value if is_json else text

    return plain


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise DocumentRefused(f"The document is neither JSON nor YAML: {text[:24]} is too large a number.")
    return number


def _refuse_tag(event: Any) -> None:
    if event.tag and event.tag not in ("!", "tag:yaml.org,2002:str"):
        raise DocumentRefused(f"The YAML uses the tag {event.tag[:100]}, and tags are not read. Write it without.")


def _name(value: Any) -> str:
    if isinstance(value, dict | list):
        raise DocumentRefused("The document is neither JSON nor YAML: a name is an object or a list.")
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return str(value)
