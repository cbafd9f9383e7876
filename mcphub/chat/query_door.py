"""`POST /api/query`: a question in, an answer out, or a stream of events that ends with it (seed 003)."""

from __future__ import annotations

import contextlib
from typing import Any

from mcphub.chat import questions
from mcphub.chat.answering import Answer, Answering
from mcphub.chat.contract import ContractDoor
from mcphub.chat.events import ApprovalNeeded, Event, TextDelta, ToolFinished, ToolStarted
from mcphub.chat.models_conversations import Query
from sessions_app.protocol import json, sse


class AskQuery(ContractDoor):
    async def answer(self) -> None:
        question = questions.read_question(await self.read_object())
        await self.draw()
        run = Answering(
            self.chat, await self.origin(), question, door=Query.Door.QUERY.value, metadata=self.metadata(),
            idempotency_key=self.idempotency_key(), request_id=self.request_id(),
        )  # fmt: skip
        async with self.attended(run.turn), contextlib.aclosing(run.events()) as events:
            async for event in events:
                if question.stream:
                    await self._tell(event)
                elif isinstance(event, Answer):
                    await self.give(event.wire())

    async def _tell(self, event: Event | Answer) -> None:
        told: dict[str, Any]
        match event:
            case TextDelta():
                await self._event("delta", {"content": event.text})
            case ToolStarted():
                told = {"call_id": event.call_id, "tool_name": event.name, "arguments": event.arguments}
                await self._event("tool_started", told)
            case ToolFinished():
                told = {
                    "call_id": event.call_id, "tool_name": event.name, "id": event.invocation_id or None,
                    "is_error": event.is_error, "duration_ms": event.duration_ms,
                }  # fmt: skip
                await self._event("tool_finished", told)
            case ApprovalNeeded():
                told = {"call_id": event.call_id, "tool_name": event.name, "approval_id": event.approval_id}
                await self._event("approval_needed", told)
            case Answer():
                await self._event("response", event.wire(), last=True)

    async def _event(self, name: str, value: dict[str, Any], *, last: bool = False) -> None:
        await self.begin_stream()
        await self.write(sse.frame(json.dumps(value), event=name), last=last)
