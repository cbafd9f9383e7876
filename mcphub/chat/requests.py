"""A client's chat completion request, read and checked. Pure. Raises ChatError that names the parameter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mcphub.chat.errors import ChatError

FORWARDED = frozenset({
    "temperature", "top_p", "max_tokens", "max_completion_tokens", "stop", "seed", "response_format", "tool_choice",
    "parallel_tool_calls", "reasoning_effort", "user", "safety_identifier", "presence_penalty", "frequency_penalty",
})  # fmt: skip


@dataclass(slots=True, kw_only=True)
class ChatRequest:
    model: str | None
    messages: list[dict[str, Any]]
    stream: bool
    include_usage: bool
    parameters: dict[str, Any]
    ignored: list[str]


def read(body: dict[str, Any]) -> ChatRequest:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ChatError("INVALID_QUERY", "messages must be an array with at least one message.", param="messages")
    model = body.get("model")
    if model is not None and not isinstance(model, str):
        raise ChatError("INVALID_QUERY", "model must be a text.", param="model")
    options = body.get("stream_options") or {}
    known = FORWARDED | {"model", "messages", "stream", "stream_options"}
    return ChatRequest(
        model=model, messages=messages, stream=body.get("stream") is True,
        include_usage=isinstance(options, dict) and options.get("include_usage") is True,
        parameters={name: body[name] for name in FORWARDED if body.get(name) is not None},
        ignored=sorted(body.keys() - known),
    )  # fmt: skip
