"""`POST /v1/chat/completions`: OpenAI's wire over the engine, plain and streaming.

What tools do is no part of this wire: a stream tells of it in comments, which clients pass over and proxies take for a
sign of life, and `x_mcp` tells it to those that ask (`stream_options.include_x_mcp`).
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any

from django.conf import settings

from mcphub.chat import extension, requests, selection
from mcphub.chat.approvals import RowGate
from mcphub.chat.conversations import Asked
from mcphub.chat.door import ChatDoor
from mcphub.chat.events import (
    ApprovalNeeded,
    ClientToolCalls,
    Event,
    Finished,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from mcphub.chat.models_conversations import Query
from mcphub.chat.requests import ChatRequest
from mcphub.chat.turn import Turn
from sessions_app.protocol import json, sse
from tools_catalog.catalog import Tool

NEW_SESSION = "new"
"""In the place of a session's id: begin one."""


class Completions(ChatDoor):
    async def answer(self) -> None:
        asked = requests.read(
            await self.read_object(), most_characters=settings.MCPHUB_CHAT_MAX_CONTENT,
            session_id=self.header(b"x-session-id") or None,
        )  # fmt: skip
        await self.draw()
        turn = await self.turn(asked)
        talks = self.chat.talks
        async with self.attended(turn), talks.begin(self._asked(asked, turn)) as talk:
            turn.messages = talk.messages
            if talk.session is not None and asked.model is None:
                turn.choice = self.chat.preferred(talk.session.provider_preference) or turn.choice
            answer = _Stream(self, asked, turn) if asked.stream else _Whole(self, asked, turn)
            async with contextlib.aclosing(self.chat.engine.run(turn)) as events:
                async for event in events:
                    await talk.hear(event)
                    await answer.take(event)

    async def turn(self, asked: ChatRequest) -> Turn:
        """Make the turn of a request; its messages come with the conversation. Raises ChatError."""
        own = self.chat.key_settings(self.caller)
        choice = self.chat.providers().choose(asked.model or own.model)
        wanted = own.wanted() if asked.wanted is None else asked.wanted
        chosen = selection.select(self.hub.catalog(), self.caller, wanted)
        session_id = asked.session_id
        if session_id == NEW_SESSION:
            session_id = str((await self.chat.talks.open(self.caller)).pk)
        if session_id is not None:
            self.more_headers.append((b"x-session-id", session_id.encode("ascii", "replace")[:64]))
        turn_id = str(uuid.uuid4())

        def waits(tool: Tool) -> bool:
            return chosen[tool.name][1].needs_approval(tool, unsaid=False)

        return Turn(
            turn_id=turn_id, origin=await self.origin(), choice=choice, messages=[],
            tools=[tool for tool, _ in chosen.values()], client_tools=asked.client_tools,
            may_mix=session_id is not None, parameters=asked.parameters, stream=asked.stream,
            gate=RowGate(self.caller, turn_id, self.chat.approval_policies(), waits),
            idempotency_key=self.idempotency_key(), chat_session_id=session_id, request_id=self.request_id(),
        )  # fmt: skip

    def _asked(self, asked: ChatRequest, turn: Turn) -> Asked:
        return Asked(
            caller=self.caller, door=Query.Door.COMPLETIONS.value, messages=asked.messages,
            session_id=turn.chat_session_id, provider=asked.model or "", metadata=self.metadata(),
            client_functions=frozenset(str(each["function"]["name"]) for each in asked.client_tools),
            query_id=uuid.UUID(turn.turn_id),
        )  # fmt: skip


