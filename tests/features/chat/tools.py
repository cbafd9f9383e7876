"""Tools as turns see them, without rows."""

from __future__ import annotations

from typing import Any

from sessions_app.protocol import schemas
from tools_catalog.catalog.snapshot import Tool


def tool(name: str, schema: dict[str, Any] | None = None, **fields: Any) -> Tool:
    annotations = fields.pop("annotations", {})
    definition = {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": schema or {"type": "object"},
        "annotations": annotations,
    }
    return Tool(
        name=name,
        version="1",
        digest="",
        enabled=True,
        groups=frozenset(),
        read_only=fields.get("read_only", False),
        retry_safe=False,
        timeout_seconds=1,
        calls_per_minute=None,
        definition=definition,
        arguments=schemas.compile(definition["inputSchema"]),
        result=None,
        param_headers=(),
        backend=None,  # type: ignore[arg-type]
    )
