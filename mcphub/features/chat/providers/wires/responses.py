"""OpenAI's Responses, for its tool search that the client carries out. Pure.

`tools` holds the search alone, and never changes. A call of the search is a `tool_search_call`; its result, a
`tool_search_output`, brings the definitions, so they stand behind all that the provider has cached. Nothing is stored
at the provider: reasoning goes back encrypted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mcphub.features.chat.messages import text_of
from mcphub.features.chat.providers.completions import Malformed, ProviderCompletion
from mcphub.features.chat.providers.wires.wire import (
    CHAT,
    ITEMS,
    AnswerReader,
    DeferredTools,
    add_call,
    add_item,
    image_address,
    image_detail,
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
        "reasoning_effort",
        "response_format",
        "tool_choice",
        "parallel_tool_calls",
        "user",
        "safety_identifier",
        "prompt_cache_key",
        "service_tier",
        "verbosity",
    }
)
"""Of chat completions, with a place on this wire."""
_AS_THEY_ARE = (
    "temperature",
    "top_p",
    "parallel_tool_calls",
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "service_tier",
)
_KEPT = ("type", "id", "summary", "encrypted_content")


class ResponsesWire:
    name = "responses"
    path = "/responses"

    def credentials(self, key: str, base_url: str) -> dict[str, str]:
        return CHAT.credentials(key, base_url)

    def body(self, body: dict[str, Json], deferred: DeferredTools) -> dict[str, Json]:
        made: dict[str, Json] = {"model": body["model"], "store": False, "include": ["reasoning.encrypted_content"]}
        made |= {name: body[name] for name in _AS_THEY_ARE if name in body}
        most = body.get("max_completion_tokens", body.get("max_tokens"))
        if most is not None:
            made["max_output_tokens"] = most
        if "reasoning_effort" in body:
            made["reasoning"] = {"effort": body["reasoning_effort"]}
        words = _format(body.get("response_format")) | {name: body[name] for name in ("verbosity",) if name in body}
        if words:
            made["text"] = words
        if body.get("stream"):
            made["stream"] = True
        made["tools"] = [_tool(each["function"]) for each in body.get("tools", ())]
        choice = body.get("tool_choice")
        if choice is not None:
            made["tool_choice"] = (
                {"type": "function", "name": choice["function"]["name"]} if isinstance(choice, dict) else choice
            )
        made["input"] = list(_items(body["messages"], deferred))
        return made

    def reader(self, answer: ProviderCompletion) -> AnswerReader:
        return _ResponseReader(answer)


def _tool(function: Mapping[str, Json]) -> dict[str, Json]:
    if function["name"] != SEARCH:
        return _function(function)
    words = {"description": function.get("description"), "parameters": function.get("parameters")}
    return {"type": "tool_search", "execution": "client", **words}


def _function(function: Mapping[str, Json]) -> dict[str, Json]:
    return {"type": "function", **function, "strict": bool(function.get("strict"))}


def _format(wanted: Json) -> dict[str, Json]:
    if not isinstance(wanted, dict):
        return {}
    schema = wanted.get("json_schema")
    return {"format": {"type": wanted["type"], **(schema if isinstance(schema, dict) else {})}}


# The conversation ---------------------------------------------------------------------------------


def _items(messages: list[dict[str, Json]], deferred: DeferredTools) -> Iterator[dict[str, Json]]:
    searches: set[Json] = set()
    for message in messages:
        content = message.get("content")
        if message["role"] == "tool":
            yield _result(message, deferred, is_search=message["tool_call_id"] in searches)
            continue
        yield from message.get(ITEMS) or ()
        if content:
            yield {"role": message["role"], "content": _content(content, message["role"])}
        for call in message.get("tool_calls") or ():
            name, arguments = call["function"]["name"], call["function"]["arguments"]
            if name == SEARCH:
                searches.add(call["id"])
                found = {"execution": "client", "status": "completed", "arguments": object_of(arguments)}
                yield {"type": "tool_search_call", "call_id": call["id"], **found}
            else:
                yield {"type": "function_call", "call_id": call["id"], "name": name, "arguments": arguments or "{}"}


def _content(content: Json, role: Json) -> Json:
    if isinstance(content, str) or role == "assistant":
        return text_of(content)
    return [
        {"type": "input_image", "image_url": image_address(part), "detail": image_detail(part)}
        if part.get("type") == "image_url"
        else {"type": "input_text", "text": str(part.get("text", ""))}
        for part in content
    ]


def _result(message: Mapping[str, Json], deferred: DeferredTools, *, is_search: bool) -> dict[str, Json]:
    call_id, text = message["tool_call_id"], text_of(message.get("content"))
    if not is_search:
        return {"type": "function_call_output", "call_id": call_id, "output": text}
    tools = [{**_function(deferred.functions[name]), "defer_loading": True} for name in deferred.found(text)]
    found = {"execution": "client", "status": "completed", "tools": tools}
    return {"type": "tool_search_output", "call_id": call_id, **found}


# The answer ---------------------------------------------------------------------------------------


class _ResponseReader:
    def __init__(self, answer: ProviderCompletion) -> None:
        self._answer = answer

    def read_whole(self, value: Json) -> None:
        if not isinstance(value, dict) or not isinstance(value.get("output"), list):
            raise Malformed("the response has no output")
        for item in value["output"]:
            self._add(item, with_text=True)
        self._end(value)

    def read_event(self, value: Json) -> tuple[str, str]:
        if not isinstance(value, dict):
            raise Malformed("an event is no object")
        kind, delta = value.get("type"), value.get("delta")
        if isinstance(delta, str):
            if kind == "response.output_text.delta":
                self._answer.add_text(delta)
                return delta, ""
            if kind in ("response.reasoning_summary_text.delta", "response.reasoning_text.delta"):
                self._answer.add_reasoning(delta)
                return "", delta
            if kind == "response.refusal.delta":
                self._answer.refusal += delta
        elif kind == "response.output_item.done":
            self._add(value.get("item"), with_text=False)
        elif kind in ("response.completed", "response.incomplete"):
            self._end(value.get("response"))
        return "", ""

    def failure(self, value: Json) -> Json:
        if not isinstance(value, dict):
            return None
        response = value.get("response") if value.get("type") == "response.failed" else value
        is_failed = isinstance(response, dict) and bool(response.get("error"))
        return response if is_failed or value.get("type") in ("error", "response.failed") else None

    def _add(self, item: Json, *, with_text: bool) -> None:
        """Add an item of the output. `with_text`: its texts did not come as deltas."""
        if not isinstance(item, dict):
            raise Malformed("an item is no object")
        kind = item.get("type")
        if kind == "function_call":
            add_call(self._answer, item.get("call_id"), item.get("name"), item.get("arguments"))
        elif kind == "tool_search_call":
            if item.get("execution", "client") == "client":
                add_call(self._answer, item.get("call_id") or item.get("id"), SEARCH, item.get("arguments"))
        elif kind == "reasoning":
            if item.get("encrypted_content"):
                add_item(self._answer, {name: item[name] for name in _KEPT if name in item})
            if with_text:
                for part in item.get("summary") or ():
                    self._answer.add_reasoning(str(part.get("text") or ""))
        elif kind == "message" and with_text:
            for part in item.get("content") or ():
                if part.get("type") == "refusal":
                    self._answer.refusal += str(part.get("refusal") or "")
                else:
                    self._answer.add_text(str(part.get("text") or ""))

    def _end(self, response: Json) -> None:
        if not isinstance(response, dict):
            raise Malformed("a response is no object")
        usage = response.get("usage")
        if isinstance(usage, dict):
            details = usage.get("input_tokens_details")
            cached = details.get("cached_tokens") if isinstance(details, dict) else 0
            self._answer.set_usage(usage.get("input_tokens"), usage.get("output_tokens"), cached)
        why = response.get("incomplete_details")
        if response.get("status") == "incomplete":
            is_filter = isinstance(why, dict) and why.get("reason") == "content_filter"
            self._answer.finish_reason = "content_filter" if is_filter else "length"
        else:
            self._answer.finish_reason = "tool_calls" if self._answer.calls else "stop"
