"""A provider's answer, read from one body or from a stream. Pure; every form that is no answer is refused.

Providers differ: `choices` may be null or empty in a chunk that only has usage, usage may be missing, a tool call may
come without an index or an id, its arguments as an object, two calls may share an index. Unambiguous input is
accepted; the rest raises `Malformed`.

Members that OpenAI's wire does not have (reasoning, thought signatures) are kept as they came: `vendor` has them, and
`engine.outgoing` returns them to the model that sent them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mcphub.features.chat.providers import vendor_members
from mcphub.features.chat.providers.vendor_members import REASONING
from sessions_app.protocol import json
from sessions_app.protocol.errors import ParseError
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


_OWN_MESSAGE = frozenset(
    {"role", "content", "tool_calls", "function_call", "refusal", "name", "index", "annotations", "audio", "citations"}
)
"""Members of a message that are read here, or that no provider takes back."""
_OWN_CALL = frozenset({"id", "type", "index", "function"})
_OWN_FUNCTION = frozenset({"name", "arguments"})

MOST_TOKENS = 100_000_000
"""Of one request, whatever a provider reports: sums must fit into the database's numbers."""


class Malformed(Exception):
    """The provider's answer is not one."""


@dataclass(slots=True)
class TokenUsage:
    """Tokens, summed over the rounds of a turn."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens from the provider's cache."""

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
    vendor: dict[str, Json] = field(default_factory=dict)
    """Members of the call beside OpenAI's, and in `function` those of its function."""

    def wire(self) -> dict[str, Json]:
        return {"id": self.id, "type": "function", "function": {"name": self.name, "arguments": self.arguments}}

    def told(self) -> dict[str, Json]:
        """Return the call with the provider's members, for a client that sends it back."""
        wire, more = self.wire(), dict(self.vendor)
        wire["function"] |= more.pop("function", {})
        return {**more, **wire}


