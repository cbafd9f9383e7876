"""The events of a turn while it runs. Every chat endpoint renders this one stream in its own form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from mcphub.features.chat.providers.completions import TokenUsage
from sessions_app.protocol.json import Json


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More of the model's text."""

    text: str


@dataclass(frozen=True, slots=True)
class ReasoningDelta:
    """More of a model's reasoning. Shown on request, never fed back."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolStarted:
    """A tool of the catalogue is about to run, or waits for its turn."""

    call_id: str
    """The model's own id of the call: the `tool_call_id` of messages and of the audit."""
    name: str
    """The name in the catalogue."""
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
    error_code: str
    """A code of `errors.TOOL_ERROR_CODES`, or another of the hub's in capital letters; empty where it did well."""
    content: str
    """The result for the model."""
    duration_ms: int

    @property
    def is_error(self) -> bool:
        return bool(self.error_code)

    def failure(self) -> dict[str, Json]:
        """Return the facts about a failed call for OpenAI's wire, in `x_mcp`."""
        found: dict[str, Json] = {"tool": self.name, "tool_call_id": self.call_id, "code": self.error_code}
        return {**found, "message": self.content, "invocation_id": self.invocation_id or None}


@dataclass(frozen=True, slots=True)
class ClientToolCalls:
    """The model calls functions that the client brought: the turn ends, and the client goes on.

    OpenAI's shape: `{"id", "type": "function", "function": {"name", "arguments"}}`.
    """

    calls: list[dict[str, Json]]
    vendor: dict[str, Json] = field(default_factory=dict)
    """Members that the provider put into the message beside OpenAI's, for a client that keeps the conversation."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalNeeded:
    """A call waits for somebody's yes. The other calls of the round run, then the turn ends, with the `stop_reason`
    `approval_required`; the model's call is in `messages_added` with a result that explains it.
    """

    call_id: str
    name: str
    arguments: str
    approval_id: str


@dataclass(frozen=True, slots=True)
class MessagesAdded:
    """The conversation grew by messages that the next round sends: an assistant's calls, before any of them runs, or
    the results of a round. Whoever iterates has stored them once it asks for the next event. Not sent for the last
    answer.
    """

    messages: list[dict[str, Json]]
    """Stand, in this order, in `TurnFinished.messages_added` too."""
    error_codes: Mapping[str, str] = field(default_factory=dict)
    """Of results that report a failure, by call ID."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnFinished:
    """The last event of a turn that did not fail."""

    reason: str
    """stop, length, tool_calls or content_filter."""
    stop_reason: str | None
    """Why the hub ended the turn, where it did: max_tool_rounds, max_tool_calls, max_seconds, max_result_bytes,
    quota_reached, approval_required."""
    text: str
    """The model's text over all rounds."""
    reasoning: str = ""
    usage: TokenUsage | None
    """None unless a provider reported it in each round."""
    messages_added: list[dict[str, Json]]
    """The turn's additions to the conversation, in OpenAI's form; the last one is the assistant's answer."""
    last_messages: list[dict[str, Json]]
    """Those of them without a `MessagesAdded`."""
    rounds: list[dict[str, Json]] = field(default_factory=list)
    """Of each call of the provider: provider, model, finish_reason, usage, duration_ms."""
    provider: str
    model: str
    """As the provider knows it."""
    invocation_ids: list[str] = field(default_factory=list)
    functions: dict[str, str] = field(default_factory=dict)
    """Names of functions in `messages_added` that are not those of their tools, with these."""
    left_out: dict[str, str] = field(default_factory=dict)
    """Tools that the provider does not take, with the reason."""
    notices: list[str] = field(default_factory=list)
    """Facts of the turn for the operator, such as a provider that refused to load tools."""
    quotas: list[dict[str, object]] = field(default_factory=list)
    """Warning quotas of tokens and money, in the form of `mcphub/quota`."""


TurnEvent = (
    TextDelta
    | ReasoningDelta
    | ToolStarted
    | ToolFinished
    | MessagesAdded
    | ApprovalNeeded
    | ClientToolCalls
    | TurnFinished
)
