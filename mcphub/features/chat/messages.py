"""The messages of a conversation: in whole units, pruned to a limit, healed, and as their client knows them.

Pure. Messages have OpenAI's shape: `{"role", "content", "tool_calls"?, "tool_call_id"?}`. A unit is accepted by
providers as a whole or not at all: one message, or an assistant message with `tool_calls` and the result of each
call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from sessions_app.protocol.json import Json

Message = Mapping[str, Json]

INSTRUCTIONS = frozenset({"system", "developer"})
"""Roles of messages that are always kept and never counted."""
ROLES = INSTRUCTIONS | {"user", "assistant", "tool"}


VENDOR = "x_mcp_vendor"
"""A member of kept messages: a provider's members beside OpenAI's, and its model; see `engine.outgoing`."""


class Unpaired(ValueError):
    """A call without its result, or a result without its call. `index` is the message where that shows."""

    def __init__(self, index: int, sentence: str) -> None:
        super().__init__(sentence)
        self.index = index


class Diverged(ValueError):
    """The messages that a client sent again are not those that the session holds."""

    def __init__(self, index: int) -> None:
        super().__init__(
            f"Message {index} differs from what the session holds. Send only what is new: the session knows the rest."
        )
        self.index = index


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A message as a session holds it."""

    message: Message
    client_calls: frozenset[str] = frozenset()
    """Ids of the calls, among `tool_calls`, that the client makes itself, so that it has seen them."""


def with_result(messages: Sequence[dict[str, Json]], call_id: str, content: str) -> list[dict[str, Json]]:
    """Return the messages with this result in place of the call's earlier one."""
    return [
        {**message, "content": content}
        if message["role"] == "tool" and message.get("tool_call_id") == call_id
        else message
        for message in messages
    ]


def units(messages: Sequence[Message]) -> list[list[int]]:
    """Return the indexes of the messages unit by unit, without the instructions; raise Unpaired."""
    found: list[list[int]] = []
    missing: dict[str, None] = {}
    for index, message in enumerate(messages):
        role = message["role"]
        if role == "tool":
            call_id = message.get("tool_call_id")
            if call_id not in missing:
                raise Unpaired(index, f"A tool message answers {call_id!r}, and no call of that id waits for a result.")
            del missing[call_id]
            found[-1].append(index)
            continue
        if missing:
            raise Unpaired(index, _no_result(missing))
        if role in INSTRUCTIONS:
            continue
        found.append([index])
        for call_id in call_ids(message):
            if call_id in missing:
                raise Unpaired(index, f"Two calls of one message have the id {call_id!r}.")
            missing[call_id] = None
    if missing:
        raise Unpaired(len(messages), _no_result(missing))
    return found


def prune(
    messages: Sequence[Message], limit: float, weigh: Callable[[Message], float] = lambda message: 1
) -> list[int]:
    """Return the indexes of the messages to send: the newest units with a total weight of at most `limit`.

    The first unit kept begins with a user's message, so the turn under way (all from the last user's message on)
    is kept whole, even where it alone is over the limit. Instructions stay and weigh nothing.

    Raises Unpaired for messages that no provider would take.
    """
    whole = units(messages)
    begins = [number for number, unit in enumerate(whole) if messages[unit[0]]["role"] == "user"]
    weights = [sum(weigh(messages[index]) for index in unit) for unit in whole]
    first = begins[-1] if begins else 0
    total = sum(weights[first:])
    for number in range(first - 1, -1, -1):
        total += weights[number]
        if total > limit:
            break
        if number in begins:
            first = number
    kept = {index for unit in whole[first:] for index in unit}
    return [index for index, message in enumerate(messages) if index in kept or message["role"] in INSTRUCTIONS]


def unanswered(messages: Sequence[Message]) -> list[Mapping[str, Json]]:
    """Return the calls at the end of the messages that have no result, in their order."""
    answered: set[Json] = set()
    for message in reversed(messages):
        if message["role"] != "tool":
            calls: Sequence[Mapping[str, Json]] = message.get("tool_calls") or ()
            return [call for call in calls if call["id"] not in answered]
        answered.add(message.get("tool_call_id"))
    return []


def call_ids(message: Message) -> list[str]:
    return [call["id"] for call in message.get("tool_calls") or ()]


def new_messages(stored: Sequence[StoredMessage], sent: Sequence[Message]) -> list[Message]:
    """Return the additions of `sent` to a session: all of it, or the part after the repeated history.

    A client may send only the new part, or the whole history first, as without a session. It did the latter if it
    sends an answer of the assistant, which only the session can have given. Instructions that the session holds are
    left out. Raises Diverged where the repeated history is another one.
    """
    held = [kept.message.get("content") for kept in stored if kept.message["role"] in INSTRUCTIONS]
    fresh = [message for message in sent if message["role"] not in INSTRUCTIONS or message.get("content") not in held]
    if not any(message["role"] == "assistant" for message in sent):
        return fresh
    seen = list(_as_client_saw(stored))
    dialogue = [(index, message) for index, message in enumerate(sent) if message["role"] not in INSTRUCTIONS]
    for position, known in enumerate(seen):
        if position >= len(dialogue):
            raise Diverged(len(sent))
        index, message = dialogue[position]
        if not known.matches(message):
            raise Diverged(index)
    rest = dialogue[len(seen) :]
    for index, message in rest:
        if message["role"] == "assistant":
            raise Diverged(index)
    repeated = {id(message) for _, message in dialogue[: len(seen)]}
    return [message for message in fresh if id(message) not in repeated]


@dataclass(slots=True)
class _ClientView:
    """A message as its client saw it: of the hub's own calls only the texts around them."""

    role: str
    texts: list[str]
    calls: list[tuple[Json, ...]]
    call_id: Json = None

    def matches(self, message: Message) -> bool:
        if message["role"] != self.role:
            return False
        if self.role == "tool":
            return bool(message.get("tool_call_id") == self.call_id)
        # Streams tell the texts one after the other, whole answers may tell the last alone.
        text = text_of(message.get("content"))
        return text in ("".join(self.texts), self.texts[-1]) and _calls(message) == self.calls


def _as_client_saw(stored: Sequence[StoredMessage]) -> Iterator[_ClientView]:
    texts: list[str] = []
    clients: frozenset[str] = frozenset()
    for kept in stored:
        message = kept.message
        role = message["role"]
        if role in INSTRUCTIONS:
            continue
        if role == "tool":
            if message.get("tool_call_id") in clients:
                yield _ClientView(role, [], [], message.get("tool_call_id"))
            continue
        if role == "user":
            texts = []
            yield _ClientView(role, [text_of(message.get("content"))], [])
            continue
        texts.append(text_of(message.get("content")))
        clients = kept.client_calls
        if not message.get("tool_calls") or clients:
            yield _ClientView(role, texts, [call for call in _calls(message) if call[0] in clients])
            texts = []


def _calls(message: Message) -> list[tuple[Json, ...]]:
    return [
        (call.get("id"), (call.get("function") or {}).get("name"), (call.get("function") or {}).get("arguments"))
        for call in message.get("tool_calls") or ()
    ]


def text_of(content: Json) -> str:
    """Return the text of a message's content, which is a text, null, or a list of parts."""
    if isinstance(content, str):
        return content
    if not isinstance(content, Sequence):
        return ""
    return "".join(str(part.get("text", "")) for part in content if isinstance(part, Mapping))


def _no_result(missing: Mapping[str, None]) -> str:
    return f"Each call needs a tool message with its result. Missing: {', '.join(map(repr, missing))}."
