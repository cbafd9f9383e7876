"""Page sizes of lists: a small one is sent where the caller gives none and the API's own is large or unknown. Pure."""

from __future__ import annotations

import re
from math import ceil, floor
from typing import Any

from mcphub.features.importers.openapi.arguments import Arguments

USUAL = 25
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_FAR = 2**64
_NAMES = frozenset(
    [
        "limit",
        "top",
        "count",
        "perpage",
        "pagesize",
        "pagelen",
        "pagelimit",
        "maxresults",
        "maxitems",
        "maxrecords",
        "itemsperpage",
        "resultsperpage",
        "numresults",
    ]
)
"""Names of the parameter, in small letters alone: `per_page`, `page[size]`, `$top`."""


def bound(arguments: Arguments) -> list[str]:
    """Set a default for each page size of the query, in schema and request; return the defaults as `limit=25`."""
    found: list[str] = []
    for name, template in arguments.query.items():
        argument = template[1:-1]
        if re.sub(r"[^a-z]", "", name.lower()) not in _NAMES or argument not in arguments.properties:
            continue
        schema = arguments.properties[argument]
        size = None if argument in arguments.required else _size(schema)
        if size is None:
            continue
        arguments.properties[argument] = {**schema, "default": size}
        arguments.query[name] = f"{{{argument}|={size}}}"
        found.append(f"{name}={size}")
    return found


def _size(schema: dict[str, Any]) -> int | None:
    """Return the default for a page size; None for a schema of something else, or with a default as small."""
    if schema.get("type") not in ("integer", ["integer", "null"]) or {"enum", "const", "multipleOf"} & schema.keys():
        return None
    usual = schema.get("default")
    if usual is not None and (not isinstance(usual, int) or usual <= USUAL):
        return None
    if any(not -_FAR <= schema[name] <= _FAR for name in _BOUNDS if name in schema):
        return None
    lowest = max(ceil(schema.get("minimum", 1)), floor(schema.get("exclusiveMinimum", 0)) + 1, 1)
    highest = min(floor(schema.get("maximum", _FAR)), ceil(schema.get("exclusiveMaximum", _FAR)) - 1)
    size = max(lowest, min(USUAL, highest))
    return size if size <= highest and (usual is None or size < usual) else None
