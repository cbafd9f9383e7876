"""Descriptions of APIs as they come in: JSON or YAML, bounded, read without surprises. Pure.

YAML here is the part of it that is JSON: no aliases, which multiply, and no tags, which make objects.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError

MAX_BYTES = 4 * 1024 * 1024
"""GitHub's description is 12 MB; those of one product are below 2."""
MAX_DEPTH = 128


class DocumentRefused(ValueError):
    """The document cannot be imported; the text says why."""


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise DocumentRefused("The YAML uses aliases (*name), which are not read. Write it without, or as JSON.")
        depth = getattr(self, "depth", 0) + 1
        if depth > MAX_DEPTH:
            raise DocumentRefused(f"The document is nested deeper than {MAX_DEPTH} levels.")
        self.depth = depth
        try:
            return super().compose_node(parent, index)
        finally:
            self.depth = depth - 1


# Scalars as YAML 1.2 reads them, which OpenAPI is written in: NO is a country, 12:30:00 a text, 010 ten.
_SCALARS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    (
        "float",
        r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
)
_Loader.yaml_implicit_resolvers = {}
for _kind, _pattern, _first in _SCALARS:
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_kind}", re.compile(rf"(?:{_pattern})\Z"), _first)
_Loader.add_constructor("tag:yaml.org,2002:int", lambda loader, node: int(node.value))


def read(raw: bytes) -> dict[str, Any]:
    """Decode a document; raises DocumentRefused."""
    if len(raw) > MAX_BYTES:
        raise DocumentRefused(
            f"The document has {len(raw)} bytes, more than the {MAX_BYTES} that are read. Leave out what is not needed."
        )
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    if raw.lstrip()[:1] == b"{":
        try:
            value = json.loads(raw, max_depth=MAX_DEPTH)
        except ParseError as error:
            raise DocumentRefused(str(error).replace("The body", "The document")) from error
    else:
        value = _yaml(raw)
    if not isinstance(value, dict):
        raise DocumentRefused("The document is no object.")
    return value


def _yaml(raw: bytes) -> Any:
    try:
        value = yaml.load(raw.decode("utf-8"), Loader=_Loader)  # noqa: S506 - a loader of plain values
        # Names that are numbers, as statuses are, become texts; what JSON cannot say is refused.
        return json.loads(json.dumps(_named(value)), max_depth=MAX_DEPTH)
    except DocumentRefused:
        raise
    except yaml.MarkedYAMLError as error:
        place = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise DocumentRefused(f"The document is neither JSON nor YAML: {error.problem}{place}.") from error
    except (yaml.YAMLError, ValueError, TypeError, RecursionError, ParseError) as error:
        raise DocumentRefused(f"The document is neither JSON nor YAML: {str(error)[:200]}") from error


def _named(value: Any) -> Any:
    if isinstance(value, dict):
        return {_name(name): _named(item) for name, item in value.items()}
    return [_named(item) for item in value] if isinstance(value, list) else value


def _name(name: Any) -> str:
    if isinstance(name, bool) or name is None:
        return {True: "true", False: "false", None: "null"}[name]
    return str(name)
