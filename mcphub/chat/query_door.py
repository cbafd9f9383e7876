"""`POST /api/query`: a question in, an answer out, or a stream of events that ends with it (seed 003)."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import Any

from mcphub.chat import questions
from mcphub.chat.answering import Answer, Answering
from mcphub.chat.contract import ContractDoor
from mcphub.chat.events import ApprovalNeeded, Event, TextDelta, ToolFinished, ToolStarted
from mcphub.chat.models_conversations import Query
from sessions_app.protocol import json, sse

_SIGN_SECONDS = 15
"""A silent stream says so often that it lives."""


class AskQuery(ContractDoor):
    async def answer(self) -> None:
        question = questions.read_question(await self.read_object())
        await self.draw()
        origin = await self.origin()
        self._wrote = time.monotonic()
        work = asyncio.ensure_future(self._work(origin, question))
        gone = asyncio.ensure_future(self.gone())
        signs = asyncio.ensure_future(self._show_life()) if question.stream else None
        try:
            await asyncio.wait([work, gone], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():  # the client has left: nobody wants the answer
                work.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await work
                return
            await work
        finally:
            others = [task for task in (work, gone, signs) if task is not None]
            for task in others:
                task.cancel()
            await asyncio.gather(*others, return_exceptions=True)

    async def _work(self, origin: Any, question: questions.Question) -> None:
        metadata = {
            "client_ip": self.client_address, "user_agent": self.header(b"user-agent")[:200],
            "retry": self.header(b"x-stainless-retry-count")[:10],
        }  # fmt: skip
        run = Answering(
            self.chat, origin, question, door=Query.Door.QUERY.value,
            metadata={name: value for name, value in metadata.items() if value},
        )  # fmt: skip
        async with contextlib.aclosing(run.events()) as events:
            async for event in events:
                if isinstance(event, Answer) and not question.stream:
                    await self.give(event.wire())
                elif question.stream:
                    await self._tell(event)

    async def _tell(self, event: Event | Answer) -> None:
        told: dict[str, Any]
        match event:
            case TextDelta():
                await self._send("delta", {"content": event.text})
            case ToolStarted():
                told = {"call_id": event.call_id, "tool_name": event.name, "arguments": event.arguments}
                await self._send("tool_started", told)
            case ToolFinished():
                told = {
                    "call_id": event.call_id, "tool_name": event.name, "id": event.invocation_id or None,
                    "is_error": event.is_error, "duration_ms": event.duration_ms,
                }  # fmt: skip
                await self._send("tool_finished", told)
            case ApprovalNeeded():
                told = {"call_id": event.call_id, "tool_name": event.name, "approval_id": event.approval_id}
                await self._send("approval_needed", told)
            case Answer():
                await self._send("response", event.wire(), last=True)

    async def _send(self, name: str, value: dict[str, Any], *, last: bool = False) -> None:
        await self._open()
        await self.write(sse.frame(json.dumps(value), event=name), last=last)

    async def _open(self) -> None:
        self._wrote = time.monotonic()
        if not self.has_begun:
            await self.begin_stream(self.own_headers())

    async def _show_life(self) -> None:
        while True:
            await asyncio.sleep(max(0.1, self._wrote + _SIGN_SECONDS - time.monotonic()))
            if time.monotonic() - self._wrote >= _SIGN_SECONDS:
                await self._open()
                await self.write(sse.comment("working"))
