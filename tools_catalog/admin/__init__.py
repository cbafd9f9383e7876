"""The admin pages of this floor. Django imports this package; each module registers its pages."""

from django.conf import settings

if not settings.MCPHUB_EMBEDDED:  # a host has an admin of its own
    from tools_catalog.admin import (
        allowed_hosts,
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
        "allowed_hosts",
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
