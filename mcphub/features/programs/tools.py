"""The tools by which models run programs. Operators add them like any function; nothing runs before that."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from pydantic import Field

from invocations.call import inner
from invocations.call.context import CallContext
from mcphub.features.programs import declarations, running
from mcphub.features.programs.answering import ProgramAnswerer, index_of
from mcphub.features.programs.outcome import ProgramFailed, ProgramFailure
from sessions_app.protocol.errors import ExecutionError
from tools_catalog.backends.python import Context, ToolError, tool
from tools_catalog.call.base import ToolResult
from tools_catalog.call.content import text_block

LIMITS = running.ProgramLimits()
MOST_OF_CALLER, MOST_AT_ONCE = 2, 8
"""Programs that run at the same time in one process of the hub."""
LONGEST_PROGRAM = 100_000
MOST_CHARACTERS = 20_000
"""Of declarations in one answer."""
_SHOWN_CHARACTERS = 2000
"""Of what a failed program printed, in its error."""
_CALLER_SECONDS = 1.0
"""Before the end of the call's own time, so that a program ends with its own error."""
_running: Counter[str] = Counter()


@tool(title="Run code", destructive=True, timeout_seconds=LIMITS.seconds)
async def run_code(
    context: Context,
    code: Annotated[str, Field(description="The body of an async function in JavaScript.", max_length=LONGEST_PROGRAM)],
    input: Annotated[Any, Field(description="A JSON value that the code finds as `input`.")] = None,
) -> ToolResult:
    """Run JavaScript that calls the tools of this server, and get what it prints and returns.

    Use it where a task needs many calls, or where results are large: loop, filter and count in the code, and return
    only what is needed. Call a tool by `await tools.NAME(ARGUMENTS)` or `await call(NAME, ARGUMENTS)`: its value is the
    tool's JSON or text. Several run at once by `await Promise.all([…])`. A failed call throws a HubCallError with
    `code` and `message`. Find tools by `await search(QUERY)`, their arguments by `await describe(NAME)`. `print(…)` and
    `return` are the result. There are no files, no network, no timers and no modules.
    """
    call = _call_of(context)
    if call.source.called_by is not None:
        raise _failed(ProgramFailed.NESTED, "A program cannot run another one. Put all of it into one program.")
    principal = call.source.principal
    if _running[principal] >= MOST_OF_CALLER or _running.total() >= MOST_AT_ONCE:
        raise _failed(
            ProgramFailed.BUSY,
            f"{MOST_OF_CALLER} programs of one caller and {MOST_AT_ONCE} in all run at the same time. Run it again "
            "when another has ended.",
        )
    _running[principal] += 1
    try:
        limits = running.within(LIMITS, call.deadline.remaining_seconds() - _CALLER_SECONDS)
        done = await running.run(code, input, ProgramAnswerer(call), limits)
    except running.ProgramUnavailable as error:
        raise ToolError(str(error)) from error
    except ProgramFailure as error:
        raise _failure(error) from error
    finally:
        _running[principal] -= 1
        if not _running[principal]:
            del _running[principal]
    blocks = [text_block(text) for text in (done.text, done.value) if text]
    return ToolResult(
        content=blocks or [text_block("The program printed and returned nothing.")],
        meta={"mcphub/program": {"calls": done.calls, "failedCalls": done.failed_calls}},
    )


@tool(title="Types of tools", read_only=True, open_world=False)
async def tool_types(
    context: Context,
    search: Annotated[
        str, Field(description="Only tools that these words find, the best first.", max_length=2000)
    ] = "",
    names: Annotated[list[str], Field(description="Only tools of these names.", max_length=100)] = [],  # noqa: B006 - the schema shows it, and nobody changes it
    start: Annotated[int, Field(description="The first tool to show, as the last answer named it.", ge=0)] = 0,
) -> str:
    """Return TypeScript declarations of the tools that code of run_code can call."""
    call = _call_of(context)
    selection = inner.selection_of(call)
    offered = selection.offered(call.source.caller)
    chosen = list(offered)
    if search.strip():
        chosen = [name for name in (await index_of(selection)).rank(search) if name in offered]
    if names:
        wanted = {selection.real_name(name) for name in names}
        chosen = [name for name in chosen if name in wanted]
    if start >= len(chosen):
        raise ToolError(f"{len(chosen)} tools match, and start counts from 0. Ask without start, or for other tools.")
    shown: list[str] = []
    characters = 0
    for name in chosen[start:]:
        text = declarations.of_tool(offered[name].definition)
        characters += len(text)
        if shown and characters > MOST_CHARACTERS:
            break
        shown.append(text)
    end = start + len(shown)
    more = (
        f"// {end - start} of {len(chosen)} tools. Ask for the next ones with start={end}.\n"
        if end < len(chosen)
        else ""
    )
    return f"declare const tools: {{\n{''.join(shown)}}};\n{more}"


def _call_of(context: Context) -> CallContext:
    call = context._parts
    assert isinstance(call, CallContext)
    return call


def _failure(failure: ProgramFailure) -> ExecutionError:
    printed = failure.output.text
    shown = printed if len(printed) <= _SHOWN_CHARACTERS else f"{printed[:_SHOWN_CHARACTERS]}…"
    more = f"\nIt had printed:\n{shown}" if shown else ""
    made = failure.output
    details = {"calls": made.calls, "failedCalls": made.failed_calls}
    if failure.call_code:
        details["callCode"] = failure.call_code  # type: ignore[assignment]  # JSON of two kinds
    count = f"{made.calls} call was" if made.calls == 1 else f"{made.calls} calls were"
    done = f" {count} made, and their changes stay." if made.calls else ""
    return _failed(failure.kind, f"{failure.sentence}{done}{more}", **details)


def _failed(kind: ProgramFailed, sentence: str, **details: Any) -> ExecutionError:
    return ExecutionError(f"{kind}: {sentence}", programCode=str(kind), **details)
