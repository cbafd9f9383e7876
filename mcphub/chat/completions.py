"""`POST /v1/chat/completions`: OpenAI's wire over the engine, plain and streaming."""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any

from mcphub.chat import requests
from mcphub.chat.door import ChatDoor
from mcphub.chat.events import Finished, TextDelta
from mcphub.chat.turn import Turn
from sessions_app.protocol import json, sse


class Completions(ChatDoor):
    async def answer(self) -> None:
        asked = requests.read(await self.read_object())
        choice = self.chat.providers().choose(asked.model)
        turn = Turn(
            turn_id=str(uuid.uuid4()), origin=await self.origin(), choice=choice, messages=asked.messages,
            parameters=asked.parameters, stream=asked.stream,
        )  # fmt: skip
        head = {"id": f"chatcmpl-{uuid.uuid4().hex}", "created": int(time.time()), "model": choice.asked_for}
        async with contextlib.aclosing(self.chat.engine.run(turn)) as events:
            async for event in events:
                if isinstance(event, TextDelta) and asked.stream:
                    await self._chunk(head, {"content": event.text})
                elif isinstance(event, Finished):
                    await self._finish(head, event, stream=asked.stream)

    async def _finish(self, head: dict[str, Any], event: Finished, *, stream: bool) -> None:
        if stream:
            await self._chunk(head, {}, event.reason)
            await self.write(sse.frame(b"[DONE]"), last=True)
            return
        message = {"role": "assistant", "content": event.text, "refusal": None}
        choice = {"index": 0, "message": message, "finish_reason": event.reason, "logprobs": None}
        usage = event.usage.wire() if event.usage is not None else None
        await self.give({**head, "object": "chat.completion", "choices": [choice], "usage": usage})

    async def _chunk(self, head: dict[str, Any], delta: dict[str, Any], reason: str | None = None) -> None:
        if not self.has_begun:
            await self.begin_stream(self.own_headers())
            await self._chunk(head, {"role": "assistant", "content": ""})
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        await self.write(sse.frame(json.dumps({**head, "object": "chat.completion.chunk", "choices": [choice]})))
