"""A tool's definition as clients read it: arguments in a table, and the JSON of it."""

from __future__ import annotations

from sessions_app.kit.shown import clipped, pretty, visible
from sessions_app.protocol.json import Json
from tools_catalog.models import McpToolDefinition
from tools_catalog.models.ruled import definition_of


def shown(tool: McpToolDefinition) -> dict[str, object] | None:
    """Return the context of `admin/hub/definition.html`; None for an unavailable row."""
    try:
        definition = definition_of(tool)
    except (ValueError, LookupError, TypeError, AttributeError):
        return None
    schema = tool.input_schema if isinstance(tool.input_schema, dict) else {}
    properties, required = schema.get("properties"), schema.get("required")
    return {
        "words": visible(tool.description),
        "raw": pretty(definition),
        "arguments": [
            {
                "name": clipped(name, 100),
                "type": _type(member),
                "is_required": name in (required or []),
                "words": visible(member.get("description", "")) if isinstance(member, dict) else "",
            }
            for name, member in (properties.items() if isinstance(properties, dict) else ())
        ],
    }


def _type(schema: Json) -> str:
    """Return a property's type in a word or two."""
    if not isinstance(schema, dict):
        return "-"
    if "enum" in schema:
        return clipped(" | ".join(map(str, schema["enum"])), 80)
    others = [word for word in ("anyOf", "oneOf", "allOf", "$ref", "const") if word in schema]
    kind = schema.get("type") or next(iter(others), "-")
    words = " | ".join(map(str, kind)) if isinstance(kind, list) else str(kind)
    return clipped(f"{words} ({schema['format']})" if "format" in schema else words, 80)
