"""The tool calls of one turn: what may run beside what, and what the model is told.

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
from typing import Any

from django.conf import settings

from invocations.calling import Calls
from mcphub.chat.events import ApprovalNeeded, Event, ToolFinished, ToolStarted
from mcphub.chat.providers.pieces import ToolCall
from mcphub.chat.tools import results
from mcphub.chat.tools.functions import Functions, function_name, runs_alone
from mcphub.chat.turn import Decided, Denial, Turn
from sessions_app.protocol import json
from sessions_app.protocol.errors import (
    ArgumentsInvalid,
    ExecutionError,
    HubError,
    ParseError,
    ToolNotFound,
)
from tools_catalog.catalog import Tool


class ToolRuns:
    """What was called in a turn so far."""

    def __init__(self, turn: Turn, calls: Calls, functions: Functions, until: float = float("inf")) -> None:
        """`until`: the moment (monotonic seconds) after which no call is begun."""
        self._until = until
        self._turn = turn
        self._calls = calls
        self._functions = functions
        self._same: Counter[str] = Counter()
        """Calls by tool and arguments."""
        self._slots = asyncio.Semaphore(turn.limits.parallel)
        self.made = 0
        """Calls that the model made, refused ones included."""
        self.result_bytes = 0
        self.invocation_ids: list[str] = []
        self.waits = False
        """A call waits for an approval."""
        self._decisions: dict[str, Decided] = {}
        self.has_effects = False
        """A tool that is not marked read-only was, or may have been, run."""

    async def run(
        self, calls: list[ToolCall], round: int, done: dict[str, tuple[str, str]]
    ) -> AsyncGenerator[Event, None]:
        """Make the calls; put what the model is told, and the invocation's id, into `done` by the call's id.

        Calls that change something run alone and in their order; what stands between two of them runs side by side.
        """
        news: asyncio.Queue[Event | None] = asyncio.Queue()
        work = asyncio.create_task(self._all(calls, round, news.put_nowait, done), name="mcphub-chat-tools")
        work.add_done_callback(lambda task: news.put_nowait(None))
        try:
            while (event := await news.get()) is not None:
                yield event
            await work
        finally:
            if not work.done():
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work

    async def run_decided(self, decided: list[Decided]) -> AsyncGenerator[Event, None]:
        """Make the calls that were approved; say of the others that they were not."""
        for each in decided:
            call = ToolCall(each.call_id, function_name(each.name), json.dumps(each.arguments).decode())
            self._decisions[each.call_id] = each
            async with contextlib.aclosing(self.run([call], 0, {})) as events:
                async for event in events:
                    yield event

    async def _all(
        self, calls: list[ToolCall], round: int, tell: Callable[[Event], None], done: dict[str, tuple[str, str]]
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
            for number, call in enumerate(calls):
                tool = self._functions.tools.get(call.name)
                if tool is not None and runs_alone(tool):
                    await settle()
                    await self._one(call, tool, number, round, tell, done)
                else:
                    beside.append(asyncio.create_task(self._one(call, tool, number, round, tell, done)))
        finally:
            await settle()

    async def _one(
        self,
        call: ToolCall,
        tool: Tool | None,
        number: int,
        round: int,
        tell: Callable[[Event], None],
        done: dict[str, tuple[str, str]],
    ) -> None:
        name = tool.name if tool is not None else call.name
        async with self._slots:
            waits = await self._waits(call, tool)
            if waits is not None:
                tell(ApprovalNeeded(call_id=call.id, name=name, arguments=call.arguments, approval_id=waits))
                done[call.id] = (f"Not run yet: the call waits for the approval {waits}.", "")
                return
            tell(ToolStarted(call_id=call.id, name=name, arguments=call.arguments, round=round))
            began = time.monotonic()
            invocation_id, is_error, content = await self._call(call, tool, number, round)
            took = int((time.monotonic() - began) * 1000)
        done[call.id] = (content, invocation_id)
        self.result_bytes += len(content.encode("utf-8", "replace"))
        if invocation_id:
            self.invocation_ids.append(invocation_id)
        tell(
            ToolFinished(
                call_id=call.id,
                name=name,
                arguments=call.arguments,
                round=round,
                invocation_id=invocation_id,
                is_error=is_error,
                content=content,
                duration_ms=took,
            )
        )

    async def _call(self, call: ToolCall, tool: Tool | None, number: int, round: int) -> tuple[str, bool, str]:
        """Give invocation id, whether it failed, and what the model is told. Raises ChatError never."""
        turn, limits = self._turn, self._turn.limits
        self.made += 1
        decision = self._decisions.get(call.id)
        arguments, refusal = _arguments(call.arguments)
        same = f"{call.name}\n{json.canonical(arguments)}"
        self._same[same] += 1
        if tool is None:
            known = ", ".join(self._functions.tools)[:500]
            refusal = ToolNotFound(f"There is no function {call.name[:100]!r} here. Call one of: {known}.")
        elif decision is not None and not decision.approve:
            refusal = ExecutionError(f"The call was not approved. {decision.reason}".strip())
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
        elif self._same[same] >= limits.repeats and refusal is None:
            refusal = ExecutionError(
                f"Repeated call: {call.name} was called {self._same[same] - 1} times with these arguments. "
                "Use its result, or do something else."
            )
        if refusal is None and tool is not None and not tool.read_only:
            self.has_effects = True
        try:
            result = await self._calls.call_tool(
                turn.origin.in_turn(turn.turn_id, call.id, round),
                tool.name if tool is not None else call.name[:128] or "(no name)",
                arguments,
                request_id=turn.request_id,
                idempotency_key=self._key(same, tool) if refusal is None else None,
                check=None if refusal is None else _refusing(refusal),
            )
        except HubError as error:
            # The catalogue's words are for clients, who can list it; a model is told what it may call here.
            return error.invocation_id, True, f"Error: {(refusal or error).message}"
        text = results.text_of(result.wire, result.invocation_id, limits.one_result_bytes)
        return result.invocation_id, result.is_error, text

    async def _waits(self, call: ToolCall, tool: Tool | None) -> str | None:
        """Give the id of the approval that the call waits for, if it does: where it could be made at once otherwise."""
        gate = self._turn.gate
        if gate is None or tool is None or call.id in self._decisions or not gate.applies(tool):
            return None
        arguments, refusal = _arguments(call.arguments)
        if refusal is not None or not tool.arguments.is_valid(arguments):
            return None
        answer = await gate.ask(tool, call.id, arguments)
        if isinstance(answer, Denial):
            self._decisions[call.id] = Decided(
                call_id=call.id, name=tool.name, arguments=arguments, approve=False, reason=answer.reason
            )
            return None
        self.waits = self.waits or answer is not None
        return answer

    def _key(self, same: str, tool: Tool | None) -> str | None:
        """Give the key under which a turn that the client repeats finds what this call did the first time."""
        if self._turn.idempotency_key is None or tool is None or tool.read_only:
            return None
        text = f"{self._turn.idempotency_key}\n{same}\n{self._same[same]}"
        return f"chat-{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def _refusing(error: HubError) -> Callable[[Tool], None]:
    def check(tool: Tool) -> None:
        raise error

    return check


def _arguments(text: str) -> tuple[dict[str, Any], HubError | None]:
    """Read the arguments that a model wrote; what is no JSON object comes with the error that tells it so."""
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
