"""Tools for the tests of the wire: they wait until told, count what really ran, and outlast their time.

A test sees what a tool did by the files that it leaves under the hub's data directory.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Literal

from django.conf import settings

from tools_catalog.backends.python import Context, tool
from tools_catalog.backends.threads import SyncContext

_POLL_SECONDS = 0.01


@tool(open_world=False, timeout_seconds=40)
async def hold(context: Context, name: str) -> str:
    """Wait until a file `<name>.release` appears."""
    return await _hold(context, name)


@tool(open_world=False, read_only=True, timeout_seconds=40)
async def look(context: Context, name: str) -> str:
    """Wait like `hold`, but as a tool that changes nothing, whose intent is not recorded."""
    return await _hold(context, name)


@tool(open_world=False, timeout_seconds=300, task="optional")
async def errand(context: Context, name: str) -> str:
    """Wait like `hold`, as a task where the client can follow one."""
    return await _hold(context, name)


@tool(open_world=False, read_only=True, timeout_seconds=300, task="required")
async def chore(context: Context, name: str) -> str:
    """Wait like `look`, as a task only."""
    return await _hold(context, name)


@tool(open_world=False)
async def count(name: str) -> str:
    """Count the calls made with this name."""
    folder = _folder()
    _leave(folder, name, "counted")
    return f"call number {(folder / f'{name}.counted').stat().st_size}"


@tool(open_world=False, timeout_seconds=0.3)
async def outlast(name: str) -> str:
    """Take longer than the time that the tool is given."""
    folder = _folder()
    _leave(folder, name, "began")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        _leave(folder, name, "cancelled")
        raise
    return "never"


@tool(open_world=False, read_only=True)
async def tell(context: Context, times: int, fail: bool = False) -> str:
    """Report progress so many times, then answer or fail."""
    for step in range(times):
        await context.progress(step + 1, times, f"step {step + 1}")
    if fail:
        raise RuntimeError("inner words")
    return f"told {times}"


@tool(open_world=False, read_only=True)
async def tell_list(context: Context, kind: Literal["tools", "prompts", "resources"]) -> str:
    """Tell that a list has changed."""
    await context.list_changed(kind)
    return kind


@tool(open_world=False, read_only=True)
def tell_list_plainly(context: SyncContext, kind: Literal["tools", "prompts", "resources"]) -> str:
    """Tell that a list has changed, from a thread."""
    context.list_changed(kind)
    return kind


@tool(open_world=False, read_only=True)
def chatter(text: str) -> str:
    """Print wherever a process can print, as libraries and children do, and try to read."""
    print(text, "by print")
    sys.__stdout__.write(f"{text} by the first stdout\n")
    os.write(1, f"{text} by descriptor\n".encode())
    subprocess.run(["echo", text, "by a child"], check=True)
    warnings.warn(f"{text} by warning", stacklevel=1)
    return f"read {len(os.read(0, 10))}"


async def _hold(context: Context, name: str) -> str:
    folder = _folder()
    await context.progress(1, message=f"{name} began")
    _leave(folder, name, "began")
    try:
        while not (folder / f"{name}.release").exists():  # noqa: ASYNC110 - another process makes it
            await asyncio.sleep(_POLL_SECONDS)
    except asyncio.CancelledError:
        _leave(folder, name, "cancelled")
        raise
    _leave(folder, name, "ended")
    return f"{name} was released"


def _folder() -> Path:
    folder = settings.MCPHUB_DATA_DIR / "toolbox"
    folder.mkdir(exist_ok=True)
    return Path(folder)


def _leave(folder: Path, name: str, mark: str) -> None:
    with (folder / f"{name}.{mark}").open("a") as file:
        file.write(".")


from tests.toolbox import asking, offers, queued  # noqa: E402, F401 - they register their functions
