"""`x_mcp`: what an answer on OpenAI's wire says of the hub's part in it. Its clients keep what they do not know."""

from __future__ import annotations

from typing import Any

from mcphub.chat.events import Finished
from mcphub.chat.turn import Turn


def of(turn: Turn, event: Finished, duration_ms: int, ignored: list[str]) -> dict[str, Any]:
    """`ignored`: members of the request that the hub does not know."""
    told: dict[str, Any] = {
        "turn_id": turn.turn_id, "provider_used": event.provider, "model": event.model, "duration_ms": duration_ms,
        "rounds": event.rounds, "invocations": event.invocation_ids,
    }  # fmt: skip
    if turn.chat_session_id:
        told["session_id"] = turn.chat_session_id
    if event.stop_reason:
        told["stop_reason"] = event.stop_reason
    if event.functions:
        told["functions"] = event.functions
    if ignored:
        told["ignored"] = ignored
    return told
