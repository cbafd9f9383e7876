"""One query answered, for all that is not OpenAI's wire: `/api/query`, Python and the command line.

The names of the fields are the contract's that the hub was first written to.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime

from mcphub.features.approvals.asking import policies_of
from mcphub.features.chat import query_requests
from mcphub.features.chat.approvals import StoredApprovalGate
from mcphub.features.chat.engine.events import ToolFinished, ToolStarted, TurnEvent, TurnFinished
from mcphub.features.chat.engine.turn import Turn, TurnSource
from mcphub.features.chat.errors import ChatError, invalid
from mcphub.features.chat.providers.snapshot import ModelChoice
from mcphub.features.chat.query_requests import QueryRequest
from mcphub.features.chat.service import Chat
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
from sessions_app.protocol.json import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryToolCall:
    """One call that the model made. `id` is that of its invocation in the audit."""

    id: str
    tool_name: str
    arguments: Json
    """An object; the text itself where the model wrote no JSON."""
    result: str | None
    error: dict[str, str] | None
    """`code`, one of `errors.TOOL_ERROR_CODES` or another of the hub's, and `message`."""
    started_at: datetime
    completed_at: datetime
    duration_ms: int

    @classmethod
    def of(cls, event: ToolFinished, started: float | None) -> QueryToolCall:
        """`started`: seconds since the epoch; None for a call that was refused before it began."""
        ended = time.time()
        return cls(
            id=event.invocation_id,
            tool_name=event.name,
            arguments=_read(event.arguments),
            result=None if event.is_error else event.content,
            error={"code": event.error_code, "message": event.content} if event.is_error else None,
            started_at=datetime.fromtimestamp(ended - event.duration_ms / 1000 if started is None else started, UTC),
            completed_at=datetime.fromtimestamp(ended, UTC),
            duration_ms=event.duration_ms,
        )

    def wire(self) -> dict[str, Json]:
        return _wire(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryResponse:
    """The whole answer."""

    id: str
    query_id: str
    session_id: str | None
    content: str
    tool_calls: list[QueryToolCall] = field(default_factory=list)
    provider_used: str
    model: str
    usage: dict[str, int] | None
    """Tokens; None if the provider does not report them."""
    timestamp: datetime
    duration_ms: int
    finish_reason: str
    stop_reason: str | None = None
    """Why the hub ended the turn, where it did."""
    quotas: list[dict[str, object]] = field(default_factory=list)
    """Quotas of tokens and money that warn."""

    @property
    def failed_tools(self) -> list[str]:
        """Names of the tools that failed at least once, in that order."""
        return list(dict.fromkeys(call.tool_name for call in self.tool_calls if call.error is not None))

    def wire(self) -> dict[str, Json]:
        calls = [call.wire() for call in self.tool_calls]
        return _wire(self) | {"tool_calls": calls, "failed_tools": self.failed_tools}


def _wire(value: QueryToolCall | QueryResponse) -> dict[str, Json]:
    """Return the fields by name, times as text."""
    found = ((each.name, getattr(value, each.name)) for each in fields(value))
    return {name: moment(each) if isinstance(each, datetime) else each for name, each in found}


def turn_of(chat: Chat, source: TurnSource, request: QueryRequest) -> Turn:
    """Make the turn of a query: choose its model and its tools. Raises ChatError for an invalid request, before it
    claims a session.
    """
    return Turn(
        source=source,
        choice=_choice(chat, request),
        asked_for=request.model or request.provider or "",
        messages=[{"role": "user", "content": request.content}],
        stream=request.stream,
        tools=query_requests.choose_tools(chat.hub.configuration.catalog, source.call.caller, request),
        session_id=request.session_id,
        gate=StoredApprovalGate(policies_of(chat.hub.configuration)),
    )


async def answer(chat: Chat, turn: Turn) -> AsyncGenerator[TurnEvent | QueryResponse, None]:
    """Return the events of a query's turn, each once it is stored, and last a QueryResponse; raises ChatError.

    To be closed by whoever iterates, as the engine's own events.
    """
    calls: list[QueryToolCall] = []
    started: dict[str, float] = {}
    async with chat.turn(turn) as events:
        async for event in events:
            if isinstance(event, ToolStarted):
                started[event.call_id] = time.time()
            elif isinstance(event, ToolFinished):
                calls.append(QueryToolCall.of(event, started.get(event.call_id)))
            yield event
            if isinstance(event, TurnFinished):
                yield _response(turn, event, calls)


def _choice(chat: Chat, request: QueryRequest) -> ModelChoice:
    try:
        return chat.providers.choose(request.model, provider=request.provider)
    except ChatError as error:
        if error.code == "MODEL_NOT_FOUND":  # the contract knows no such state, and nothing is missing at this address
            raise invalid("model", error.message) from error
        raise


def _read(arguments: str) -> Json:
    try:
        return json.loads(arguments.encode("utf-8", "surrogatepass"))
    except ParseError:
        return arguments


def _response(turn: Turn, event: TurnFinished, calls: list[QueryToolCall]) -> QueryResponse:
    response = turn.response
    assert response is not None
    return QueryResponse(
        id=str(response.id),
        query_id=str(turn.id),
        session_id=str(turn.session.id) if turn.session is not None else None,
        content=event.text,
        tool_calls=calls,
        provider_used=event.provider,
        model=event.model,
        usage=response.usage,
        timestamp=response.timestamp,
        duration_ms=response.duration_ms,
        finish_reason=event.reason,
        stop_reason=event.stop_reason,
        quotas=event.quotas,
    )


def moment(value: datetime) -> str:
    return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
