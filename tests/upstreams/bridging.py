"""Answers of callers to what an upstream asks."""

from __future__ import annotations

from typing import Any

from tests.wire.speech import META
from tests.wire.task_clients import EXTENSION, Follower

ANSWERS = {
    "elicitation/create": {"action": "accept", "content": {"sure": True}},
    "sampling/createMessage": {"role": "assistant", "model": "m", "content": {"type": "text", "text": "thought"}},
    "roots/list": {"roots": [{"uri": "file:///home/ada"}]},
}

ABLE = {f"{META}clientCapabilities": {"extensions": {EXTENSION: {}}, "elicitation": {}}}

YES = {"action": "accept", "content": {"confirm": True}}


class Asked(Follower):
    """A client of 2026-07-28 that can follow tasks, and be asked."""

    def ask(self, method: str, **params: Any) -> Any:
        return self.speaker.modern(method, {**params, "_meta": ABLE})

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.speaker.modern_call(tool, arguments, **ABLE).json()["result"]
        return found
