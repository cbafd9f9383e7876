"""Claude's Messages, for tools that its server loads where a result refers to them. Pure.

`tools` holds the search, and every other function with `defer_loading`: the provider keeps those out of the model's
context, and never changes what it has cached. The result of a search is `tool_reference` blocks.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from urllib.parse import urlsplit

from mcphub.features.chat.messages import INSTRUCTIONS, text_of
from mcphub.features.chat.providers.completions import Malformed, ProviderCompletion
from mcphub.features.chat.providers.wires.wire import (
    ITEMS,
    AnswerReader,
    DeferredTools,
    add_call,
    add_item,
    image_address,
    object_of,
)
from sessions_app.protocol.json import Json
from tools_catalog.catalog.search_definitions import SEARCH

PARAMETERS = frozenset(
    {
        "temperature",
        "top_p",
        "max_tokens",
        "max_completion_tokens",
        "stop",
        "tool_choice",
        "parallel_tool_calls",
        "user",
    }
)
"""Of chat completions, with a place on this wire."""
VERSION = "2023-06-01"
MOST_TOKENS = 8192
"""The bound of an answer where the client names none: the wire demands one."""
_FINISH_REASONS = {
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_DATA = re.compile(r"data:([^;,]+);base64,(.*)", re.DOTALL)
_THOUGHTS = ("thinking", "redacted_thinking")


class MessagesWire:
    name = "messages"
    path = "/messages"

    def credentials(self, key: str, base_url: str) -> dict[str, str]:
        host = urlsplit(base_url).hostname or ""
        headers = {"anthropic-version": VERSION}
        if key:
            headers["x-api-key"] = key
            if host != "anthropic.com" and not host.endswith(".anthropic.com"):  # which takes one of the two
                headers["authorization"] = f"Bearer {key}"
        return headers

    def body(self, body: dict[str, Json], deferred: DeferredTools) -> dict[str, Json]:
        most = body.get("max_completion_tokens", body.get("max_tokens"))
        made: dict[str, Json] = {"model": body["model"], "max_tokens": most or MOST_TOKENS}
        made |= {name: body[name] for name in ("temperature", "top_p") if name in body}
        if "stop" in body:
            made["stop_sequences"] = [body["stop"]] if isinstance(body["stop"], str) else body["stop"]
        if "user" in body:
            made["metadata"] = {"user_id": body["user"]}
        if body.get("stream"):
            made["stream"] = True
        made["tools"] = [
            *(_tool(each["function"]) for each in body.get("tools", ())),
            *({**_tool(function), "defer_loading": True} for function in deferred.functions.values()),
        ]
        choice = _choice(body.get("tool_choice", "auto"))
        if body.get("parallel_tool_calls") is False and choice["type"] != "none":
            choice["disable_parallel_tool_use"] = True
        if choice != {"type": "auto"}:
            made["tool_choice"] = choice
        instructions = (text_of(each.get("content")) for each in body["messages"] if each["role"] in INSTRUCTIONS)
        if system := "\n\n".join(filter(None, instructions)):
            made["system"] = system
        made["messages"] = list(_messages(body["messages"], deferred))
        return made

    def reader(self, answer: ProviderCompletion) -> AnswerReader:
        return _MessageReader(answer)


def _tool(function: Mapping[str, Json]) -> dict[str, Json]:
    words = {"description": function["description"]} if function.get("description") else {}
    return {"name": function["name"], **words, "input_schema": function.get("parameters") or {"type": "object"}}


def _choice(choice: Json) -> dict[str, Json]:
    if isinstance(choice, dict):
        return {"type": "tool", "name": choice["function"]["name"]}
    return {"type": {"required": "any"}.get(choice, choice)}


# The conversation ---------------------------------------------------------------------------------


def _messages(messages: list[dict[str, Json]], deferred: DeferredTools) -> Iterator[dict[str, Json]]:
    searches: set[Json] = set()
    results: list[dict[str, Json]] = []
    """Of one message's calls: they are one message of the user."""
    for message in messages:
        if message["role"] == "tool":
            results.append(_result(message, deferred, is_search=message["tool_call_id"] in searches))
            continue
        if results:
            yield {"role": "user", "content": results}
            results = []
        if message["role"] in INSTRUCTIONS:
            continue
        blocks = [*(message.get(ITEMS) or ()), *_blocks(message.get("content"))]
        for call in message.get("tool_calls") or ():
            name = call["function"]["name"]
            if name == SEARCH:
                searches.add(call["id"])
            made = {"name": name, "input": object_of(call["function"]["arguments"])}
            blocks.append({"type": "tool_use", "id": _id(call["id"]), **made})
        if blocks:
            yield {"role": message["role"], "content": blocks}
    if results:
        yield {"role": "user", "content": results}


