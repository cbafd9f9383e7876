"""What a turn tells while it runs: the one stream that every chat door renders in its own words."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of what the model says."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of what a thinking model thinks. Shown to who asks for it, never fed back."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool of the catalogue is about to run, or waits for its turn."""

    call_id: str
    """The model's own id of the call: the `tool_call_id` of messages and of the audit."""
    name: str
    """As the catalogue says it."""
    arguments: str
    """As the model wrote them; not necessarily JSON."""
    round: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolFinished:
    """A tool has answered, or was not called at all; then `invocation_id` is empty."""

    call_id: str
    name: str
    arguments: str
    round: int
    invocation_id: str
    is_error: bool
    content: str
    """What the model is told."""
    duration_ms: int


@dataclass(frozen=True, slots=True)
class ClientToolCalls:
    """The model calls functions that the client brought: the turn ends, and the client goes on.

    OpenAI's shape: `{"id", "type": "function", "function": {"name", "arguments"}}`.
    """

    calls: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeeded:
    """A call waits for somebody's yes. The other calls of the round run, then the turn ends, with the `stop_reason`
    `approval_required`; the model's call stands in `messages_added` with a result that says so."""

    call_id: str
    name: str
    arguments: str
    approval_id: str


@dataclass(frozen=True, slots=True)
class MessageAdded:
    """The conversation grew by a message that the next round sends: an assistant's calls, before any of them runs, or
    the result of one. Whoever iterates has stored it once it asks for the next event. Not told of the last answer.
    """

    message: dict[str, Any]
    """Stands, with the others and in this order, in `Finished.messages_added` too."""
    invocation_id: str = ""
    """Of a result, where a call was made."""


@dataclass(slots=True)
class Usage:
    """Tokens, summed over the rounds of a turn."""

    prompt_tokens: int = 0
    completion_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: Usage) -> Usage:
        return Usage(self.prompt_tokens + other.prompt_tokens, self.completion_tokens + other.completion_tokens)

    def wire(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens, "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
        }  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The last event of a turn that did not fail."""

    reason: str
    """stop, length, tool_calls or content_filter."""
    stop_reason: str | None
    """Why the hub ended the turn, where it did: max_tool_rounds, max_tool_calls, max_seconds, max_result_bytes,
    approval_required."""
    text: str
    """All that the model said, over all rounds."""
    reasoning: str = ""
    usage: Usage | None
    """None where a provider did not say it in each round."""
    messages_added: list[dict[str, Any]]
    """What the turn adds to the conversation, in OpenAI's shape; the last one is the assistant's answer."""
    rounds: list[dict[str, Any]] = field(default_factory=list)
    """Of each call of the provider: provider, model, finish_reason, usage, duration_ms."""
    provider: str
    model: str
    """As the provider knows it."""
    invocation_ids: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    """Names of functions in `messages_added` that are not those of their tools, with these."""


Event = (
    TextDelta | ReasoningDelta | ToolStarted | ToolFinished | MessageAdded | ApprovalNeeded | ClientToolCalls | Finished
)
