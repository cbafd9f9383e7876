"""What an upstream says that it offers: read with bounds, and told apart by digests. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from sessions_app.protocol import json
from sessions_app.protocol.errors import ProtocolError

Json = Any

MAX_TOOLS: Final = 2000
MAX_PAGES: Final = 100
MAX_DEFINITION_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64

_DEFINED: Final = (
    "name",
    "title",
    "description",
    "inputSchema",
    "outputSchema",
    "annotations",
    "icons",
    "execution",
    "_meta",
)
_SCHEMA: Final = ("inputSchema", "outputSchema")
_WORDS_OF_HOPS: Final = "io.modelcontextprotocol/"
"""`_meta` keys of the protocol itself belong to one hop, and are no part of what a tool is."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One tool as the upstream lists it. `refusal` says why it can never be served, empty where it can."""

    name: str
    definition: dict[str, Json]
    digest: str
    schema_digest: str
    refusal: str = ""


class ListingInvalid(Exception):
    """The list cannot be taken as a whole; the sentence says why."""


def read(tools: list[Json]) -> dict[str, Listed]:
    """Take a whole list. Of two tools of one name neither is served; what is no tool at all is left out."""
    if len(tools) > MAX_TOOLS:
        raise ListingInvalid(f"The upstream lists {len(tools)} tools; the hub takes {MAX_TOOLS}.")
    found: dict[str, Listed] = {}
    for raw in tools:
        if not isinstance(raw, dict) or not isinstance(raw.get("name"), str) or not raw["name"]:
            continue
        tool = _read(raw)
        if tool.name in found:
            tool = Listed(
                tool.name,
                tool.definition,
                tool.digest,
                tool.schema_digest,
                "The upstream lists two tools of this name.",
            )
        found[tool.name] = tool
    return found


def storable(text: str) -> str:
    """Give foreign text as a database column takes it: without NUL and lone surrogates."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def digests(definition: dict[str, Json]) -> tuple[str, str]:
    """Give the digest of a definition, and that of its schemas alone: what calls depend on."""
    schemas = {name: definition.get(name) for name in _SCHEMA}
    return json.digest(json.canonical(definition)), json.digest(json.canonical(schemas))


def _read(raw: dict[str, Json]) -> Listed:
    definition = {name: raw[name] for name in _DEFINED if raw.get(name) is not None}
    if isinstance(meta := definition.get("_meta"), dict):
        kept = {key: value for key, value in meta.items() if not key.startswith(_WORDS_OF_HOPS)}
        definition["_meta"] = kept
        if not kept:
            del definition["_meta"]
    name = definition["name"] = storable(definition["name"][:500])
    try:
        size = len(json.dumps(definition))
        if size > MAX_DEFINITION_BYTES:
            raise ValueError(f"The definition has {size} bytes; the hub takes {MAX_DEFINITION_BYTES}.")
        if _is_deeper(definition, MAX_DEPTH):
            raise ValueError(f"The definition is nested deeper than {MAX_DEPTH} levels.")
        digest, schema_digest = digests(definition)
    except (ValueError, TypeError, RecursionError, ProtocolError) as error:
        bare = {"name": name}
        return Listed(name, bare, *digests(bare), refusal=str(error) or "The definition cannot be read.")
    return Listed(name, definition, digest, schema_digest)


def _is_deeper(value: Json, levels: int) -> bool:
    layer = [value]
    for _ in range(levels):
        layer = [
            inner
            for item in layer
            for inner in (item.values() if isinstance(item, dict) else item if isinstance(item, list) else ())
            if isinstance(inner, dict | list)
        ]
        if not layer:
            return False
    return True
