"""One question answered, for every door that is not OpenAI's: HTTP, Python and the command line (seed 003).

`Answering` is what they share: it chooses model and tools, claims the session, runs the engine, and gives the engine's
events and at last the whole answer.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from invocations.origin import Origin
from mcphub.chat import questions
from mcphub.chat.approvals import RowGate
from mcphub.chat.conversations import Asked
from mcphub.chat.errors import ChatError
from mcphub.chat.events import Event, Finished, ToolFinished, ToolStarted
from mcphub.chat.providers.snapshot import Choice
from mcphub.chat.questions import Question
from mcphub.chat.service import Chat
from mcphub.chat.talk import Talk
from mcphub.chat.turn import Turn
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    """One call that the model made: seed 003's ToolInvocation. `id` is the invocation's, of the audit."""

    id: str
    tool_name: str
    arguments: Any
    """An object; the text itself where the model wrote no JSON."""
    result: str | None
    error: str | None
    started_at: datetime
    completed_at: datetime
    duration_ms: int

    def wire(self) -> dict[str, Any]:
        return {
            "id": self.id, "tool_name": self.tool_name, "arguments": self.arguments, "result": self.result,
            "error": self.error, "started_at": moment(self.started_at), "completed_at": moment(self.completed_at),
            "duration_ms": self.duration_ms,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Seed 003's AIResponse."""

    id: str
    query_id: str
    session_id: str | None
    content: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    provider_used: str
    model: str
    usage: dict[str, int] | None
    """Tokens; None where the provider does not tell."""
    timestamp: datetime
    duration_ms: int
    finish_reason: str
    stop_reason: str | None = None
    """Why the hub ended the turn, where it did."""

    @property
    def failed_tools(self) -> list[str]:
        """Names of the tools that failed at least once, in that order."""
        return list(dict.fromkeys(call.tool_name for call in self.tool_calls if call.error is not None))

    def wire(self) -> dict[str, Any]:
        return {
            "id": self.id, "query_id": self.query_id, "session_id": self.session_id, "content": self.content,
            "tool_calls": [call.wire() for call in self.tool_calls], "failed_tools": self.failed_tools,
            "provider_used": self.provider_used, "model": self.model, "usage": self.usage,
            "timestamp": moment(self.timestamp), "duration_ms": self.duration_ms,
            "finish_reason": self.finish_reason, "stop_reason": self.stop_reason,
        }  # fmt: skip


class Answering:
    """One question on its way. `turn` is what the engine does; its messages come with the session."""

    def __init__(
        self, chat: Chat, origin: Origin, question: Question, *, door: str, metadata: dict[str, Any],
        idempotency_key: str | None = None, request_id: str | None = None,
    ) -> None:  # fmt: skip
        """Raises ChatError for what is wrong with the question itself, before a session is claimed for it."""
        caller = origin.caller
        self._chat = chat
        self._question = question
        self._asked = asked = Asked(
            caller=caller, door=door, messages=[{"role": "user", "content": question.content}],
            session_id=question.session_id, provider=question.model or question.provider or "",
            metadata={**question.metadata, **metadata},
        )  # fmt: skip
        turn_id = str(asked.query_id)
        self.turn = Turn(
            turn_id=turn_id, origin=origin, choice=_choice(chat, question), messages=[], stream=question.stream,
            tools=questions.choose_tools(chat.hub.catalog(), caller, question), chat_session_id=question.session_id,
            gate=RowGate(caller, turn_id, chat.approval_policies()), idempotency_key=idempotency_key,
            request_id=request_id,
        )  # fmt: skip

    async def events(self) -> AsyncGenerator[Event | Answer, None]:
        """Give the engine's events, each once it is stored, and last an Answer; raises ChatError.

        To be closed by whoever iterates, as the engine's own events.
        """
        noted = _Notes()
        async with self._chat.talks.begin(self._asked) as talk:
            self.turn.messages = talk.messages
            if talk.session is not None and self._question.provider is None and self._question.model is None:
                self.turn.choice = self._chat.preferred(talk.session.provider_preference) or self.turn.choice
            async with contextlib.aclosing(self._chat.engine.run(self.turn)) as events:
                async for event in events:
                    await talk.hear(event)
                    noted.take(event)
                    yield event
                    if isinstance(event, Finished):
                        yield _whole(talk, event, noted)


def _choice(chat: Chat, question: Question) -> Choice:
    try:
        return chat.providers().choose(question.model, provider=question.provider)
    except ChatError as error:
        if error.code == "MODEL_NOT_FOUND":  # the seed knows no such state, and nothing is missing at this address
            raise ChatError("INVALID_QUERY", error.message, param="model") from error
        raise


class _Notes:
    """The calls of a turn, as its events tell them."""

    def __init__(self) -> None:
        self.calls: list[ToolCall] = []
        self._started: dict[str, float] = {}

    def take(self, event: Event) -> None:
        if isinstance(event, ToolStarted):
            self._started[event.call_id] = time.time()
        elif isinstance(event, ToolFinished):
            ended = time.time()
            started = self._started.get(event.call_id, ended - event.duration_ms / 1000)
            self.calls.append(
                ToolCall(
                    id=event.invocation_id, tool_name=event.name, arguments=_read(event.arguments),
                    result=None if event.is_error else event.content, error=event.content if event.is_error else None,
                    started_at=datetime.fromtimestamp(started, UTC), completed_at=datetime.fromtimestamp(ended, UTC),
                    duration_ms=event.duration_ms,
                )
            )  # fmt: skip


def _read(arguments: str) -> Any:
    try:
        return json.loads(arguments.encode("utf-8", "surrogatepass"))
    except ParseError:
        return arguments


def _whole(talk: Talk, event: Finished, noted: _Notes) -> Answer:
    response = talk.response
    assert response is not None
    return Answer(
        id=str(response.id), query_id=str(talk.asked.query_id),
        session_id=str(talk.session.id) if talk.session is not None else None, content=event.text,
        tool_calls=noted.calls, provider_used=event.provider, model=event.model, usage=response.usage,
        timestamp=response.timestamp, duration_ms=response.duration_ms, finish_reason=event.reason,
        stop_reason=event.stop_reason,
    )  # fmt: skip


def moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
