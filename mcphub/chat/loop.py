"""The engine: one turn from the client's messages to the model's last word. All chat doors run it.

`Engine.run` is an async generator of events. It must be closed by whoever iterates (`contextlib.aclosing`), and be
iterated by one task: cancelling that task cancels the request to the provider and every tool under way, which are
recorded as cancelled before the cancellation goes on. What fails the whole turn raises `ChatError`; what a tool did
wrong is told to the model.

A call that waits for an approval (`Turn.gate`) gets a result that says so, and the turn ends. A later turn that has the
decision (`Turn.decided`) makes the call first, puts its result in the place of the other, and asks the model.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import AsyncGenerator
from typing import Any

from invocations.calling import Calls
from mcphub.chat import asking, history
from mcphub.chat.asking import Asking
from mcphub.chat.errors import ChatError
from mcphub.chat.events import (
    ClientToolCalls,
    Event,
    Finished,
    MessageAdded,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    Usage,
)
from mcphub.chat.providers.client import ProviderClient
from mcphub.chat.providers.pieces import Answer, ToolCall
from mcphub.chat.providers.snapshot import Model
from mcphub.chat.toolruns import ToolRuns
from mcphub.chat.turn import Turn

logger = logging.getLogger(__name__)

_WORTH_ANOTHER = frozenset({
    "PROVIDER_UNAVAILABLE", "CONNECTION_FAILED", "TRANSPORT_ERROR", "TIMEOUT", "QUOTA_EXCEEDED",
    "AUTHENTICATION_FAILED",
})  # fmt: skip
"""Failures of a provider that another one may not share."""


class Engine:
    """One a process."""

    def __init__(self, calls: Calls, client: ProviderClient) -> None:
        self._calls = calls
        self._client = client

    async def run(self, turn: Turn) -> AsyncGenerator[Event, None]:
        """Answer a turn. The last event is `Finished`; raises ChatError."""
        async with contextlib.aclosing(_Run(turn, self._calls, self._client).events()) as events:
            async for event in events:
                yield event


class _Run:
    """One turn under way."""

    def __init__(self, turn: Turn, calls: Calls, client: ProviderClient) -> None:
        self._turn = turn
        self._client = client
        self._functions = asking.functions_of(turn)
        self._deadline = time.monotonic() + turn.limits.seconds
        self._runs = ToolRuns(turn, calls, self._functions, self._deadline)
        self._candidates = [turn.choice.model, *turn.choice.fallbacks]
        self._messages = list(turn.messages)
        self._added: list[dict[str, Any]] = []
        self._rounds: list[dict[str, Any]] = []
        self._usage: Usage | None = Usage()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._round = 0

    async def events(self) -> AsyncGenerator[Event, None]:
        async with contextlib.aclosing(self._carry_out_decided()) as events:
            async for event in events:
                yield event
        while True:
            stop_reason = self._exhausted()
            self._round += 1
            answer = Answer()
            try:
                async with contextlib.aclosing(self._ask(answer, without_tools=stop_reason is not None)) as events:
                    async for event in events:
                        yield event
            except ChatError as error:
                if stop_reason is None or error.code in ("INVALID_QUERY", "CONTENT_FILTER"):
                    raise self._told(error) from error
                logger.warning("The last answer of the turn %s failed: %s", self._turn.turn_id, error)
                answer.finish_reason = "length"
            if not answer.calls or answer.finish_reason == "content_filter" or stop_reason is not None:
                break
            calls = self._identified(answer.calls)
            self._refuse_mixture(calls)
            yield self._say({**_assistant(answer), "tool_calls": [call.wire() for call in calls]})
            async with contextlib.aclosing(self._carry_out(calls)) as events:
                async for event in events:
                    yield event
            theirs = [call.wire() for call in calls if call.name in self._functions.client_tools]
            if theirs:
                yield ClientToolCalls(theirs)
                yield self._finished("tool_calls", "approval_required" if self._runs.waits else None)
                return
            if self._runs.waits:
                yield self._finished("stop", "approval_required")
                return
        reason = answer.finish_reason or "stop"
        if reason == "tool_calls":  # it says so and calls nothing, or was told not to
            reason = "length" if answer.calls else "stop"
        self._say(_assistant(answer))
        yield self._finished(reason, stop_reason)

    # The model -----------------------------------------------------------------------------------

    async def _ask(self, answer: Answer, *, without_tools: bool) -> AsyncGenerator[Event, None]:
        """Ask the model; where it cannot be reached and nothing has happened yet, the next one of the choice."""
        while True:
            model = self._candidates[0]
            began = time.monotonic()
            has_said = False
            request = Asking(
                self._turn, model, self._functions, self._messages, is_first=self._round == 1,
                without_tools=without_tools,
            )  # fmt: skip
            try:
                pieces = self._client.ask(model, request.body, answer, stream=request.stream, until=self._deadline)
                async with contextlib.aclosing(pieces):
                    async for text, reasoning in pieces:
                        if reasoning:
                            has_said = True
                            yield ReasoningDelta(reasoning)
                        if text and not request.is_constrained:
                            has_said = True
                            yield TextDelta(text)
            except ChatError as error:
                self._note(model, began, answer, error)
                may_change = not has_said and not self._runs.made and error.code in _WORTH_ANOTHER
                if not may_change or len(self._candidates) == 1:
                    raise
                logger.warning("%s fails (%s); %s takes over", model.id, error.code, self._candidates[1].id)
                del self._candidates[0]
                answer.clear()
                continue
            if request.is_constrained:
                request.understand(answer)
                if answer.text:
                    yield TextDelta(answer.text)
            self._note(model, began, answer, None)
            self._text.append(answer.text or answer.refusal)
            if answer.refusal and not answer.text:
                yield TextDelta(answer.refusal)
            self._reasoning.append(answer.reasoning)
            return

    def _note(self, model: Model, began: float, answer: Answer, error: ChatError | None) -> None:
        """Keep what one request to a provider came to."""
        noted: dict[str, Any] = {
            "provider": model.provider.slug, "model": model.name, "round": self._round,
            "duration_ms": int((time.monotonic() - began) * 1000),
        }  # fmt: skip
        if error is not None:
            noted["error"] = error.code
        else:
            noted["finish_reason"] = answer.finish_reason
            noted["usage"] = answer.usage.wire() if answer.usage is not None else None
            if self._usage is not None:
                self._usage = self._usage.plus(answer.usage) if answer.usage is not None else None
        self._rounds.append(noted)

    # The tools -----------------------------------------------------------------------------------

    async def _carry_out(self, calls: list[ToolCall]) -> AsyncGenerator[Event, None]:
        """Run what the model called of the hub, and add the results in the order of the calls."""
        ours = [call for call in calls if call.name not in self._functions.client_tools]
        results: dict[str, tuple[str, str]] = {}
        async with contextlib.aclosing(self._runs.run(ours, self._round, results)) as events:
            async for event in events:
                yield event
        for call in ours:
            content, invocation_id = results[call.id]
            yield self._say({"role": "tool", "tool_call_id": call.id, "content": content}, invocation_id)

    async def _carry_out_decided(self) -> AsyncGenerator[Event, None]:
        """Do what was decided of calls that waited; their results stand where it said that they wait."""
        async with contextlib.aclosing(self._runs.run_decided(self._turn.decided)) as events:
            async for event in events:
                yield event
                if isinstance(event, ToolFinished):
                    self._messages = history.with_result(self._messages, event.call_id, event.content)

    def _identified(self, calls: list[ToolCall]) -> list[ToolCall]:
        """Give each call an id of its own: some models leave it out, or use one twice."""
        seen = {call["id"] for message in self._messages for call in message.get("tool_calls") or ()}
        for number, call in enumerate(calls):
            if not call.id or call.id in seen:
                call.id = f"call_{self._turn.turn_id.replace('-', '')[:12]}_{self._round}_{number}"
            seen.add(call.id)
        return calls

    def _refuse_mixture(self, calls: list[ToolCall]) -> None:
        are_theirs = {call.name in self._functions.client_tools for call in calls}
        if len(are_theirs) == 2 and not self._turn.may_mix:
            raise self._told(
                ChatError(
                    "INVALID_QUERY",
                    "The model calls tools of the hub and functions of yours at once, and without a session the hub "
                    "cannot keep its results until yours are there. Send x_mcp.session_id, or parallel_tool_calls: "
                    "false.",
                    param="tools",
                )
            )

    def _exhausted(self) -> str | None:
        """Say which budget of the turn is used up: then the model is asked once more, without tools."""
        limits = self._turn.limits
        if not self._functions:
            return None
        if self._round >= limits.rounds:
            return "max_tool_rounds"
        if self._runs.made >= limits.calls:
            return "max_tool_calls"
        if self._round and time.monotonic() >= self._deadline:
            return "max_seconds"
        if self._runs.result_bytes >= limits.result_bytes:
            return "max_result_bytes"
        return None

    # The end -------------------------------------------------------------------------------------

    def _say(self, message: dict[str, Any], invocation_id: str = "") -> MessageAdded:
        self._messages.append(message)
        self._added.append(message)
        return MessageAdded(message, invocation_id)

    def _told(self, error: ChatError) -> ChatError:
        """Give an error of the turn with what it must say of tools that have run."""
        if self._runs.has_effects and self._turn.idempotency_key is None:
            error.should_retry = False
        elif any(each.approve for each in self._turn.decided):
            error.should_retry = False  # the approval is used up, so the same request would be refused
        elif error.code in ("TIMEOUT", "TRANSPORT_ERROR"):
            error.should_retry = True  # asking a model again does nothing twice
        error.details = {"rounds": self._rounds, "invocation_ids": self._runs.invocation_ids, **error.details}
        error.messages_added = self._added
        return error

    def _finished(self, reason: str, stop_reason: str | None) -> Finished:
        last = self._candidates[0]
        return Finished(
            reason=reason, stop_reason=stop_reason, text="".join(self._text), reasoning="".join(self._reasoning),
            usage=self._usage, messages_added=self._added, rounds=self._rounds, provider=last.provider.slug,
            model=last.name, invocation_ids=self._runs.invocation_ids, functions=self._functions.renamed,
        )  # fmt: skip


def _assistant(answer: Answer) -> dict[str, Any]:
    return {"role": "assistant", "content": answer.text or answer.refusal or (None if answer.calls else "")}
