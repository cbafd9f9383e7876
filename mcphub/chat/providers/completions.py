"""What a provider's answer says, whether it came whole or as a stream. Pure; every form that is no answer is refused.

Providers differ: `choices` may be null or empty in a chunk that only tells usage, usage may be missing, a tool call
may come without an index or an id, its arguments as an object. What can be understood in one way is; the rest
raises `Malformed`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sessions_app.protocol import json
from sessions_app.protocol.json import Json

FINISH_REASONS = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "content_filter",
    "function_call": "tool_calls",
    "eos": "stop",
    "end_turn": "stop",
    "max_tokens": "length",
}


MOST_TOKENS = 100_000_000
"""Of one request, whatever a provider says: sums of them must fit into the database's numbers."""


class Malformed(Exception):
    """The provider's answer is not one."""


@dataclass(slots=True)
class TokenUsage:
    """Tokens, summed over the rounds of a turn."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Of the prompt, what the provider had in its cache."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: TokenUsage) -> TokenUsage:
        return TokenUsage(
            self.prompt_tokens + other.prompt_tokens,
            self.completion_tokens + other.completion_tokens,
            self.cached_tokens + other.cached_tokens,
        )

    def wire(self) -> dict[str, int]:
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": self.total_tokens,
        }


@dataclass(slots=True)
class FunctionCall:
    id: str
    name: str
    arguments: str = ""

    def wire(self) -> dict[str, Json]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}


@dataclass(slots=True)
class ProviderCompletion:
    """An answer as far as it is known; complete once `finish_reason` is there."""

    refusal: str = ""
    calls: list[FunctionCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _by_index: dict[int, FunctionCall] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def replace_text(self, text: str) -> None:
        """Say this instead."""
        self._text = [text]

    def clear(self) -> None:
        """Begin again: what came was not the answer."""
        self.__init__()  # type: ignore[misc]

    @property
    def is_empty(self) -> bool:
        """Whether nothing came, not even an end."""
        return not (self.text or self.reasoning or self.refusal or self.calls or self.finish_reason)

    def read_whole(self, value: Json) -> None:
        """Read a `chat.completion`."""
        choices = value.get("choices") if isinstance(value, dict) else None
        if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
            raise Malformed("the answer has no choices")
        message = choices[0].get("message")
        if not isinstance(message, dict):
            raise Malformed("the first choice has no message")
        self._add_text(message)
        for call in _list(message.get("tool_calls"), "tool_calls"):
            self._add_call(call, whole=True)
        self._set_finish_reason(choices[0].get("finish_reason"))
        self._set_usage(value.get("usage"))
        if self.finish_reason is None:
            self.finish_reason = "tool_calls" if self.calls else "stop"

    def read_chunk(self, value: Json) -> tuple[str, str]:
        """Read a `chat.completion.chunk`; give what it adds to text and to reasoning."""
        if not isinstance(value, dict):
            raise Malformed("a chunk is no object")
        self._set_usage(value.get("usage"))
        choices = _list(value.get("choices"), "choices")
        if not choices:
            return "", ""
        choice = choices[0]
        if not isinstance(choice, dict):
            raise Malformed("a choice is no object")
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message") or {}
        if not isinstance(delta, dict):
            raise Malformed("a delta is no object")
        piece = self._add_text(delta)
        for call in _list(delta.get("tool_calls"), "tool_calls"):
            self._add_call(call, whole=False)
        self._set_finish_reason(choice.get("finish_reason"))
        return piece

    def _add_text(self, message: dict[str, Json]) -> tuple[str, str]:
        text = _text(message.get("content"), "content")
        reasoning = _text(message.get("reasoning_content") or message.get("reasoning"), "reasoning_content")
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        self.refusal += _text(message.get("refusal"), "refusal")
        return text, reasoning

    def _add_call(self, value: Json, *, whole: bool) -> None:
        if not isinstance(value, dict):
            raise Malformed("a tool call is no object")
        function = value.get("function")
        if not isinstance(function, dict):
            raise Malformed("a tool call has no function")
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments).decode()
        name, id_ = function.get("name") or "", value.get("id") or ""
        if not isinstance(name, str) or not isinstance(id_, str):
            raise Malformed("name and id of a tool call are texts")
        index = value.get("index")
        if whole or not isinstance(index, int):
            # Without an index a piece that names a function begins a call, and any other goes on with the last.
            index = len(self.calls) if whole or name or not self.calls else len(self.calls) - 1
        call = self._by_index.get(index)
        if call is None:
            call = self._by_index[index] = FunctionCall(id_, name)
            self.calls.append(call)
        else:
            call.id = call.id or id_
            call.name = call.name or name
        call.arguments += arguments

    def _set_finish_reason(self, reason: Json) -> None:
        if reason is None or reason == "":
            return
        if not isinstance(reason, str):
            raise Malformed("finish_reason is no text")
        self.finish_reason = FINISH_REASONS.get(reason, "stop")

    def _set_usage(self, value: Json) -> None:
        if not isinstance(value, dict):
            return
        counts = [value.get("prompt_tokens"), value.get("completion_tokens")]
        if all(isinstance(count, int) and not isinstance(count, bool) and count >= 0 for count in counts):
            read, written = (min(count or 0, MOST_TOKENS) for count in counts)
            self.usage = TokenUsage(read, written, min(_cached(value), read))


def _cached(usage: dict[str, Json]) -> int:
    details = usage.get("prompt_tokens_details")
    count = details.get("cached_tokens") if isinstance(details, dict) else None
    return count if isinstance(count, int) and not isinstance(count, bool) and count >= 0 else 0


def _list(value: Json, name: str) -> list[Json]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{name} is no array")
    return value


def _text(value: Json, name: str) -> str:
    """Give a text; the text parts of an array; nothing for null."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(str(part.get("text", "")) for part in value if isinstance(part, dict))
    if not isinstance(value, str):
        raise Malformed(f"{name} is no text")
    return value
