"""Tools that ask their client, and leave behind how often they ran."""

from __future__ import annotations

import asyncio

from tests.toolbox.tools import _folder, _leave
from tools_catalog.backends.python import Context, tool
from tools_catalog.backends.threads import SyncContext
from tools_catalog.call import addresses

_SURE = {"type": "object", "properties": {"sure": {"type": "boolean"}}, "required": ["sure"]}


@tool(open_world=False, timeout_seconds=40)
def agree(context: SyncContext, name: str) -> str:
    """Ask from a thread whether the person is sure."""
    _leave(_folder(), name, "began")
    given = context.elicit(f"Is {name} sure?", _SURE)
    _leave(_folder(), name, "ended")
    return f"{given.action} {given.content}"


@tool(open_world=False, timeout_seconds=40)
async def side_by_side(context: Context, name: str) -> str:
    """Ask two things from two tasks."""
    _leave(_folder(), name, "began")
    try:
        async with asyncio.TaskGroup() as group:
            first = group.create_task(context.elicit("One?", _SURE, key="one"))
            second = group.create_task(context.elicit("Two?", _SURE, key="two"))
    finally:
        _leave(_folder(), name, "cleaned")
    return f"{first.result().content} {second.result().content}"


@tool(open_world=False)
async def fickle(context: Context, name: str) -> str:
    """Ask something else each time it runs."""
    _leave(_folder(), name, "began")
    times = (_folder() / f"{name}.began").stat().st_size
    given = await context.elicit(f"Attempt {times}?", _SURE, key="same")
    return f"{given.action}"


@tool(open_world=False, timeout_seconds=3)
async def impatient(context: Context) -> str:
    """Have little time, but wait for the person."""
    return str(await context.elicit("Quick?", _SURE))


@tool(open_world=False, timeout_seconds=3)
def impatient_thread(context: SyncContext) -> str:
    """The same from a thread."""
    return str(context.elicit("Quick?", _SURE))


@tool(open_world=False)
async def twice(context: Context) -> str:
    """Use a key twice, which is a mistake."""
    await context.elicit("Sure?", _SURE, key="same")
    await context.elicit("Quite sure?", _SURE, key="same")
    return "never"


@tool(open_world=False, destructive=False, idempotent=True)
async def connect(context: Context, name: str) -> str:
    """Go on only when somebody was at an address; leave there under which id it is known."""
    if (_folder() / f"{name}.release").exists():
        return "connected"
    known = context.elicitation_id("connect")
    (_folder() / f"{name}.id").write_text(known)
    await context.require_url(f"Connect {name}.", f"https://house.example/connect?to={known}", elicitation_id=known)


@tool(open_world=False, timeout_seconds=40)
def visit(context: SyncContext, name: str) -> str:
    """Lead the person to an address, and say when they are done there."""
    known = context.elicitation_id()
    given = context.elicit_url(f"Visit {name}.", f"https://house.example/{name}", elicitation_id=known)
    context.elicitation_complete(known)
    return f"{given.action} {known}"


@tool(open_world=False, destructive=False)
def person_done(id: str) -> str:
    """Do what the page behind an address does in the end."""
    addresses.completed(id)
    return "told"