def _blocks(content: Json) -> Iterator[dict[str, Json]]:
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    for part in content or ():
        if part.get("type") == "image_url":
            yield {"type": "image", "source": _image(image_address(part))}
        elif str(part.get("text") or "").strip():
            yield {"type": "text", "text": part["text"]}


def _image(address: str) -> dict[str, Json]:
    data = _DATA.fullmatch(address)
    if data is None:
        return {"type": "url", "url": address}
    return {"type": "base64", "media_type": data[1], "data": data[2]}


def _result(message: Mapping[str, Json], deferred: DeferredTools, *, is_search: bool) -> dict[str, Json]:
    text = text_of(message.get("content"))
    found = deferred.found(text) if is_search else []
    references = [{"type": "tool_reference", "tool_name": name} for name in found]
    return {"type": "tool_result", "tool_use_id": _id(message["tool_call_id"]), "content": references or text}


def _id(call_id: Json) -> str:
    """Return an ID that the wire takes; the same one always becomes the same."""
    text = str(call_id)
    return text if _ID.fullmatch(text) else hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:40]


# The answer ---------------------------------------------------------------------------------------


class _MessageReader:
    def __init__(self, answer: ProviderCompletion) -> None:
        self._answer = answer
        self._blocks: dict[Json, dict[str, Json]] = {}
        """Those of a stream that have begun, by index."""
        self._input = 0
        self._cached = 0

    def read_whole(self, value: Json) -> None:
        if not isinstance(value, dict) or not isinstance(value.get("content"), list):
            raise Malformed("the message has no content")
        for block in value["content"]:
            if not isinstance(block, dict):
                raise Malformed("a block is no object")
            if block.get("type") == "text":
                self._answer.add_text(str(block.get("text") or ""))
            elif block.get("type") == "thinking":
                self._answer.add_reasoning(str(block.get("thinking") or ""))
            self._end_block(block)
        self._count(value.get("usage"))
        self._finish(value.get("stop_reason") or "end_turn")

    def read_event(self, value: Json) -> tuple[str, str]:
        if not isinstance(value, dict):
            raise Malformed("an event is no object")
        kind, index = value.get("type"), value.get("index")
        if kind == "message_start" and isinstance(value.get("message"), dict):
            self._count(value["message"].get("usage"))
        elif kind == "content_block_start" and isinstance(value.get("content_block"), dict):
            self._blocks[index] = dict(value["content_block"])
        elif kind == "content_block_delta" and isinstance(value.get("delta"), dict):
            return self._delta(self._blocks.setdefault(index, {}), value["delta"])
        elif kind == "content_block_stop" and index in self._blocks:
            block = self._blocks.pop(index)
            if "partial" in block:
                block["input"] = block.pop("partial") or "{}"
            self._end_block(block)
        elif kind == "message_delta" and isinstance(value.get("delta"), dict):
            self._count(value.get("usage"))
            if value["delta"].get("stop_reason"):
                self._finish(value["delta"]["stop_reason"])
        return "", ""

    def failure(self, value: Json) -> Json:
        return value if isinstance(value, dict) and value.get("error") else None

    def _delta(self, block: dict[str, Json], delta: dict[str, Json]) -> tuple[str, str]:
        kind = delta.get("type")
        if kind == "text_delta":
            text = str(delta.get("text") or "")
            self._answer.add_text(text)
            return text, ""
        if kind == "thinking_delta":
            thought = str(delta.get("thinking") or "")
            block["thinking"] = str(block.get("thinking") or "") + thought
            self._answer.add_reasoning(thought)
            return "", thought
        if kind == "signature_delta":
            block["signature"] = str(block.get("signature") or "") + str(delta.get("signature") or "")
        elif kind == "input_json_delta":
            block["partial"] = str(block.get("partial") or "") + str(delta.get("partial_json") or "")
        return "", ""

    def _end_block(self, block: dict[str, Json]) -> None:
        if block.get("type") == "tool_use":
            add_call(self._answer, block.get("id"), block.get("name"), block.get("input"))
        elif block.get("type") in _THOUGHTS:
            add_item(self._answer, block)

    def _count(self, usage: Json) -> None:
        if not isinstance(usage, dict):
            return
        if isinstance(usage.get("input_tokens"), int):
            parts = [usage.get(f"{name}_input_tokens") for name in ("cache_creation", "cache_read")]
            written, self._cached = (each if isinstance(each, int) else 0 for each in parts)
            self._input = usage["input_tokens"] + written + self._cached
        self._answer.set_usage(self._input, usage.get("output_tokens"), self._cached)

    def _finish(self, reason: Json) -> None:
        self._answer.finish_reason = _FINISH_REASONS.get(str(reason), "stop")
