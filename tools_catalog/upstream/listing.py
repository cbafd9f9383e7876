"""An upstream's listed offers: read with bounds, and distinguished by digests. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from sessions_app.protocol import json, mcp_apps, uritemplate
from sessions_app.protocol.errors import ProtocolError
from sessions_app.protocol.tasks import EXTENSION
from tools_catalog.upstream import foreign

Json = Any

TOOL, RESOURCE, TEMPLATE, PROMPT = "tool", "resource", "template", "prompt"
KINDS: Final = (TOOL, RESOURCE, TEMPLATE, PROMPT)

METHODS: Final = {
    TOOL: ("tools/list", "tools"),
    RESOURCE: ("resources/list", "resources"),
    TEMPLATE: ("resources/templates/list", "resourceTemplates"),
    PROMPT: ("prompts/list", "prompts"),
}
"""Kind -> the method that lists it, and the member of its result."""
CAPABILITIES: Final = {TOOL: "tools", RESOURCE: "resources", TEMPLATE: "resources", PROMPT: "prompts"}

AS_TASK: Final = {"taskSupport": "optional", "by": EXTENSION}
"""`execution` of the tools of an upstream that has the extension: it decides which calls become tasks."""

MAX_OFFERS: Final = 2000
"""Of a kind."""
MAX_PAGES: Final = 100
MAX_ANSWERS: Final = 4
"""So many times the largest answer of the connection all pages of a list may have together."""
MAX_DEFINITION_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64

_NAMED: Final = {TOOL: "name", RESOURCE: "uri", TEMPLATE: "uriTemplate", PROMPT: "name"}
"""The member by which one of a kind is asked for."""
_DEFINED: Final = {
    TOOL: ("name", "title", "description", "inputSchema", "outputSchema", "annotations", "icons", "execution", "_meta"),
    RESOURCE: ("uri", "name", "title", "description", "mimeType", "annotations", "icons", "_meta"),
    TEMPLATE: ("uriTemplate", "name", "title", "description", "mimeType", "annotations", "icons", "_meta"),
    PROMPT: ("name", "title", "description", "arguments", "icons", "_meta"),
}
_SCHEMA: Final = {
    TOOL: ("inputSchema", "outputSchema"),
    RESOURCE: ("uri", "mimeType"),
    TEMPLATE: ("uriTemplate", "mimeType"),
    PROMPT: ("arguments",),
}
"""The part that a request depends on."""
_LONGEST: Final = {TOOL: 500, RESOURCE: 1000, TEMPLATE: 1000, PROMPT: 500}
NAMELESS: Final = "(no name)"
"""The name under which tools without one are refused."""
_OF_THE_MOMENT: Final = "lastModified"
"""An annotation about the time of a change, not about the content."""


@dataclass(frozen=True, slots=True)
class Listed:
    """One listed entry of the upstream, under the name of requests: for a resource its URI.

    `refusal` is the reason if it can never be made available, empty otherwise.
    """

    name: str
    definition: dict[str, Json]
    digest: str
    schema_digest: str
    refusal: str = ""


Offers = Mapping[str, Mapping[str, Listed]]
"""Kind -> name -> the upstream's definition of it. A kind that was not listed is not there."""


@dataclass(frozen=True, slots=True)
class OfferKind:
    """Declares a kind of offers of a feature: its name, and `module:attribute` of its `offer_kinds.FurtherOffers`."""

    name: str
    handler: str


class ListingInvalid(Exception):
    """The list as a whole is unusable; the sentence is the reason."""


