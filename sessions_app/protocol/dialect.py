"""A JSON Schema document in parts: its subschemas, the target of each `$ref`, the possible cost of an evaluation.

Knows the keywords of draft-04 to 2020-12 that hold schemas, and nothing of values. References are resolved
inside the document only; there is no way out of it here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from urllib.parse import unquote, urldefrag, urljoin

from sessions_app.protocol.json import Json

DIALECTS = {
    "https://json-schema.org/draft/2020-12/schema": 2020,
    "https://json-schema.org/draft/2019-09/schema": 2019,
    "http://json-schema.org/draft-07/schema": 7,
    "http://json-schema.org/draft-06/schema": 6,
    "http://json-schema.org/draft-04/schema": 4,
}
DEFAULT_DIALECT = 2020

MAX_DEPTH = 64
MAX_SUBSCHEMAS = 10_000
MAX_BYTES = 1024 * 1024
MAX_EVALUATIONS = 100_000
"""How often schemas may be applied at one place of a value. References share definitions, so that 20 lines
can ask for a million evaluations; the validator remembers results only for recursive ones."""

SAME_PLACE_ONE = ("not", "if", "then", "else")
SAME_PLACE_LIST = ("allOf", "anyOf", "oneOf")
SAME_PLACE_MAP = ("dependentSchemas", "dependencies")
BELOW_ONE = (
    "additionalProperties",
    "additionalItems",
    "contains",
    "propertyNames",
    "unevaluatedProperties",
    "unevaluatedItems",
    "contentSchema",
)
BELOW_MAP = ("properties", "patternProperties")
HOLDERS = ("$defs", "definitions")
REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

_ONE = frozenset(SAME_PLACE_ONE + BELOW_ONE)
_LIST = frozenset((*SAME_PLACE_LIST, "prefixItems"))
_MAP = frozenset(SAME_PLACE_MAP + BELOW_MAP + HOLDERS)


class SchemaRejected(ValueError):
    """The hub does not take the schema. `path` is a JSON pointer to the place."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(f"{message} (at {path})" if path else message)
        self.message = message
        self.path = path


def children(schema: dict[str, Json]) -> Iterator[tuple[str, str | int | None, Json]]:
    """The direct subschemas: keyword, name or index under it (None if it holds one schema), subschema."""
    for keyword, value in schema.items():
        if keyword in _ONE:
            if isinstance(value, dict | bool):
                yield keyword, None, value
        elif keyword in _MAP:
            if isinstance(value, dict):
                # `dependencies` mixes schemas with lists of names.
                yield from ((keyword, name, child) for name, child in value.items() if not isinstance(child, list))
        elif keyword in _LIST or keyword == "items":
            if isinstance(value, list):
                yield from ((keyword, index, child) for index, child in enumerate(value))
            elif keyword == "items" and isinstance(value, dict | bool):
                yield keyword, None, value


def dialect_of(schema: dict[str, Json], path: str = "") -> int:
    """The draft number or year that `$schema` names; raises `SchemaRejected` for one that is not served."""
    name = schema.get("$schema")
    if name is None:
        return DEFAULT_DIALECT
    draft = DIALECTS.get(name.removesuffix("#")) if isinstance(name, str) else None
    if draft is None:
        served = ", ".join(DIALECTS)
        raise SchemaRejected(f"The dialect {str(name)[:80]!r} is not served. Use one of: {served}.", path)
    return draft