class _Answer:
    """What both forms of the answer share."""

    def __init__(self, door: Completions, asked: ChatRequest, turn: Turn) -> None:
        self._door = door
        self._asked = asked
        self._turn = turn
        self._head = {
            "id": f"chatcmpl-{turn.turn_id.replace('-', '')}", "created": int(time.time()),
            "model": turn.choice.asked_for,
        }  # fmt: skip
        self._calls: list[dict[str, Any]] = []
        """Of functions of the client."""
        self._approvals: list[dict[str, Any]] = []

    async def take(self, event: Event) -> None:
        if isinstance(event, ClientToolCalls):
            self._calls = event.calls
        elif isinstance(event, ApprovalNeeded):
            self._approvals.append({"id": event.approval_id, "tool": event.name, "arguments": event.arguments})

    def _extension(self, event: Finished) -> dict[str, Any]:
        """Give the `x_mcp` of an answer."""
        told = extension.of(self._turn, event, self._door.elapsed_ms(), self._asked.ignored)
        if self._approvals:
            told["approval_requests"] = self._approvals
        return told

    def _waits(self, event: Finished) -> str:
        """Give the words that tell of calls which wait for an approval; this wire has no other form for it."""
        if not self._approvals:
            return ""
        names = ", ".join(f"{each['tool']} ({each['id']})" for each in self._approvals)
        return f"{chr(10) * 2 if event.text else ''}Waiting for an approval: {names}."


class _Whole(_Answer):
    async def take(self, event: Event) -> None:
        await super().take(event)
        if not isinstance(event, Finished):
            return
        text = event.text + self._waits(event)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if event.reasoning:
            message["reasoning_content"] = event.reasoning
        if self._calls:
            message |= {"content": text or None, "tool_calls": self._calls}
        choice = {"index": 0, "message": message, "finish_reason": event.reason, "logprobs": None}
        usage = event.usage.wire() if event.usage is not None else None
        await self._door.give(
            {
                **self._head, "object": "chat.completion", "choices": [choice], "usage": usage,
                "x_mcp": self._extension(event),
            }
        )  # fmt: skip


class _Stream(_Answer):
    async def take(self, event: Event) -> None:
        await super().take(event)
        if isinstance(event, TextDelta):
            await self._delta({"content": event.text})
        elif isinstance(event, ReasoningDelta):
            await self._delta({"reasoning_content": event.text})
        elif isinstance(event, ToolStarted):
            await self._tell(f"tool {event.name} running", "tool_started", event)
        elif isinstance(event, ToolFinished):
            await self._tell(f"tool {event.name} {'failed' if event.is_error else 'done'}", "tool_finished", event)
        elif isinstance(event, Finished):
            await self._finish(event)

    async def _finish(self, event: Finished) -> None:
        if waits := self._waits(event):
            await self._delta({"content": waits})
        for index, call in enumerate(self._calls):
            function = call["function"]
            begun = {"index": index, "id": call["id"], "type": "function"}
            await self._delta({"tool_calls": [{**begun, "function": {"name": function["name"], "arguments": ""}}]})
            await self._delta({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
        await self._delta({}, event.reason)
        if self._asked.include_x_mcp:
            await self._chunk([], {"x_mcp": self._extension(event)})
        if self._asked.include_usage:
            await self._chunk([], {"usage": event.usage.wire() if event.usage is not None else None})
        await self._door.write(sse.frame(b"[DONE]"), last=True)

    async def _begin(self) -> None:
        if not self._door.has_begun:
            await self._door.begin_stream()
            await self._delta({"role": "assistant", "content": ""})

    async def _tell(self, comment: str, kind: str, event: ToolStarted | ToolFinished) -> None:
        await self._begin()
        await self._door.write(sse.comment(comment))
        if self._asked.include_x_mcp:
            told: dict[str, Any] = {
                "event": kind, "tool": event.name, "tool_call_id": event.call_id, "round": event.round,
            }  # fmt: skip
            if isinstance(event, ToolFinished):
                told |= {
                    "invocation_id": event.invocation_id, "is_error": event.is_error, "duration_ms": event.duration_ms,
                }  # fmt: skip
            await self._chunk([], {"x_mcp": told})

    async def _delta(self, delta: dict[str, Any], reason: str | None = None) -> None:
        await self._begin()
        await self._chunk([{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}])

    async def _chunk(self, choices: list[Any], more: dict[str, Any] | None = None) -> None:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        if self._asked.include_usage:
            chunk["usage"] = None
        await self._door.write(sse.frame(json.dumps({**chunk, **(more or {})})))
