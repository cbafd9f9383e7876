"""The admin pages of this floor. Django imports this package; each module registers its pages."""

from tools_catalog.admin import (
    bundle,
    connections,
    content,
    definition,
    launch,
    services,
    tools,
    toolsets,
    upstream_tools,
)

__all__ = [
    "bundle",
    "connections",
    "content",
    "definition",
    "launch",
    "services",
    "tools",
    "toolsets",
    "upstream_tools",
]
