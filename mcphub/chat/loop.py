"""The engine: one turn from the client's messages to the model's last word. All chat doors run it.

`Engine.run` is an async generator of events. It must be closed by whoever iterates (`contextlib.aclosing`), and be
iterated by one task: cancelling that task cancels the request to the provider and every tool under way, which are
recorded as cancelled before the cancellation goes on. What fails the whole turn raises `ChatError`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from typing import Any

from invocations.calling import Calls
from mcphub.chat.events import Event, Finished, ReasoningDelta, TextDelta
from mcphub.chat.providers.client import ProviderClient
from mcphub.chat.providers.pieces import Answer
from mcphub.chat.turn import Turn


class Engine:
    """One a process."""

    def __init__(self, calls: Calls, client: ProviderClient) -> None:
        self._calls = calls
        self._client = client

    async def run(self, turn: Turn) -> AsyncGenerator[Event, None]:
        """Answer a turn. The last event is `Finished`; raises ChatError."""
        model = turn.choice.model
        answer = Answer()
        begun = time.monotonic()
        stream = turn.stream and model.streams
        async for text, reasoning in self._client.ask(model, self._body(turn), answer, stream=stream):
            if reasoning:
                yield ReasoningDelta(reasoning)
            if text:
                yield TextDelta(text)
        message = {"role": "assistant", "content": answer.text}
        yield Finished(
            reason=answer.finish_reason or "stop", stop_reason=None, text=answer.text, usage=answer.usage,
            messages_added=[message], provider=model.provider.slug, model=model.name,
            rounds=[{"provider": model.provider.slug, "duration_ms": int((time.monotonic() - begun) * 1000)}],
        )  # fmt: skip

    def _body(self, turn: Turn) -> dict[str, Any]:
        return {"model": turn.choice.model.name, "messages": turn.messages, **turn.parameters}
