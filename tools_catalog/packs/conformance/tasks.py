"""The tools of the conformance suite that run as tasks."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from sessions_app.protocol.errors import ServerError
from tools_catalog.backends.base import Json
from tools_catalog.backends.python import Context, ToolError, tool
from tools_catalog.backends.questions import Form

_STEP_SECONDS = 0.05
_CONFIRMATION: dict[str, Json] = {
    "type": "object",
    "properties": {"confirm": {"type": "boolean"}},
    "required": ["confirm"],
}
_NAME: dict[str, Json] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@tool(read_only=True, open_world=False)
async def greet(name: str) -> str:
    """Greet somebody. Never a task."""
    return f"Hello, {name}!"


@tool(read_only=True, open_world=False, timeout_seconds=120, task="optional")
async def slow_compute(seconds: Annotated[float, Field(ge=0, le=60)], label: str = "") -> str:
    """Take so many seconds, then return a text."""
    await asyncio.sleep(seconds)
    return f"Computed {label or 'something'} in {seconds:g} s."


@tool(read_only=True, open_world=False, task="required")
async def failing_job() -> str:
    """Fail after a second, with a message meant for the model."""
    await asyncio.sleep(1)
    raise ToolError("The job failed, as it always does.")


@tool(read_only=True, open_world=False, task="required")
async def protocol_error_job() -> str:
    """Fail by an error of the protocol."""
    raise ServerError("The job ended in an error of the protocol, as it always does.")


@tool(open_world=False, task="required")
async def confirm_delete(context: Context, filename: str) -> str:
    """Ask whether a file may be deleted, and delete nothing."""
    answer = await context.elicit(f"Delete {filename}?", _CONFIRMATION, key="confirm")
    return f"{filename} was {'deleted' if answer.content.get('confirm') else 'kept'}."


@tool(open_world=False, task="required")
async def multi_input(context: Context) -> str:
    """Ask two things at once, whose answers may come one by one."""
    answers = await context.ask(
        {"name": Form("What is your name?", _NAME), "confirm": Form("Do you agree?", _CONFIRMATION)}
    )
    agrees = "agrees" if answers["confirm"].content.get("confirm") else "does not agree"
    return f"{answers['name'].content.get('name', 'Nobody')} {agrees}."


@tool(read_only=True, open_world=False, task="required", begins_task=True)
async def test_tool_with_task(context: Context) -> str:
    """Ask for a name before it becomes a task, and use it there."""
    answer = await context.elicit("What is your name?", _NAME, key="user_name")
    await context.begin_task()
    await asyncio.sleep(_STEP_SECONDS)
    return f"Hello, {answer.content.get('name', 'nobody')}, from a task!"
