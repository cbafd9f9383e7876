"""One turn: what a client asks, made ready for the engine by whichever door it came through."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

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
    idempotency_key: str | None = None
    """Of the client: a turn that is repeated under it does not run its tools twice."""
    watch: Callable[[], Awaitable[None]] | None = None
    """Returns when the client has gone: the turn and its tools are then cancelled."""
    chat_session_id: str | None = None
