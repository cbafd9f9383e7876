"""One turn: what a client asks, made ready for the engine by whichever door it came through."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

from django.conf import settings

from invocations.origin import Origin
from mcphub.chat.providers.snapshot import Choice
from tools_catalog.catalog import Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What one turn may use. Beyond a budget the model is asked once more, for an answer without tools."""

    rounds: int
    calls_per_round: int
    calls: int
    seconds: float
    result_bytes: int
    """Of all results together, as the model reads them."""
    one_result_bytes: int
    parallel: int
    repeats: int
    """The same call with the same arguments so often is answered by an error instead of being made."""

    @classmethod
    def from_settings(cls) -> Limits:
        return cls(
            rounds=settings.MCPHUB_CHAT_MAX_ROUNDS, calls_per_round=settings.MCPHUB_CHAT_MAX_CALLS_PER_ROUND,
            calls=settings.MCPHUB_CHAT_MAX_CALLS, seconds=settings.MCPHUB_CHAT_TURN_SECONDS,
            result_bytes=settings.MCPHUB_CHAT_MAX_RESULT_BYTES,
            one_result_bytes=settings.MCPHUB_CHAT_MAX_ONE_RESULT_BYTES,
            parallel=settings.MCPHUB_CHAT_PARALLEL_CALLS, repeats=3,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Denial:
    """Somebody said no to a call."""

    reason: str = ""


class Gate(Protocol):
    """Which calls of a turn wait for somebody's yes. Asked after the arguments were found valid."""

    def applies(self, tool: Tool) -> bool:
        """Say whether calls of this tool need an approval."""
        ...

    async def ask(self, tool: Tool, call_id: str, arguments: dict[str, Any]) -> str | Denial | None:
        """Give None where the call may run now, as an approval for just these arguments was there and is now used
        up; a Denial where the last answer was no; else the id of the approval that is asked for."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """A call of an earlier turn that waited, and what was decided of it. Its call and a result stand in `messages`."""

    call_id: str
    """Of the message to the tool, whose result is replaced."""
    name: str
    arguments: dict[str, Any]
    approve: bool
    reason: str = ""
    """Why not, for the model."""


@dataclass(slots=True, kw_only=True)
class Turn:
    turn_id: str
    """A UUID: stands in the audit with every call of the turn. Seed 003's `query_id`."""
    origin: Origin
    """Caller, its implicit session of transport `chat`, client and address."""
    choice: Choice
    messages: list[dict[str, Any]]
    """OpenAI's shape, checked: each tool result follows its call."""
    tools: list[Tool] = field(default_factory=list)
    """Of the catalogue, that the model may call."""
    client_tools: list[dict[str, Any]] = field(default_factory=list)
    """Functions of the client's own, in OpenAI's shape: the model may call them, the client runs them."""
    may_mix: bool = False
    """The door stores results, so a model may call the client's functions and the hub's tools in one round."""
    parameters: dict[str, Any] = field(default_factory=dict)
    """What is passed on to the provider: temperature, max_tokens, response_format …"""
    stream: bool = False
    """Ask the provider for a stream, so that text comes as it is made."""
    limits: Limits = field(default_factory=Limits.from_settings)
    request_id: str | None = None
    """Of the request that asks: stands in the audit with each call."""
    idempotency_key: str | None = None
    """Of the client: a turn that is repeated under it does not run its tools twice."""
    gate: Gate | None = None
    decided: list[Decided] = field(default_factory=list)
    """Done before the model is asked: approved calls are made, refused ones told to the model."""
    chat_session_id: str | None = None
