"""The request body of an HTTP tool: a template with leaves filled from the arguments of a call. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeAlias
from urllib.parse import urlencode

from sessions_app.protocol import errors
from tools_catalog.backends.http.styles import scalar_text
from tools_catalog.backends.http.template import Template, Values, written_pairs
from tools_catalog.call.base import Json
from tools_catalog.call.content import dump

Leaves: TypeAlias = "Template | dict[str, Leaves] | list[Leaves] | str | int | float | bool | None"
"""A JSON value with templates as strings."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyTemplate:
    """`kind` is none, arguments (whatever is used nowhere else) or template."""

    kind: str
    encoding: str
    leaves: Leaves = None

    def templates(self) -> Iterator[Template]:
        yield from _templates_in(self.leaves)

    def render(self, values: Values, used: frozenset[str]) -> tuple[str, bytes] | None:
        """Return content type and bytes, or None for a request without a body."""
        if self.kind == "none":
            return None
        if self.kind == "arguments":
            data: Json = {name: value for name, value in values.arguments.items() if name not in used}
        else:
            data = _fill_leaf(self.leaves, values)
            if data is _ABSENT:  # the body is one argument, and it was left out
                return None
        try:
            if self.encoding == "text":
                return "text/plain; charset=utf-8", scalar_text(data).encode("utf-8")
            if self.encoding == "json":
                return "application/json", dump(data).encode("utf-8")
            plain = [
                (name, scalar_text(item))
                for name, value in data.items()
                if not isinstance(value, Template)
                for item in (value if isinstance(value, list) else [value])
                if item is not None
            ]
            templates = [(name, value) for name, value in data.items() if isinstance(value, Template)]
            styled = written_pairs(templates, values, data.keys() - {name for name, _ in templates})
            written = [urlencode(plain)] if plain else []
            written += [f"{name}={value}" for name, value in styled]
            return "application/x-www-form-urlencoded", "&".join(written).encode("ascii")
        except (errors.ResultInvalid, UnicodeEncodeError) as exc:
            raise errors.ArgumentsInvalid("An argument cannot be written into the body.") from exc


def parse_leaves(value: Json, where: str, allowed: frozenset[str] = frozenset()) -> Leaves:
    """Compile the strings of a body template; the rest stays as it is. `allowed` are styles of the outermost ones."""
    if isinstance(value, dict):
        return {
            name: Template.parse(item, f"{where}.{name}", allowed=allowed)
            if isinstance(item, str)
            else parse_leaves(item, f"{where}.{name}")
            for name, item in value.items()
        }
    if isinstance(value, list):
        return [parse_leaves(item, f"{where}.{index}") for index, item in enumerate(value)]
    return Template.parse(value, where) if isinstance(value, str) else value


def _templates_in(leaves: Leaves) -> Iterator[Template]:
    if isinstance(leaves, Template):
        yield leaves
    elif isinstance(leaves, (dict, list)):
        for item in leaves.values() if isinstance(leaves, dict) else leaves:
            yield from _templates_in(item)


_ABSENT = object()


def _fill_leaf(leaf: Leaves, values: Values) -> Json:
    if isinstance(leaf, dict):
        pairs = ((name, _fill_leaf(item, values)) for name, item in leaf.items())
        return {name: item for name, item in pairs if item is not _ABSENT}
    if isinstance(leaf, list):
        return [item for item in (_fill_leaf(part, values) for part in leaf) if item is not _ABSENT]
    if not isinstance(leaf, Template):
        return leaf
    if leaf.sole_style is not None:  # written in pairs, which are of no type
        return leaf
    sole = leaf.sole_argument
    if sole is not None:
        return values.arguments.get(sole, _ABSENT)
    filled = leaf.fill(values, lambda _, value: scalar_text(value))
    return _ABSENT if filled is None else filled