def read(listed: list[Json], kind: str = TOOL) -> dict[str, Listed]:
    """Take a whole list. Of two with one name neither is accepted; entries that are not of their kind at all are
    omitted. Tools without a name are refused as one entry.
    """
    if len(listed) > MAX_OFFERS:
        raise ListingInvalid(f"The upstream lists {len(listed)} {METHODS[kind][1]}; the hub takes {MAX_OFFERS}.")
    found: dict[str, Listed] = {}
    nameless = 0
    for raw in listed:
        named = raw.get(_NAMED[kind]) if isinstance(raw, dict) else None
        if not isinstance(named, str) or not named:
            nameless += isinstance(raw, dict)
            continue
        one = _read(raw, kind)
        if one.name in found:
            words = "The upstream lists two tools of this name." if kind == TOOL else "The upstream lists it twice."
            one = Listed(one.name, one.definition, one.digest, one.schema_digest, words)
        found[one.name] = one
    if nameless and kind == TOOL and NAMELESS not in found:
        bare: dict[str, Json] = {"name": NAMELESS}
        words = f"The upstream lists tools without a name: {nameless}. Its author has to name them."
        found[NAMELESS] = Listed(NAMELESS, bare, *digests(bare), words)
    return found


def with_views(resources: Mapping[str, Listed], templates: Iterable[str], tools: Iterable[Listed]) -> dict[str, Listed]:
    """Return the resources and the views that tools name: a server need not list those (SEP-1865, resource
    discovery).
    """
    found = dict(resources)
    patterns = [pattern for pattern in map(_pattern, templates) if pattern is not None]
    for tool in tools:
        uri = mcp_apps.view_of(tool.definition.get("_meta"))
        if not uri or uri in found or len(found) >= MAX_OFFERS or any(each.match(uri) is not None for each in patterns):
            continue
        named = uri.removeprefix(mcp_apps.SCHEME)[:200] or uri
        found[uri] = _read({"uri": uri, "name": named, "mimeType": mcp_apps.MIME_TYPE}, RESOURCE)
    return found


def size_of(page: list[Json], most: int) -> int:
    """Return about how many bytes a page has; `most` where it cannot be written."""
    try:
        return len(json.dumps(page))
    except (ValueError, TypeError, RecursionError, ProtocolError):
        return most


def storable(text: str) -> str:
    """Return foreign text as a database column takes it: without NUL and lone surrogates."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode()


def digests(definition: dict[str, Json], kind: str = TOOL) -> tuple[str, str]:
    """Return the digest of a definition, and that of the part that requests depend on."""
    schemas = {name: definition.get(name) for name in _SCHEMA[kind]}
    return json.digest(json.canonical(definition)), json.digest(json.canonical(schemas))


def _read(raw: dict[str, Json], kind: str) -> Listed:
    definition = {name: raw[name] for name in _DEFINED[kind] if raw.get(name) is not None}
    if isinstance(meta := definition.get("_meta"), dict):
        kept = foreign.meta_of(meta)
        definition["_meta"] = kept
        if not kept:
            del definition["_meta"]
    if kind != TOOL and isinstance(hints := definition.get("annotations"), dict) and _OF_THE_MOMENT in hints:
        definition["annotations"] = {key: value for key, value in hints.items() if key != _OF_THE_MOMENT}
    member = _NAMED[kind]
    name = definition[member] = storable(definition[member][: _LONGEST[kind]])
    try:
        size = len(json.dumps(definition))
        if size > MAX_DEFINITION_BYTES:
            raise ValueError(f"The definition has {size} bytes; the hub takes {MAX_DEFINITION_BYTES}.")
        if _is_deeper(definition, MAX_DEPTH):
            raise ValueError(f"The definition is nested deeper than {MAX_DEPTH} levels.")
        digest, schema_digest = digests(definition, kind)
    except (ValueError, TypeError, RecursionError, ProtocolError) as error:
        bare = {member: name}
        return Listed(name, bare, *digests(bare, kind), refusal=str(error) or "The definition cannot be read.")
    return Listed(name, definition, digest, schema_digest)


def _pattern(template: str) -> uritemplate.UriTemplate | None:
    try:
        return uritemplate.parse(template)
    except ValueError:
        return None


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
