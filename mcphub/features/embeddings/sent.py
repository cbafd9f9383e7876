"""The texts of tools that are sent to a provider, each by the digest under which its vector is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

from mcphub.features.embeddings.endpoint import EmbeddingModel
from tools_catalog.catalog.selection import Tool
from tools_catalog.catalog.snapshot import Catalog

_LONGEST_DESCRIPTION = 2000


def sent_tools(catalog: Catalog) -> list[Tool]:
    """Return the tools of toolsets that offer a search. Those of workspaces are not sent."""
    found: dict[str, Tool] = {}
    for toolset in catalog.toolsets.values():
        if toolset.searching and toolset.workspace is None:
            found |= toolset.tools
    return [tool for tool in found.values() if tool.enabled and tool.is_for_models and tool.workspace is None]


def texts_of(model: EmbeddingModel, catalog: Catalog) -> Mapping[str, str]:
    """Return the texts of all tools that are sent."""
    return {digest_of(model, text): text for text in map(text_of, sent_tools(catalog))}


def text_of(tool: Tool) -> str:
    definition = tool.definition
    properties = definition["inputSchema"].get("properties")
    arguments = ", ".join(properties) if isinstance(properties, dict) else ""
    words = [tool.name, definition.get("title", ""), str(definition.get("description", ""))[:_LONGEST_DESCRIPTION]]
    return "\n".join(filter(None, [*words, arguments]))


def digest_of(model: EmbeddingModel, text: str) -> str:
    return hashlib.sha256(f"{model.key}\n\n{text}".encode("utf-8", "surrogatepass")).hexdigest()