@dataclass(slots=True)
class ProviderCompletion:
    """An answer as far as it is known; complete once `finish_reason` is there."""

    refusal: str = ""
    calls: list[FunctionCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: TokenUsage | None = None
    vendor: dict[str, Json] = field(default_factory=dict)
    """Members of the message beside OpenAI's; `content` where it came in parts that are not all text."""
    _text: list[str] = field(default_factory=list)
    _reasoning: list[str] = field(default_factory=list)
    _parts: list[Json] = field(default_factory=list)
    _by_index: dict[int, FunctionCall] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "".join(self._text)

    @property
    def reasoning(self) -> str:
        return "".join(self._reasoning)

    def replace_text(self, text: str) -> None:
        """Replace the text."""
        self._text = [text]

    def add_text(self, text: str) -> None:
        self._text.append(text)

    def add_reasoning(self, text: str) -> None:
        self._reasoning.append(text)

    def set_usage(self, read: Json, written: Json, cached: Json = 0) -> None:
        """Take the counts that a provider reports, where they are numbers."""
        counts = [count for count in (read, written) if isinstance(count, int) and not isinstance(count, bool)]
        if len(counts) == 2 and min(counts) >= 0:
            read, written = (min(count, MOST_TOKENS) for count in counts)
            is_count = isinstance(cached, int) and not isinstance(cached, bool) and cached >= 0
            self.usage = TokenUsage(read, written, min(cached, read) if is_count else 0)

    def clear(self) -> None:
        """Start over: the input so far was not the answer."""
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
        if not isinstance(choices[0].get("message"), dict):
            raise Malformed("the first choice has no message")
        for choice in choices:  # one is asked for: some providers put each call into a choice of its own
            message = choice.get("message") if isinstance(choice, dict) else None
            if isinstance(message, dict):
                self._add_text(message)
                self._add_calls(message, whole=True)
                self._set_finish_reason(choice.get("finish_reason"))
        self._set_usage(value.get("usage"))
        if self.finish_reason is None:
            self.finish_reason = "tool_calls" if self.calls else "stop"

    def read_chunk(self, value: Json) -> tuple[str, str]:
        """Read a `chat.completion.chunk`; return its additions to text and to reasoning."""
        if not isinstance(value, dict):
            raise Malformed("a chunk is no object")
        self._set_usage(value.get("usage"))
        pieces = [self._read_choice(choice) for choice in _list(value.get("choices"), "choices")]
        return "".join(text for text, _ in pieces), "".join(reasoning for _, reasoning in pieces)

    def _read_choice(self, choice: Json) -> tuple[str, str]:
        if not isinstance(choice, dict):
            raise Malformed("a choice is no object")
        delta = choice.get("delta")
        if delta is None:
            delta = choice.get("message") or {}
        if not isinstance(delta, dict):
            raise Malformed("a delta is no object")
        piece = self._add_text(delta)
        self._add_calls(delta, whole=False)
        self._set_finish_reason(choice.get("finish_reason"))
        return piece

    def _add_text(self, message: dict[str, Json]) -> tuple[str, str]:
        content = message.get("content")
        text = _text(content, "content")
        reasoning = next((_text(message[name], name) for name in REASONING if message.get(name)), "")
        reasoning += _thoughts(content)
        if text:
            self._text.append(text)
        if reasoning:
            self._reasoning.append(reasoning)
        self.refusal += _text(message.get("refusal"), "refusal")
        vendor_members.add(self.vendor, message, without=_OWN_MESSAGE)
        self._add_parts(content)
        return text, reasoning

    def _add_parts(self, content: Json) -> None:
        """Keep content in parts where one of them is no text: it goes back in this form."""
        if isinstance(content, str) and content:
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list):
            return
        vendor_members.extend(self._parts, content)
        if any(isinstance(part, dict) and part.get("type") != "text" for part in self._parts):
            self.vendor["content"] = self._parts

    def _add_calls(self, message: dict[str, Json], *, whole: bool) -> None:
        calls = message.get("tool_calls")
        calls = [calls] if isinstance(calls, dict) else _list(calls, "tool_calls")
        legacy = message.get("function_call")
        if not calls and isinstance(legacy, dict):
            calls = [{"index": 0, "function": legacy}]
        for call in calls:
            if call is not None:
                self._add_call(call, whole=whole)

    def _add_call(self, value: Json, *, whole: bool) -> None:
        if not isinstance(value, dict):
            raise Malformed("a tool call is no object")
        function = value.get("function")
        if function is None:  # in a piece that adds nothing, or name and arguments stand in the call itself
            function = {name: value[name] for name in ("name", "arguments") if name in value}
        if not isinstance(function, dict):
            raise Malformed("the function of a tool call is no object")
        arguments = function.get("arguments")
        if arguments is None:
            arguments = ""
        elif not isinstance(arguments, str):
            arguments = json.dumps(arguments).decode()
        name, id_ = function.get("name") or "", value.get("id") or ""
        id_ = str(id_) if isinstance(id_, int) else id_
        if not isinstance(name, str) or not isinstance(id_, str):
            raise Malformed("name and id of a tool call are texts")
        index = value.get("index")
        call = None if whole else self._begun(index, id_, name, arguments)
        if call is None:
            call = FunctionCall(id_, name)
            self.calls.append(call)
        else:
            call.id = call.id or id_
            call.name = call.name or name
        if isinstance(index, int):
            self._by_index[index] = call
        if not (arguments == call.arguments and _is_object(arguments)):  # some send the whole once more at the end
            call.arguments += arguments
        vendor_members.add(call.vendor, value, without=_OWN_CALL)
        more: dict[str, Json] = call.vendor.get("function", {})
        vendor_members.add(more, function, without=_OWN_FUNCTION)
        if more:
            call.vendor["function"] = more

    def _begun(self, index: Json, id_: str, name: str, arguments: str) -> FunctionCall | None:
        """Return the call that a piece goes on with; None where it begins another.

        Indexes lie: some providers number every call 0, some leave the number out. A piece that names a function goes
        on with a call of the same id and name only, and one without a name never begins a call beside another.
        """
        if id_:
            same = next((call for call in reversed(self.calls) if call.id == id_), None)
            if same is not None:
                return same if not name or name == same.name or not same.name else None
        call = self._by_index.get(index) if isinstance(index, int) else None
        if call is None:
            is_tail = not (name or id_) and bool(self.calls) and not _is_object(self.calls[-1].arguments)
            if is_tail or not (isinstance(index, int) or name or not self.calls):
                return self.calls[-1]
            return None
        if not name or not call.name:
            return call
        if name != call.name or (id_ and call.id):
            return None
        # The name is repeated. With arguments of its own behind whole ones it is a second call of the function.
        return None if arguments.lstrip().startswith("{") and _is_object(call.arguments) else call

    def _set_finish_reason(self, reason: Json) -> None:
        if reason is None or reason == "":
            return
        self.finish_reason = FINISH_REASONS.get(str(reason), "stop")

    def _set_usage(self, value: Json) -> None:
        if isinstance(value, dict):
            details = value.get("prompt_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            self.set_usage(value.get("prompt_tokens"), value.get("completion_tokens"), cached)


def _thoughts(content: Json) -> str:
    """Return the text of thinking parts: `{"type": "thinking", "thinking": text or parts}`."""
    if not isinstance(content, list):
        return ""
    parts = [part.get("thinking") for part in content if isinstance(part, dict) and part.get("type") == "thinking"]
    return "".join(_text(part, "thinking") for part in parts)


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text.encode("utf-8", "replace")), dict)
    except ParseError:
        return False


def _list(value: Json, name: str) -> list[Json]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise Malformed(f"{name} is no array")
    return value


def _text(value: Json, name: str) -> str:
    """Return a text; the text parts of an array; nothing for null."""
    if value is None:
        return ""
    if isinstance(value, list):
        return "".join(str(part.get("text") or "") for part in value if isinstance(part, dict))
    if not isinstance(value, str):
        raise Malformed(f"{name} is no text")
    return value