class Document:
    """The subschemas of one root, with every reference resolved; raises `SchemaRejected` if one leads out.

    `targets` maps (id of a subschema, reference keyword) to the schema it leads to. The ids stay valid as
    long as the document keeps the root alive. `patterns` holds every regular expression.
    """

    def __init__(self, root: dict[str, Json]) -> None:
        self.root = root
        self.draft = dialect_of(root)
        self.targets: dict[tuple[int, str], Json] = {}
        self.patterns: set[str] = set()
        self._paths: dict[int, str] = {}
        self._resources: dict[str, Json] = {"": root}
        self._anchors: dict[tuple[str, str], Json] = {}
        self._pending: list[tuple[dict[str, Json], str, str, str]] = []
        self._walk(root, "", "")
        # Resolving may lead to schemas under unknown keywords, which bring references of their own.
        while self._pending:
            node, keyword, base, path = self._pending.pop()
            self.targets[id(node), keyword] = self._resolve(node[keyword], base, path)

    def evaluations(self) -> int:
        """The most schema applications at one place of a value, capped at `MAX_EVALUATIONS` + 1."""
        return self.total(lambda _: 1, MAX_EVALUATIONS + 1)

    def total(self, own: Callable[[dict[str, Json]], int], most: int) -> int:
        """The sum of `own` (at least 1) over the schemas applied at one place of a value, at most `most`."""
        cost: dict[int, int] = {}
        stack: list[Json] = [self.root]
        while stack:
            node = stack[-1]
            if not isinstance(node, dict) or cost.get(id(node), 0) > 0:
                stack.pop()
            elif id(node) not in cost:
                cost[id(node)] = 0  # open: a reference back here is recursive and counts as one
                stack.extend(child for child in self._applied(node) if id(child) not in cost)
            else:
                cost[id(node)] = min(self._sum(node, cost, own(node)), most)
                stack.pop()
        return cost[id(self.root)]

    def _walk(self, start: Json, base: str, path: str) -> None:
        stack = [(start, base, path)]
        while stack:
            node, base, path = stack.pop()
            if not isinstance(node, dict) or id(node) in self._paths:
                continue
            if len(self._paths) >= MAX_SUBSCHEMAS:
                raise SchemaRejected(f"The schema has more than {MAX_SUBSCHEMAS} subschemas.")
            self._paths[id(node)] = path
            if "$schema" in node:
                dialect_of(node, path)
            base = self._name(node, base, path)
            self._collect_patterns(node)
            self._pending.extend((node, key, base, path) for key in REFERENCES if isinstance(node.get(key), str))
            for keyword, token, child in children(node):
                below = f"{path}/{keyword}"
                stack.append((child, base, below if token is None else f"{below}/{escape(token)}"))

    def _collect_patterns(self, node: dict[str, Json]) -> None:
        named = node.get("patternProperties")
        if isinstance(named, dict):
            self.patterns.update(named)
        if isinstance(node.get("pattern"), str):
            self.patterns.add(node["pattern"])

    def _name(self, node: dict[str, Json], base: str, path: str) -> str:
        """Record the names available to references; return the base URI for the parts below."""
        identifier = node.get("id" if self.draft == 4 else "$id")
        if isinstance(identifier, str) and not (self.draft <= 7 and "$ref" in node):
            uri, fragment = _split(base, identifier, path)
            if fragment:
                self._anchors[uri, fragment] = node
            else:
                base = uri
                self._resources[base] = node
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(keyword), str):
                self._anchors[base, node[keyword]] = node
        return base

    def _resolve(self, reference: str, base: str, path: str) -> Json:
        uri, fragment = _split(base, reference, path)
        target = self._resources.get(uri)
        if target is None:
            raise SchemaRejected(
                f"The reference {reference[:120]!r} leads out of the schema. Copy its target into $defs.", path
            )
        if fragment.startswith("/"):
            for token in fragment[1:].split("/"):
                target = _step(target, token.replace("~1", "/").replace("~0", "~"))
        elif fragment:
            target = self._anchors.get((uri, fragment))
        if not isinstance(target, dict | bool):
            raise SchemaRejected(f"The reference {reference[:120]!r} leads nowhere.", path)
        self._walk(target, uri, f"{path}/…")
        return target

    def _applied(self, node: dict[str, Json]) -> Iterator[Json]:
        yield from (child for keyword, _, child in children(node) if keyword not in HOLDERS)
        yield from self._referenced(node)

    def _referenced(self, node: dict[str, Json]) -> Iterator[Json]:
        yield from (self.targets[id(node), key] for key in REFERENCES if (id(node), key) in self.targets)

    def _sum(self, node: dict[str, Json], cost: dict[int, int], total: int) -> int:
        """Schemas for one place add up; of schemas for different places the worst counts."""
        named, positioned = 0, 0
        for keyword, token, child in children(node):
            if keyword in HOLDERS:
                continue
            own = max(cost.get(id(child), 1), 1)
            if keyword in ("properties", "additionalProperties"):
                named = max(named, own)
            elif keyword in ("prefixItems", "additionalItems") or (keyword == "items" and token is not None):
                positioned = max(positioned, own)
            else:
                total += own
        return total + named + positioned + sum(max(cost.get(id(t), 1), 1) for t in self._referenced(node))


def escape(token: str | int) -> str:
    """One step of a JSON pointer (RFC 6901)."""
    return str(token).replace("~", "~0").replace("/", "~1")


def _split(base: str, reference: str, path: str) -> tuple[str, str]:
    if reference.startswith("#"):
        return base, unquote(reference[1:])
    try:
        uri, fragment = urldefrag(urljoin(base, reference))
    except ValueError as error:
        raise SchemaRejected(f"{reference[:120]!r} is not a URI reference.", path) from error
    return uri, unquote(fragment)


def _step(target: Json, token: str) -> Json:
    if isinstance(target, list) and token.isascii() and token.isdigit() and len(token) < 6:
        index = int(token)
        return target[index] if index < len(target) else None
    return target.get(token) if isinstance(target, dict) else None
