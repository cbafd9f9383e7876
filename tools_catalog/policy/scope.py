"""Where rules about calls and guardrails apply: which tools they concern. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Protocol

APPLIES_TO = ("all", "toolset", "connection", "tool", "tag", "annotation")


class RuledTool(Protocol):
    """The attributes of a tool for rules."""

    @property
    def name(self) -> str: ...
    @property
    def former(self) -> tuple[str, ...]:
        """Names that it had, and that still lead to it."""
        ...

    @property
    def version(self) -> str: ...
    @property
    def connection(self) -> str | None: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def owner(self) -> int | None:
        """The workspace that it belongs to."""
        ...

    @property
    def definition(self) -> dict[str, Any]: ...


def concerns(applies_to: str, target: str, tool: RuledTool, toolsets: Mapping[str, frozenset[str]]) -> bool:
    """Return whether its scope covers a tool. `toolsets`: names of tools by the name of the toolset."""
    patterns = target.split()
    match applies_to:
        case "tool":
            return any(fnmatchcase(name, pattern) for name in (tool.name, *tool.former) for pattern in patterns)
        case "connection":
            return any(fnmatchcase(tool.connection or "", pattern) for pattern in patterns)
        case "toolset":
            return any(tool.name in toolsets.get(slug, ()) for slug in patterns)
        case "tag":
            return bool(set(patterns) & set(tags_of(tool.definition)))
        case "annotation":
            name, _, value = target.partition("=")
            return tool.definition.get("annotations", {}).get(name.strip()) is (value.strip() != "false")
    return True


def tags_of(definition: Mapping[str, Any]) -> list[str]:
    """Return the tags of a tool: `_meta.tags`, or where FastMCP's servers write them."""
    meta = definition.get("_meta") or {}
    for place in (meta, meta.get("fastmcp"), meta.get("_fastmcp")):
        tags = place.get("tags") if isinstance(place, dict) else None
        if isinstance(tags, list):
            return [tag for tag in tags if isinstance(tag, str)][:100]
    return []
