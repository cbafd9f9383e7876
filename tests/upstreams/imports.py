"""What all modules of the hub import."""

from __future__ import annotations

import importlib
import pkgutil
import sys


def of_the_sdk() -> list[str]:
    """Import each module of the hub; give the packages of the SDK that came with them."""
    for name in ("mcphub", "invocations", "tools_catalog", "sessions_app"):
        package = importlib.import_module(name)
        for found in pkgutil.walk_packages(package.__path__, f"{name}."):
            if ".migrations" not in found.name and "__main__" not in found.name:
                importlib.import_module(found.name)
    return sorted(name for name in sys.modules if name in ("mcp", "mcp_types"))
