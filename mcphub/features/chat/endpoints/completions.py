"""`POST /v1/chat/completions`: OpenAI's wire over the engine, plain and streaming.

This wire has no place for tool activity: a stream reports it in comments, which clients skip and proxies take as a
sign of life, and in `x_mcp` on request (`stream_options.include_x_mcp`).
"""

from __future__ import annotations

import time
from functools import partial

from django.conf import settings

from mcphub.features.approvals.asking import policies_of
from mcphub.features.chat.approvals import StoredApprovalGate
from mcphub.features.chat.endpoints import completion_requests
from mcphub.features.chat.endpoints.base import ChatEndpoint
from mcphub.features.chat.endpoints.completion_requests import CompletionRequest
from mcphub.features.chat.engine import tool_selection
from mcphub.features.chat.engine.events import (
    ApprovalNeeded,
    ClientToolCalls,
    ReasoningDelta,
    TextDelta,
    ToolFinished,
    ToolStarted,
    TurnEvent,
    TurnFinished,
)
from mcphub.features.chat.engine.turn import Turn
from mcphub.features.chat.models.conversations import Query
from sessions_app.protocol import json, sse
from sessions_app.protocol.json import Json

_TOLD = frozenset({"content", "reasoning_content"})
"""Members that the answer has already, or that would be doubled."""
NEW_SESSION = "new"
"""In the place of a session's id: begin one."""


class CompletionsEndpoint(ChatEndpoint):
    async def answer(self) -> None:
        request = completion_requests.read(
            await self.read_object(),
            most_characters=settings.MCPHUB_CHAT_MAX_CONTENT,
            session_id=self.header(b"x-session-id") or None,
        )
        await self.draw()
        turn = await self._turn(request)
        async with self.attended(turn), self.chat.turn(turn) as events:
            writer = (_StreamWriter if request.stream else _PlainWriter)(self, request, turn)
            async for event in events:
                await writer.write(event)

    async def _turn(self, request: CompletionRequest) -> Turn:
        """Make the turn of a request; raise ChatError."""
        own = self.chat.key_settings(self.caller)
        choice = self.chat.providers.choose(request.model or own.model)
        servers = own.servers() if request.servers is None else request.servers
        chosen = tool_selection.select(self.hub.configuration.catalog, self.caller, servers)
        session_id = request.session_id
        if session_id == NEW_SESSION:
            session_id = str((await self.chat.conversations.open(self.caller)).pk)
        if session_id is not None:
            shown = "".join(sign if "!" <= sign <= "~" else "?" for sign in session_id[:64])
            self.more_headers.append((b"x-session-id", shown.encode()))

        return Turn(
            source=await self.turn_source(Query.EntryPoint.COMPLETIONS),
            choice=choice,
            asked_for=request.model or "",
            messages=request.messages,
            tools=[tool for tool, _ in chosen.offered.values()],
            reached=[tool for tool, _ in chosen.reached.values()],
            searched=chosen.searched,
            client_tools=request.client_tools,
            may_mix_calls=session_id is not None,
            parameters=request.parameters,
            stream=request.stream,
            gate=StoredApprovalGate(policies_of(self.hub.configuration), partial(chosen.needs_approval, default=False)),
            session_id=session_id,
        )


class _CompletionWriter:
    """Writes the events of a turn as a chat completion. A subclass implements `_finish`."""

    def __init__(self, endpoint: CompletionsEndpoint, request: CompletionRequest, turn: Turn) -> None:
        self._endpoint = endpoint
        self._request = request
        self._turn = turn
        self._head = {"id": f"chatcmpl-{turn.id.hex}", "created": int(time.time()), "model": turn.choice.asked_for}
        self._calls: list[dict[str, Json]] = []
        """Of functions of the client."""
        self._vendor: dict[str, Json] = {}
        """Members that the provider added to the message, beside OpenAI's."""
        self._approvals: list[dict[str, Json]] = []
        self._failed: list[dict[str, Json]] = []
        """Calls of the hub's tools."""

    async def write(self, event: TurnEvent) -> None:
        match event:
            case ClientToolCalls():
                self._calls = event.calls
                self._vendor = {name: value for name, value in event.vendor.items() if name not in _TOLD}
            case ToolFinished():
                if event.is_error:
                    self._failed.append(event.failure())
            case ApprovalNeeded():
                self._approvals.append({"id": event.approval_id, "tool": event.name, "arguments": event.arguments})
            case TurnFinished():
                await self._finish(event)

    async def _finish(self, event: TurnFinished) -> None:
        raise NotImplementedError

    def _extension(self, event: TurnFinished) -> dict[str, Json]:
        """Return the `x_mcp` of an answer."""
        own = {"approval_requests": self._approvals, "failed_calls": self._failed}
        more = {name: value for name, value in own.items() if value}
        return self._endpoint.extension(self._turn, event, self._request.ignored) | more

    def _approval_notice(self, event: TurnFinished) -> str:
        """Return a text about calls that wait for approval; this wire has no other form for it."""
        if not self._approvals:
            return ""
        names = ", ".join(f"{each['tool']} ({each['id']})" for each in self._approvals)
        return f"{chr(10) * 2 if event.text else ''}Waiting for an approval: {names}."


