"""The tool of the pack."""

from __future__ import annotations

import asyncio
import threading

from tools_catalog.backends.python import tool


@tool(open_world=False, read_only=True)
async def weigh() -> dict[str, int]:
    """Count the tasks of the loop and the threads of the process."""
    return {"tasks": len(asyncio.all_tasks()), "threads": threading.active_count()}
