"""Where in a body something is not to be kept: by path, by the name of a header, by a schema's annotation.

A path is `$` and up to 16 steps: `.name`, `["any name"]`, `[0]`, `[*]` (every element), `.*` (every member) and
`..name` (a member of that name at any depth). `$` alone is the whole body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Protocol

from django.utils.translation import gettext as _

from invocations.redaction.names import Same, exact
from sessions_app.protocol import json
from sessions_app.protocol.dialect import BELOW_MAP, BELOW_ONE, HOLDERS, REFERENCES, Document, SchemaRejected, children
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json

LONGEST_PATH = 300
MOST_STEPS = 16
_STEP = re.compile(
    r"\.\.(?P<deep>[\w-]+)|\.(?P<every>\*)|\.(?P<name>[\w-]+)|\[(?P<index>\d{1,6})\]|\[(?P<each>\*)\]|"
    r'\[(?P<quoted>"(?:[^"\\]|\\.)*")\]'
)
_HEADER = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_ANNOTATIONS = ("writeOnly", "x-secret")
_HEADER_ANNOTATION = "x-mcp-header"

_MOST_PLACES = 2000
"""Of a schema, followed to find what it marks."""

Step = tuple[str, str | int]
"""`name`, `index`, `any` (every member or element) or `deep`, and its operand."""
Path = tuple[Step, ...]
Taken = tuple[tuple[Path, int], ...]
"""Paths, and how many steps of each are taken."""
Schemas = tuple[dict[str, Json], ...]
"""All that speak of one place."""


class Marker(Protocol):
    """Identifies hidden values on the way down through a body. A state is whatever it needs to know of a place."""

    start: Any

    def hides(self, state: Any, value: Json) -> bool:
        """Return whether the value at this place is not to be kept."""
        ...

    def below(self, state: Any, parent: Json, key: str | int) -> Any:
        """Return the state of a member or an element; falsy where nothing at or under it is hidden."""
        ...


def parse(text: str) -> Path:
    """Read a path; raise ValueError with the syntax."""
    how = _(
        'Enter $ followed by steps: .name, ["any name"], [0], [*] for every element, .* for every member, '
        "..name for a member at any depth; at most 16 steps. For example $.credentials.password or $..token."
    )
    if not text.startswith("$") or len(text) > LONGEST_PATH:
        raise ValueError(how)
    steps: list[Step] = []
    at = 1
    while at < len(text):
        found = _STEP.match(text, at)
        if found is None or len(steps) == MOST_STEPS:
            raise ValueError(how)
        at = found.end()
        kind = found.lastgroup
        if kind == "quoted":
            try:
                steps.append(("name", json.loads(found["quoted"].encode())))
            except (ParseError, UnicodeEncodeError) as error:
                raise ValueError(how) from error
        elif kind == "index":
            steps.append(("index", int(found["index"])))
        elif kind in ("every", "each"):
            steps.append(("any", ""))
        else:
            assert kind is not None
            steps.append((kind, found[kind]))
    return tuple(steps)


def check_header(name: str) -> None:
    """Raise ValueError for an invalid HTTP header name (RFC 9110, 5.1)."""
    if not _HEADER.fullmatch(name) or name.startswith("$"):
        raise ValueError(_("Enter the name of one HTTP header, such as Authorization."))


class Paths:
    """Several paths at once. A state holds how many steps of which paths are taken."""

    def __init__(self, paths: Iterable[Path], same: Same = exact) -> None:
        self._paths = tuple(paths)
        self._same = same
        self.start: Any = tuple((path, 0) for path in self._paths)

    @property
    def needles(self) -> list[str] | None:
        """Texts without which a body holds nothing to hide; None if that is unknown.

        Of each path its first name, since a scalar there goes whole. They do not apply to a body with escapes.
        """
        found = []
        for path in self._paths:
            kind, word = path[0] if path else ("any", "")
            if kind not in ("name", "deep") or not isinstance(word, str) or not (word.isascii() and word.isprintable()):
                return None
            found.append(word)
        return found

    def deep(self) -> Paths:
        """Return the paths that hold at any depth, and so in JSON within a text too."""
        return Paths((path for path in self._paths if path and path[0][0] == "deep"), self._same)

    def hides(self, state: Taken, value: Json) -> bool:
        # A scalar where a path leads on, such as an object sent as text, cannot be looked into: it goes whole.
        return any(
            taken == len(path) or (taken > 0 and _is_closed(value) and path[taken][0] != "deep")
            for path, taken in state
        )

    def below(self, state: Taken, parent: Json, key: str | int) -> Taken:
        found = []
        for path, taken in state:
            if taken == len(path):
                continue
            kind, word = path[taken]
            if kind == "deep":
                found.append((path, taken))
            if kind == "any" or (
                word == key
                if isinstance(key, int) or kind == "index"
                else isinstance(word, str) and self._same(word, key)
            ):
                found.append((path, taken + 1))
        return tuple(found)


class Headers:
    """Members named as a header, in any case and at any depth, and pairs {"name": header, "value": …}."""

    def __init__(self, names: Iterable[str], same: Same = exact) -> None:
        self.names = frozenset(name.casefold() for name in names)
        self._same = same
        self.start: Any = "look"

    def hides(self, state: str, value: Json) -> bool:
        return bool(state == "hide" and value is not None)

    def below(self, state: str, parent: Json, key: str | int) -> str:
        if isinstance(key, str):
            if key.casefold() in self.names or any(self._same(name, key) for name in self.names):
                return "hide"
            if key == "value" and isinstance(parent.get("name"), str) and parent["name"].casefold() in self.names:
                return "hide"
        return "look"


class Annotated:
    """The marks of a JSON Schema: `writeOnly`, `x-secret`, `format: password`, or a header named by rules.

    Follows the value through every subschema that may apply to it; whether it really does is not asked, so that a
    value of no valid form is hidden too.
    """

    def __init__(self, schema: dict[str, Json], headers: frozenset[str] = frozenset(), same: Same = exact) -> None:
        """Raises ValueError for a schema that the hub would not take."""
        self._same = same
        self._document = Document(schema)
        self._headers = headers
        self._telling: dict[int, bool] = {}
        self.start: Any = self._applied([schema])

    @classmethod
    def of(cls, schema: Json, headers: frozenset[str] = frozenset(), same: Same = exact) -> Annotated | None:
        """Return the marker of a schema; None where it marks nothing."""
        if not isinstance(schema, dict):
            return None
        text = json.canonical(schema)
        if not any(f'"{word}"' in text for word in (*_ANNOTATIONS, "password")) and not (
            headers and _HEADER_ANNOTATION in text
        ):
            return None
        try:
            found = cls(schema, headers, same)
        except SchemaRejected:
            return None
        return found if found.start else None

    def hides(self, state: Schemas, value: Json) -> bool:
        if any(self._is_marked(node) for node in state):
            return True
        return _is_closed(value) and any(self._is_for_more(node) for node in state)

    def below(self, state: Schemas, parent: Json, key: str | int) -> Schemas:
        found: list[Any] = []
        for node in state:
            for keyword, token, child in children(node):
                if isinstance(key, str):
                    applies = (
                        (keyword == "properties" and (token == key or self._same(str(token), key)))
                        or (keyword == "patternProperties" and key not in node.get("properties", ()))
                        or (
                            keyword in ("additionalProperties", "unevaluatedProperties")
                            and key not in node.get("properties", ())
                        )
                    )
                else:
                    applies = (keyword in ("items", "prefixItems") and token in (None, key)) or keyword in (
                        "additionalItems",
                        "unevaluatedItems",
                        "contains",
                    )
                if applies:
                    found.append(child)
        return self._applied(found)

    def marked(self) -> frozenset[str]:
        """Return the places that it marks, as paths; of more than can be followed the digest of the schema."""
        found: set[str] = set()
        stack: list[tuple[str, Schemas, frozenset[int]]] = [("$", self.start, frozenset())]
        looked_at = 0
        while stack:
            path, state, trail = stack.pop()
            looked_at += 1
            if looked_at > _MOST_PLACES:
                return frozenset({json.digest(json.canonical(self._document.root))})
            if any(self._is_marked(node) for node in state):
                found.add(path)
            below: dict[str, list[Json]] = {}
            for node in state:
                for keyword, token, child in children(node):
                    if step := _step_of(keyword, token):
                        below.setdefault(step, []).append(child)
            for step, nodes in below.items():
                applied = self._applied(nodes)
                ids = frozenset(map(id, applied))
                if applied and not ids <= trail:
                    stack.append((path + step, applied, trail | ids))
        return frozenset(found)

    def _is_marked(self, node: dict[str, Json]) -> bool:
        return (
            any(node.get(word) is True for word in _ANNOTATIONS)
            or node.get("format") == "password"
            or (bool(self._headers) and str(node.get(_HEADER_ANNOTATION, "")).casefold() in self._headers)
        )

    def _is_for_more(self, node: dict[str, Json]) -> bool:
        """Return whether the schema marks something inside an object or an array."""
        return any(
            self._tells(child)
            for keyword, _token, child in children(node)
            if keyword in BELOW_MAP or keyword in BELOW_ONE or keyword in ("items", "prefixItems")
        )

    def _applied(self, nodes: list[Json]) -> Schemas:
        """Return the subschemas that speak of the same value, themselves included; those that mark nothing left out."""
        found: dict[int, dict[str, Any]] = {}
        stack = list(nodes)
        while stack:
            node = stack.pop()
            if not isinstance(node, dict) or id(node) in found or not self._tells(node):
                continue
            found[id(node)] = node
            stack += self._same_place(node)
        return tuple(found.values())

    def _same_place(self, node: dict[str, Json]) -> list[Json]:
        beside = {"properties", "patternProperties", "items", "prefixItems", *BELOW_ONE, *HOLDERS}
        found = [child for keyword, _token, child in children(node) if keyword not in beside]
        targets = self._document.targets
        return found + [targets[id(node), key] for key in REFERENCES if (id(node), key) in targets]

    def _tells(self, node: object) -> bool:
        """Return whether anything that the schema leads to is marked."""
        if not isinstance(node, dict):
            return False
        known = self._telling.get(id(node))
        if known is None:
            known = self._telling[id(node)] = self._search(node)
        return known

    def _search(self, start: dict[str, Json]) -> bool:
        seen: set[int] = set()
        stack: list[Any] = [start]
        while stack:
            node = stack.pop()
            if not isinstance(node, dict) or id(node) in seen:
                continue
            seen.add(id(node))
            if self._is_marked(node):
                return True
            stack += [child for keyword, _token, child in children(node) if keyword not in HOLDERS]
            stack += [
                self._document.targets[id(node), key] for key in REFERENCES if (id(node), key) in self._document.targets
            ]
        return False


class Undescribed:
    """Texts at members that a schema has no name for, and below them. Without a schema: every text."""

    start: Any = "look"

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def hides(self, state: str, value: Json) -> bool:
        return state == "hide" and isinstance(value, str) and value != ""

    def below(self, state: str, parent: Json, key: str | int) -> str:
        is_described = state == "look" and (not isinstance(key, str) or key in self._names)
        return "look" if is_described else "hide"


def _step_of(keyword: str, token: str | int | None) -> str:
    """Return the step from a value to that which a subschema is about; empty where both are one."""
    if keyword == "properties":
        return f"[{json.canonical(token)}]"
    if keyword == "patternProperties":
        return f"[~{json.canonical(token)}]"
    if keyword in ("additionalProperties", "unevaluatedProperties"):
        return ".*"
    if keyword in ("items", "prefixItems"):
        return "[*]" if token is None else f"[{token}]"
    return "[*]" if keyword in ("additionalItems", "unevaluatedItems", "contains") else ""


def _is_closed(value: Json) -> bool:
    """Return whether the value may hold something and cannot be looked into."""
    return isinstance(value, str | int | float) and not isinstance(value, bool)
