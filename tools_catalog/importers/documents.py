"""Descriptions of APIs as they come in: JSON or YAML, bounded, read without surprises. Pure.

YAML here is the part of it that is JSON: no aliases, which multiply, and no tags, which make objects.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import yaml

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

MAX_DEPTH = 128
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class DocumentRefused(ValueError):
    """The document cannot be imported; the text says why."""


def read(raw: bytes) -> dict[str, Any]:
    """Decode a document; raises DocumentRefused.

    Integers beyond 64 bits come as floats: as bounds they are common, and say nothing that a call could break.
    """
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if raw.lstrip()[:1] == b"{":
        try:
            value = json.loads(raw, max_depth=MAX_DEPTH, are_long_integers_floats=True)
        except ParseError as error:
            raise DocumentRefused(str(error).replace("The body", "The document")) from error
    else:
        value = _yaml(raw)
    if not isinstance(value, dict):
        raise DocumentRefused("The document is no object.")
    return value


def _yaml(raw: bytes) -> Any:
    try:
        return _built(yaml.parse(raw.decode("utf-8"), Loader=_LOADER))
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DocumentRefused(f"The document is neither JSON nor YAML: {error.problem}{place}.") from error
    except (yaml.YAMLError, UnicodeError, RecursionError) as error:
        raise DocumentRefused(f"The document is neither JSON nor YAML: {str(error)[:200]}") from error


def _built(events: Iterator[Any]) -> Any:
    """Give the value of the first document. It is built from events, so that nesting costs no stack and an alias is
    seen before anything is made of it."""
    holders: list[tuple[dict[str, Any] | list[Any], list[str]]] = []
    value: Any = None
    for event in events:
        if isinstance(event, yaml.ScalarEvent):
            value = _scalar(event)
        elif isinstance(event, yaml.MappingStartEvent | yaml.SequenceStartEvent):
            _refuse_tag(event)
            if len(holders) == MAX_DEPTH:
                raise DocumentRefused(f"The document is nested deeper than {MAX_DEPTH} levels.")
            holders.append(({} if isinstance(event, yaml.MappingStartEvent) else [], []))
            continue
        elif isinstance(event, yaml.MappingEndEvent | yaml.SequenceEndEvent):
            value = holders.pop()[0]
        elif isinstance(event, yaml.AliasEvent):
            raise DocumentRefused("The YAML uses aliases (*name), which are not read. Write it without, or as JSON.")
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


# Scalars as YAML 1.2 reads them, which OpenAPI is written in: NO is a country, 12:30:00 a text, 010 ten.
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL")),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_INTEGER = re.compile(r"[-+]?[0-9]+\Z")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z")
_NO_NUMBER = re.compile(r"(?:[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))\Z")


def _scalar(event: Any) -> Any:
    text: str = event.value
    if not text.isascii() and re.search("[\ud800-\udfff]", text):
        raise DocumentRefused("The document is neither JSON nor YAML: a text has half a character (a lone surrogate).")
    _refuse_tag(event)
    if event.tag or not event.implicit[0]:
        return text
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] not in "-+.0123456789":
        return text
    if _INTEGER.match(text):
        return int(text) if len(text) < 20 else _finite(text)
    if _NO_NUMBER.match(text):
        raise DocumentRefused(f"The document is neither JSON nor YAML: {text} is not a number.")
    return _finite(text) if _FLOAT.match(text) else text


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
