"""The tool calls of one turn: their concurrency, and their results for the model.

Every call goes through `call_tool`, also one that is refused here: an unknown function, arguments that are no JSON, a
call too many. So each is a row of the audit with the turn's id, the model's id of the call and the round.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from dataclasses import replace

from django.conf import settings

from invocations.calling import Calls
from invocations.exchange import CallRequest
from mcphub.features.chat.engine.events import ApprovalNeeded, ToolFinished, ToolStarted, TurnEvent
from mcphub.features.chat.engine.offering import NATIVE_FOUND
from mcphub.features.chat.engine.turn import DecidedCall, Denial, Turn
from mcphub.features.chat.errors import tool_error_code
from mcphub.features.chat.providers.completions import FunctionCall
from mcphub.features.chat.tools import results
from mcphub.features.chat.tools.functions import Functions, function_name, runs_alone
from sessions_app.protocol import json
from sessions_app.protocol.errors import ArgumentsInvalid, ExecutionError, HubError, ParseError, ToolNotFound
from sessions_app.protocol.json import Json
from tools_catalog.catalog.search_definitions import CALL, DESCRIBE, SEARCH
from tools_catalog.catalog.snapshot import Tool

_SEARCHING = (SEARCH, DESCRIBE, CALL)


class ToolCallRunner:
    """The calls of a turn so far."""

    def __init__(self, turn: Turn, calls: Calls, functions: Functions, until: float = float("inf")) -> None:
        """`until`: the moment (monotonic seconds) after which no call is begun, and at which those that run are given
        up."""
        self._until = until
        self._turn = turn
        self._calls = calls
        self._functions = functions
        self._times_called: Counter[str] = Counter()
        """Calls by tool and arguments."""
        self._slots = asyncio.Semaphore(turn.limits.parallel)
        self.made = 0
        """Calls that the model made, refused ones included."""
        self.result_bytes = 0
        self.invocation_ids: list[str] = []
        self.error_codes: dict[str, str] = {}
        """Of the calls that failed, by the model's id of the call."""
        self.awaits_approval = False
        """Whether a call waits for an approval."""
        self._decided = {each.call_id for each in turn.decided}
        self._asked: set[str] = set()
        """IDs of calls with an approval that is in use."""
        self._denials = {each.call_id: each.reason for each in turn.decided if not each.approve}
        """Why a call was denied, by its id."""
        self._reached = {tool.name: tool for tool in turn.reached}
        self._wrapped: set[str] = set()
        """Ids of the calls that the model made by `call_tool`."""
        self.loads = False
        """True where the provider loads the tools that a search finds."""
        self.has_effects = False
        """A tool that is not marked read-only was, or may have been, run."""

    async def run(
        self, calls: list[FunctionCall], round: int, contents: dict[str, str]
    ) -> AsyncGenerator[TurnEvent, None]:
        """Make the calls; put the results for the model into `contents` by call ID.

        Calls that change something run alone and in order; calls between two of them run concurrently.
        """
        events: asyncio.Queue[TurnEvent | None] = asyncio.Queue()
        work = asyncio.create_task(self._run_all(calls, round, events.put_nowait, contents), name="mcphub-chat-tools")
        work.add_done_callback(lambda task: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await work
        finally:
            if not work.done():
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work

    async def run_decided(self, decided: list[DecidedCall]) -> AsyncGenerator[TurnEvent, None]:
        """Make the approved calls; report the others as not made."""
        for each in decided:
            call = FunctionCall(each.call_id, function_name(each.name), json.dumps(each.arguments).decode())
            async with contextlib.aclosing(self.run([call], 0, {})) as events:
                async for event in events:
                    yield event

    async def _run_all(
        self, calls: list[FunctionCall], round: int, emit: Callable[[TurnEvent], None], contents: dict[str, str]
    ) -> None:
        beside: list[asyncio.Task[None]] = []

        async def settle() -> None:
            try:
                await asyncio.gather(*beside)
            except BaseException:
                for task in beside:
                    task.cancel()
                await asyncio.gather(*beside, return_exceptions=True)
                raise
            beside.clear()

        try:
            for number, made in enumerate(calls):
                call, tool = self._meant(made)
                if tool is not None and runs_alone(tool):
                    await settle()
                    await self._run_one(call, tool, number, round, emit, contents)
                else:
                    beside.append(asyncio.create_task(self._run_one(call, tool, number, round, emit, contents)))
        finally:
            await settle()

    def _meant(self, call: FunctionCall) -> tuple[FunctionCall, Tool | None]:
        """Return the call that the model means, and its tool: of `call_tool` the one that it wraps."""
        tool, toolset = self._functions.tools.get(call.name), self._turn.searched
        if toolset is None:
            return call, tool
        if tool is None and (reached := self._functions.reached.get(call.name)) is not None:
            return call, reached
        arguments, refusal = _arguments(call.arguments)
        meant = toolset.meant(arguments) if call.name == CALL and refusal is None else None
        if meant is None:
            return call, tool
        name, wrapped = meant
        self._wrapped.add(call.id)
        return FunctionCall(call.id, name, json.dumps(wrapped).decode()), self._reached.get(name)

    async def _run_one(
        self,
        call: FunctionCall,
        tool: Tool | None,
        number: int,
        round: int,
        emit: Callable[[TurnEvent], None],
        contents: dict[str, str],
    ) -> None:
        name = tool.name if tool is not None else call.name
        async with self._slots:
            approval_id = await self._pending_approval(call, tool)
            if approval_id is not None:
                emit(ApprovalNeeded(call_id=call.id, name=name, arguments=call.arguments, approval_id=approval_id))
                contents[call.id] = f"Not run yet: the call waits for the approval {approval_id}."
                return
            emit(ToolStarted(call_id=call.id, name=name, arguments=call.arguments, round=round))
            began = time.monotonic()
            invocation_id, code, content = await self._call(call, tool, number, round)
            took = int((time.monotonic() - began) * 1000)
        contents[call.id] = content
        if code:
            self.error_codes[call.id] = code
        self.result_bytes += len(content.encode("utf-8", "replace"))
        if invocation_id:
            self.invocation_ids.append(invocation_id)
        emit(
            ToolFinished(
                call_id=call.id,
                name=name,
                arguments=call.arguments,
                round=round,
                invocation_id=invocation_id,
                error_code=code,
                content=content,
                duration_ms=took,
            )
        )

    async def _call(self, call: FunctionCall, tool: Tool | None, number: int, round: int) -> tuple[str, str, str]:
        """Return invocation ID, error code, and the result for the model. Raises ChatError never."""
        turn, limits = self._turn, self._turn.limits
        self.made += 1
        arguments, refusal = _arguments(call.arguments)
        is_search = call.name in self._functions.tools and call.name in _SEARCHING
        if self.loads and is_search and call.name == SEARCH and refusal is None:
            arguments.setdefault("limit", NATIVE_FOUND)
        signature = f"{call.name}\n{json.canonical(arguments)}"
        self._times_called[signature] += 1
        if tool is None and call.id in self._wrapped:
            refusal = ToolNotFound(f"There is no tool {call.name[:100]!r} to call here. Find the names with {SEARCH}.")
        elif tool is None:
            known = (
                "Find functions with " + SEARCH if self.loads else f"Call one of: {', '.join(self._functions.tools)}"
            )
            refusal = ToolNotFound(f"There is no function {call.name[:100]!r} here. {known[:500]}.")
        elif call.id in self._denials:
            refusal = ExecutionError(f"The call was not approved. {self._denials[call.id]}".strip())
        elif number >= limits.calls_per_round:
            refusal = ExecutionError(
                f"Not called: one answer may call {limits.calls_per_round} tools. Call fewer at once."
            )
        elif self.made > limits.calls:
            refusal = ExecutionError(
                f"Not called: one turn may call {limits.calls} tools, and has. Answer with what there is."
            )
        elif time.monotonic() >= self._until:
            refusal = ExecutionError("Not called: the time of this turn is over. Answer with what there is.")
        elif self._times_called[signature] >= limits.repeats and refusal is None:
            refusal = ExecutionError(
                f"Repeated call: {call.name} was called {self._times_called[signature] - 1} times with these "
                "arguments. Use its result, or do something else."
            )
        if refusal is None and tool is not None and not tool.read_only:
            self.has_effects = True
        try:
            request = CallRequest(
                name=tool.name if tool is not None else call.name[:128] or "(no name)",
                arguments=arguments,
                request_id=turn.source.request_id,
                idempotency_key=self._key(signature, tool) if refusal is None else None,
                check=None if refusal is None else _refuse(refusal),
                is_approved=tool is not None and (call.id in self._decided or call.id in self._asked),
                ends_by=self._until,
                selection=turn.searched if is_search else None,
            )
            source = replace(turn.source.call, turn=(str(turn.id), call.id, round))
            result = await self._calls.call_tool(request, self._calls.exchange(source))
        except HubError as error:
            # The catalogue's words are for clients, who can list it; a model is told what it may call here.
            said = refusal or error
            return error.invocation_id, tool_error_code(said.code), f"Error: {said.message}"
        turn.record.learn(result.hidden)
        text = results.text_of(result.wire, result.invocation_id, limits.one_result_bytes)
        return result.invocation_id, tool_error_code(result.code), text

    async def _pending_approval(self, call: FunctionCall, tool: Tool | None) -> str | None:
        """Return the id of the approval that the call waits for; None where it may run, or fails without one."""
        gate = self._turn.gate
        if gate is None or tool is None or call.id in self._decided or not gate.applies(tool):
            return None
        arguments, refusal = _arguments(call.arguments)
        if refusal is not None or not tool.arguments.is_valid(arguments):
            return None
        answer = await gate.ask(self._turn, tool, call.id, arguments)
        if isinstance(answer, Denial):
            self._denials[call.id] = answer.reason
            return None
        if answer is None:
            self._asked.add(call.id)
        self.awaits_approval = self.awaits_approval or answer is not None
        return answer

    def _key(self, signature: str, tool: Tool | None) -> str | None:
        """Return the key under which a repeated turn finds this call's first result."""
        key = self._turn.source.idempotency_key
        if key is None or tool is None or tool.read_only:
            return None
        text = f"{key}\n{signature}\n{self._times_called[signature]}"
        return f"chat-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _refuse(error: HubError) -> Callable[[Tool], None]:
    def check(tool: Tool) -> None:
        raise error

    return check


def _arguments(text: str) -> tuple[dict[str, Json], HubError | None]:
    """Read a model's arguments; if they are not a JSON object, return the error for the model."""
    if not text.strip():
        return {}, None
    if len(text) > settings.MCPHUB_MAX_BODY_BYTES:
        return {"too_long": f"{len(text)} characters"}, ArgumentsInvalid(
            f"The arguments have {len(text)} characters; {settings.MCPHUB_MAX_BODY_BYTES} are the most. Write less."
        )
    try:
        value = json.loads(text.encode("utf-8", "replace"))
    except ParseError as error:
        why = error.message.replace("The body", "The text")
        return {"not_json": text}, ArgumentsInvalid(f"The arguments are not valid JSON. {why} Write them again.")
    if not isinstance(value, dict):
        return {"not_an_object": value}, ArgumentsInvalid("The arguments must be a JSON object. Write them again.")
    return value, None
