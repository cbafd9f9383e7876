"""The tool that reads kept results for clients without resources. Operators add it like any function."""

from __future__ import annotations

import asyncio
from typing import Annotated

from pydantic import Field

from invocations.call.context import CallContext
from mcphub.features.fitting import result_parts
from mcphub.features.fitting.handles import PREFIX
from mcphub.features.fitting.preview import shortened, size
from mcphub.features.fitting.reading import found
from mcphub.features.fitting.settings import smallest
from mcphub.features.fitting.shaping import Shaper
from tools_catalog.backends.python import Context, ToolError, tool
from tools_catalog.call.base import ToolResult
from tools_catalog.call.content import text_block
from tools_catalog.catalog.snapshot import Tool

MOST_CHARACTERS = 20_000
"""Of one answer, where no bound of the tool, its toolsets or the caller's key is smaller."""


@tool(title="Read a result", read_only=True, open_world=False)
async def read_result(
    context: Context,
    uri: Annotated[str, Field(description="The link from the result, mcphub://results/…", max_length=200)],
    path: Annotated[str, Field(description="JSON Pointer to a part, such as /items.", max_length=1000)] = "",
    start: Annotated[int | None, Field(description="First item of a list, or character of a text.", ge=0)] = None,
    end: Annotated[int | None, Field(description="Where to stop, not included.", ge=0)] = None,
    search: Annotated[str, Field(description="Only items or lines with these words.", max_length=200)] = "",
) -> ToolResult:
    """Read a part of an earlier result that was too large to be sent whole. Use the link in that result."""
    call = context._parts
    assert isinstance(call, CallContext)
    assert call.record is not None
    id_ = uri.removeprefix(PREFIX).partition("?")[0]
    whole = await found(id_, call.record, Shaper.calls.stages)
    if whole is None:
        raise ToolError("There is no such result: it was never yours, or has expired. Call its tool again.")
    if whole.is_hidden_on_record:
        raise ToolError("The record of this result hides data, so this tool does not repeat it. Read it as a resource.")
    part = result_parts.ResultPart(path=path, start=start, end=end, search=search)
    try:
        value = await asyncio.to_thread(result_parts.of, whole.wire, part)
    except result_parts.PartError as error:
        raise ToolError(str(error)) from error
    reader = call.record.tool
    assert isinstance(reader, Tool)
    bound = Shaper.only.bound(reader, call.record.source.caller, call.record.configuration)
    shown, left_out = shortened(value, smallest(MOST_CHARACTERS, bound) or MOST_CHARACTERS)
    content = [text_block(result_parts.shown(shown).text)]
    if left_out:
        words = "; ".join(each.words() for each in left_out[:5])
        content.append(text_block(f"[MCP Hub: {size(shown)} of {size(value)} characters. Shown are {words}.]"))
    return ToolResult(content=content)