class _PlainWriter(_CompletionWriter):
    async def _finish(self, event: TurnFinished) -> None:
        text = event.text + self._approval_notice(event)
        message: dict[str, Json] = {"role": "assistant", "content": text, "refusal": None}
        if event.reasoning:
            message["reasoning_content"] = event.reasoning
        if self._calls:
            message |= {"content": text or None, "tool_calls": self._calls, **self._vendor}
        choice = {"index": 0, "message": message, "finish_reason": event.reason, "logprobs": None}
        await self._endpoint.respond_json(
            {
                **self._head,
                "object": "chat.completion",
                "choices": [choice],
                "usage": event.usage.wire() if event.usage is not None else None,
                "x_mcp": self._extension(event),
            }
        )


class _StreamWriter(_CompletionWriter):
    async def write(self, event: TurnEvent) -> None:
        match event:
            case TextDelta():
                await self._delta({"content": event.text})
            case ReasoningDelta():
                await self._delta({"reasoning_content": event.text})
            case ToolStarted():
                await self._tool_progress(f"tool {event.name} running", "tool_started", event, {})
            case ToolFinished():
                outcome = {
                    "invocation_id": event.invocation_id,
                    "is_error": event.is_error,
                    "error_code": event.error_code or None,
                    "duration_ms": event.duration_ms,
                }
                await super().write(event)
                comment = f"tool {event.name} {'failed' if event.is_error else 'done'}"
                await self._tool_progress(comment, "tool_finished", event, outcome)
            case _:
                await super().write(event)

    async def _finish(self, event: TurnFinished) -> None:
        if notice := self._approval_notice(event):
            await self._delta({"content": notice})
        if self._vendor:
            await self._delta(self._vendor)
        for index, call in enumerate(self._calls):
            function = call["function"]
            begun = {**call, "index": index, "function": {**function, "arguments": ""}}
            await self._delta({"tool_calls": [begun]})
            await self._delta({"tool_calls": [{"index": index, "function": {"arguments": function["arguments"]}}]})
        await self._delta({}, event.reason)
        if self._request.include_x_mcp:
            await self._chunk([], {"x_mcp": self._extension(event)})
        if self._request.include_usage:
            await self._chunk([], {"usage": event.usage.wire() if event.usage is not None else None})
        await self._endpoint.write(sse.frame(b"[DONE]"), last=True)

    async def _begin(self) -> None:
        if not self._endpoint.has_begun:
            await self._endpoint.begin_stream()
            await self._delta({"role": "assistant", "content": ""})

    async def _tool_progress(
        self, comment: str, kind: str, event: ToolStarted | ToolFinished, outcome: dict[str, Json]
    ) -> None:
        await self._begin()
        await self._endpoint.write(sse.comment(comment))
        if self._request.include_x_mcp:
            call = {"event": kind, "tool": event.name, "tool_call_id": event.call_id, "round": event.round}
            await self._chunk([], {"x_mcp": call | outcome})

    async def _delta(self, delta: dict[str, Json], reason: str | None = None) -> None:
        await self._begin()
        await self._chunk([{"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}])

    async def _chunk(self, choices: list[dict[str, Json]], more: dict[str, Json] | None = None) -> None:
        chunk = {**self._head, "object": "chat.completion.chunk", "choices": choices}
        if self._request.include_usage:
            chunk["usage"] = None
        await self._endpoint.write(sse.frame(json.dumps({**chunk, **(more or {})})))
