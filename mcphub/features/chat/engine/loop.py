"""The engine: one turn from the client's messages to the model's last word. All chat endpoints run it.

`TurnRun.events` is an async generator. It must be closed by whoever iterates (`contextlib.aclosing`), and be iterated
by one task: cancelling that task cancels the request to the provider and every tool under way, which are recorded as
cancelled before the cancellation goes on. A failure of the whole turn raises `ChatError`; a tool's failure is
reported to the model.

A quota of tokens or money that a round exhausts ends the turn (`Metering`): the model gets no further request, its
calls of the hub's tools are not made, and the hub's message takes the place of its last text.

A call that waits for approval (`Turn.gate`) gets a result that explains it, and the turn ends. A later turn that has
the decision (`Turn.decided`) makes the call first, puts its result in the place of the other, and asks the model.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from dataclasses import replace
from types import MappingProxyType

from invocations.calling import Calls
from mcphub.features.chat import messages as chat_messages
from mcphub.features.chat.engine import outgoing
from mcphub.features.chat.engine.events import (
    ClientToolCalls,
    MessagesAdded,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    TurnEvent,
    TurnFinished,
)
from mcphub.features.chat.engine.metering import Metering
from mcphub.features.chat.engine.offering import ToolOffer, offer_for
from mcphub.features.chat.engine.provider_request import ProviderRequest, speaker
from mcphub.features.chat.engine.tool_calls import ToolCallRunner
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.providers.client import ProviderClient
from mcphub.features.chat.providers.completions import FunctionCall, ProviderCompletion, TokenUsage
from mcphub.features.chat.providers.provider_errors import REASON
from mcphub.features.chat.providers.snapshot import Model
from mcphub.features.chat.providers.wires.wire import ITEMS
from mcphub.features.chat.tools import constrained
from mcphub.features.chat.tools.functions import Functions, is_about_tools
from sessions_app.protocol.json import Json

logger = logging.getLogger(__name__)

_NONE: Mapping[str, str] = MappingProxyType({})
_WORTH_ANOTHER = frozenset({"PROVIDER_UNAVAILABLE", "QUOTA_EXCEEDED", "AUTHENTICATION_FAILED"})
"""Failures of a provider that another one may not share."""
_MOST_CHANGES = 8
_MIXED_CALLS = (
    "The model calls tools of the hub and functions of yours at once, and without a session the hub cannot keep its "
    "results until yours are there. Send x_mcp.session_id, or parallel_tool_calls: false."
)


class TurnRun:
    """One turn under way."""

    def __init__(self, turn: Turn, calls: Calls, client: ProviderClient, metering: Metering) -> None:
        self._turn = turn
        self._client = client
        self._metering = metering
        self._functions = Functions(turn.tools, turn.client_tools, turn.reached)
        self._calls = ToolCallRunner(turn, calls, self._functions, turn.tools_end_at)
        self._candidates = [turn.choice.model, *turn.choice.fallbacks]
        self._messages = list(turn.messages)
        self._added: list[dict[str, Json]] = []
        """The turn's additions to the conversation; `_stored` of them have been reported."""
        self._stored = 0
        self._refusing = outgoing.refusing(turn.messages)
        """Models that refused to load tools, in this conversation."""
        self._offer = ToolOffer.SEARCH
        """How the last request offered the tools."""
        self._notices: list[str] = []
        self._rounds: list[dict[str, Json]] = []
        self._usage: TokenUsage | None = TokenUsage()
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._round = 0
        self._changes = 0
        """Times that the tools were sent otherwise, because a provider refused them."""

    async def events(self) -> AsyncGenerator[TurnEvent, None]:
        """Answer the turn. The last event is `TurnFinished`; raises ChatError."""
        if self._turn.decided:
            async with contextlib.aclosing(self._run_decided()) as events:
                async for event in events:
                    yield event
        while True:
            stop_reason = self._exhausted_budget()
            self._round += 1
            answer = ProviderCompletion()
            try:
                async with contextlib.aclosing(self._complete(answer, without_tools=stop_reason is not None)) as events:
                    async for event in events:
                        yield event
            except ChatError as error:
                if error.code == "QUOTA_REACHED" and self._round > 1:
                    for end in self._ended_by_quota(error, ""):
                        yield end
                    return
                if stop_reason is None or error.code in ("INVALID_QUERY", "CONTENT_FILTER"):
                    raise self._with_progress(error) from error
                logger.warning("The last answer of the turn %s failed: %s", self._turn.id, error)
                answer.finish_reason = "length"
            if not answer.calls or answer.finish_reason == "content_filter" or stop_reason is not None:
                break
            async with contextlib.aclosing(self._carry_out(answer)) as events:
                async for event in events:
                    yield event
                    if isinstance(event, TurnFinished):
                        return
        yield self._answered(answer, stop_reason)

    async def _carry_out(self, answer: ProviderCompletion) -> AsyncGenerator[TurnEvent, None]:
        """Make the calls of one answer; a last event `TurnFinished` where the turn ends with them."""
        calls = self._with_ids(answer.calls)
        client_tools = self._functions.client_tools
        hub_calls = [call for call in calls if call.name not in client_tools]
        client_calls = [
            replace(call, name=self._functions.client_name(call.name)).told()
            for call in calls
            if call.name in client_tools
        ]
        if hub_calls and client_calls and not self._turn.may_mix_calls:
            raise self._with_progress(invalid("tools", _MIXED_CALLS))
        if hub_calls and (full := self._metering.refusal()) is not None:
            for end in self._ended_by_quota(full, answer.text):
                yield end
            return
        message = {**_assistant(answer), "tool_calls": [call.wire() for call in calls]}
        self._keep(message, answer, calls)
        yield self._add(message)
        if hub_calls:
            async with contextlib.aclosing(self._run_calls(hub_calls)) as events:
                async for event in events:
                    yield event
        if client_calls:
            yield ClientToolCalls(client_calls, {n: value for n, value in answer.vendor.items() if n != ITEMS})
            yield self._finished("tool_calls", "approval_required" if self._calls.awaits_approval else None)
        elif self._calls.awaits_approval:
            yield self._finished("stop", "approval_required")

    def _answered(self, answer: ProviderCompletion, stop_reason: str | None) -> TurnFinished:
        """Keep the last answer of the turn."""
        reason = answer.finish_reason or "stop"
        if reason == "tool_calls":  # it says so and calls nothing, or was told not to
            reason = "length" if answer.calls else "stop"
        last = _assistant(answer)
        self._keep(last, answer, [])
        self._added.append(last)
        return self._finished(reason, stop_reason)

    # The model -----------------------------------------------------------------------------------

    async def _complete(self, answer: ProviderCompletion, *, without_tools: bool) -> AsyncGenerator[TurnEvent, None]:
        """Ask the model; where it cannot be reached and nothing has happened yet, the next one of the choice."""
        while True:
            model = self._candidates[0]
            began = time.monotonic()
            has_output = False
            self._offer = offer_for(self._turn, model, self._functions, self._refusing)
            self._calls.loads = self._offer.is_native
            request = ProviderRequest.build(
                self._turn,
                model,
                self._functions,
                self._messages,
                is_first=self._round == 1,
                without_tools=without_tools,
                offer=self._offer,
            )
            if self._round > 1 or model is not self._turn.choice.model:  # the first request was admitted with the turn
                await self._metering.admit(model)
            try:
                pieces = self._client.ask(
                    model, request.body, answer, stream=request.stream, until=self._turn.ends_at, wire=request.wire
                )
                async with contextlib.aclosing(pieces):
                    async for text, reasoning in pieces:
                        if reasoning:
                            has_output = True
                            yield ReasoningDelta(reasoning)
                        if text and not request.is_constrained:
                            has_output = True
                            yield TextDelta(text)
            except ChatError as error:
                await self._record_round(model, request, began, answer, error)
                if has_output or not (self._may_send_tools_otherwise(model, error) or self._may_ask_another(error)):
                    raise
                answer.clear()
                continue
            except (asyncio.CancelledError, GeneratorExit):  # the provider counts what its client did not stay for
                self._metering.count_unheard(model, self._metering.measure(model, request, answer))
                raise
            if request.is_constrained:
                _read_constrained(answer)
                if answer.text:
                    yield TextDelta(answer.text)
            await self._record_round(model, request, began, answer, None)
            self._text.append(answer.text or answer.refusal)
            if answer.refusal and not answer.text:
                yield TextDelta(answer.refusal)
            self._reasoning.append(answer.reasoning)
            return

    def _may_send_tools_otherwise(self, model: Model, error: ChatError) -> bool:
        """Change the tools that a provider refused, so that one of them does not fail the turn; False where that is
        not why it refuses, or nothing is left to change."""
        words = error.message.partition(REASON)[2]
        is_refused = error.code == "INVALID_QUERY" and bool(self._functions.tools)
        if not is_refused or self._changes >= _MOST_CHANGES or time.monotonic() >= self._turn.ends_at:
            return False
        if self._offer.is_native:
            return self._may_load_otherwise(model, error, words)
        if not is_about_tools(words, error.param):
            return False
        self._changes += 1
        logger.warning("A provider refuses tools of the turn %s, which are sent otherwise: %s", self._turn.id, words)
        return self._functions.give_way(words, error.param)

    def _may_ask_another(self, error: ChatError) -> bool:
        """Drop the failed model if another one is left; return whether one is."""
        may_change = not self._calls.made and error.code in _WORTH_ANOTHER
        if not may_change or len(self._candidates) == 1 or time.monotonic() >= self._turn.ends_at:
            return False
        failed = self._candidates.pop(0)
        logger.warning("%s fails (%s); %s takes over", failed.id, error.code, self._candidates[0].id)
        return True

    def _may_load_otherwise(self, model: Model, error: ChatError, words: str) -> bool:
        """Change the function that a provider names, else offer three tools: a provider that does not load tools must
        not fail the turn."""
        if error.openai_code == "context_length_exceeded":
            return False
        self._changes += 1
        if not self._functions.leave_out_found(words):
            self._refusing.add(model.id)
            self._notices.append(
                f"{model.id} refused to load tools ({self._offer.value}): this conversation goes on with three tools "
                f"that search. Set how tools are offered on the provider's page. {words}".strip()
            )
        logger.warning("%s refuses tools of the turn %s, which are sent otherwise: %s", model.id, self._turn.id, words)
        return True

    async def _record_round(
        self, model: Model, request: ProviderRequest, began: float, answer: ProviderCompletion, error: ChatError | None
    ) -> None:
        """Store the outcome of one provider request, and count it in the quotas."""
        entry: dict[str, Json] = {
            "provider": model.provider.slug,
            "model": model.name,
            "round": self._round,
            "duration_ms": int((time.monotonic() - began) * 1000),
        }
        if self._turn.searched is not None:
            entry["tools_offered"] = self._offer.value
        if error is not None:
            entry["error"] = error.code
        else:
            entry["finish_reason"] = answer.finish_reason
            entry["usage"] = answer.usage.wire() if answer.usage is not None else None
            if self._usage is not None:
                self._usage = self._usage.plus(answer.usage) if answer.usage is not None else None
        self._rounds.append(entry)
        if error is None or error.code == "TIMEOUT" or not answer.is_empty:
            use = self._metering.measure(model, request, answer)
            entry |= use.wire()
            await self._metering.count(model, use)

    # The tools -----------------------------------------------------------------------------------

    async def _run_calls(self, calls: list[FunctionCall]) -> AsyncGenerator[TurnEvent, None]:
        """Run the model's calls of the hub, and add the results in the order of the calls."""
        results: dict[str, str] = {}
        async with contextlib.aclosing(self._calls.run(calls, self._round, results)) as events:
            async for event in events:
                yield event
        yield self._add(
            *({"role": "tool", "tool_call_id": call.id, "content": results[call.id]} for call in calls),
            error_codes={
                call.id: self._calls.error_codes[call.id] for call in calls if call.id in self._calls.error_codes
            },
        )

    async def _run_decided(self) -> AsyncGenerator[TurnEvent, None]:
        """Carry out decisions about waiting calls; their results replace the waiting notice."""
        async with contextlib.aclosing(self._calls.run_decided(self._turn.decided)) as events:
            async for event in events:
                yield event
                if isinstance(event, ToolFinished):
                    self._messages = chat_messages.with_result(self._messages, event.call_id, event.content)

    def _with_ids(self, calls: list[FunctionCall]) -> list[FunctionCall]:
        """Set an id of its own on each call: some models leave it out, or use one twice."""
        seen = {call["id"] for message in self._messages for call in message.get("tool_calls") or ()}
        for number, call in enumerate(calls):
            if not call.id or call.id in seen:
                call.id = f"call_{self._turn.id.hex[:12]}_{self._round}_{number}"
            seen.add(call.id)
        return calls

    def _exhausted_budget(self) -> str | None:
        """Return the exhausted budget of the turn: then the model is asked once more, without tools."""
        limits = self._turn.limits
        if not self._functions:
            return None
        if self._round >= limits.rounds:
            return "max_tool_rounds"
        if self._calls.made >= limits.calls:
            return "max_tool_calls"
        if self._round and time.monotonic() >= self._turn.tools_end_at:
            return "max_seconds"
        if self._calls.result_bytes >= limits.result_bytes:
            return "max_result_bytes"
        return None

    # The end -------------------------------------------------------------------------------------

    def _keep(self, message: dict[str, Json], answer: ProviderCompletion, calls: list[FunctionCall]) -> None:
        """Keep with a message what only its model reads."""
        model = self._candidates[0]
        outgoing.keep(message, answer, calls, speaker(model, self._offer), self._refusing)

    def _add(self, *messages: dict[str, Json], error_codes: Mapping[str, str] = _NONE) -> MessagesAdded:
        self._messages += messages
        self._added += messages
        self._stored = len(self._added)
        return MessagesAdded(list(messages), error_codes)

    def _ended_by_quota(self, why: ChatError, said: str) -> list[TurnEvent]:
        """End the turn with the hub's own message after the model's last text."""
        words = f"{chr(10) * 2 if any(self._text) else ''}{why.message}"
        self._text.append(words)
        self._added.append({"role": "assistant", "content": f"{said}{words}" if said else words.lstrip()})
        return [TextDelta(words), self._finished("length", "quota_reached")]

    def _with_progress(self, error: ChatError) -> ChatError:
        """Return an error of the turn with the facts about tools that have run."""
        if self._calls.has_effects and self._turn.source.idempotency_key is None:
            error.should_retry = False
        elif any(each.approve for each in self._turn.decided):
            error.should_retry = False  # the approval is used up, so the same request would be refused
        error.details = {"rounds": self._rounds, "invocation_ids": self._calls.invocation_ids, **error.details}
        return error

    def _finished(self, reason: str, stop_reason: str | None) -> TurnFinished:
        last = self._candidates[0]
        called = (call["function"]["name"] for message in self._added for call in message.get("tool_calls") or ())
        return TurnFinished(
            reason=reason,
            stop_reason=stop_reason,
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            usage=self._usage,
            messages_added=self._added,
            last_messages=self._added[self._stored :],
            rounds=self._rounds,
            provider=last.provider.slug,
            model=last.name,
            invocation_ids=self._calls.invocation_ids,
            functions=self._functions.renamed | self._functions.called(called),
            left_out=self._functions.reasons,
            notices=self._notices,
            quotas=self._metering.warnings,
        )


def _read_constrained(answer: ProviderCompletion) -> None:
    """Turn the JSON of a constrained answer into a call, or into the words that it holds."""
    read = constrained.read_answer(answer.text)
    answer.replace_text(read if isinstance(read, str) else "")
    if not isinstance(read, str):
        answer.calls = [FunctionCall("", *read)]


def _assistant(answer: ProviderCompletion) -> dict[str, Json]:
    return {"role": "assistant", "content": answer.text or answer.refusal or (None if answer.calls else "")}
