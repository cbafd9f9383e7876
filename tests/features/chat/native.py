"""OpenAI's Responses and Claude's Messages as their makers publish them, for a scripted provider that loads tools.

A model calls a function only once it is loaded; a request that breaks the wire's rules is refused.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from typing import Any

from tests.features.chat.answers import Answer
from tests.features.chat.script import Step

Body = dict[str, Any]
STUBBORN = "scripted-stubborn"
"""A model whose provider knows neither."""
_PIECE = 7
_ids = itertools.count(1)


class Refused(Exception):
    """The provider refuses the request; the argument is why."""


class NativeRequest:
    """One request on either wire."""

    def __init__(self, path: str, body: Body) -> None:
        self.is_claude = path.endswith("/messages")
        self.body = body
        if body.get("model") == STUBBORN:
            raise Refused("Unknown parameter: 'tools[0].execution'.")
        self.loaded: dict[str, Body] = {}
        """The functions that the model knows, as it was told of them."""
        self.messages = self._claude() if self.is_claude else self._openai()
        """In the form of chat completions, as far as a script needs it."""

    def answer(self, step: Step) -> Answer:
        tools = [{"function": {"name": name}} for name in self.loaded]
        answer = Answer(step, {"model": self.body["model"], "messages": self.messages, "tools": tools})
        for call in answer.calls:
            if call["function"]["name"] not in self.loaded:
                raise Refused(f"The script calls {call['function']['name']}, which is not loaded.")
        return answer

    # What comes ----------------------------------------------------------------------------------

    def _openai(self) -> list[Body]:
        for tool in self.body["tools"]:
            if tool["type"] == "tool_search":
                _demand(tool.get("execution") == "client", "Hosted search is not scripted.")
                self.loaded["search_tools"] = tool
            else:
                _demand(isinstance(tool.get("strict"), bool), "Missing required parameter: 'tools[0].strict'.")
                self.loaded[tool["name"]] = tool
        messages: list[Body] = []
        calls: dict[str, str] = {}
        for item in self.body["input"]:
            kind = item.get("type", "message")
            if kind in ("function_call_output", "tool_search_output"):
                _demand(calls.pop(item["call_id"], "") == kind, f"No tool call found for {item['call_id']}.")
                for tool in item.get("tools", ()):
                    _demand(tool["type"] == "function" and "parameters" in tool, "A loaded tool is a function.")
                    self.loaded[tool["name"]] = tool
                messages.append({"role": "tool"})
            elif kind == "message" and item["role"] != "assistant":
                messages.append({"role": item["role"], "content": _text(item["content"])})
            else:
                if kind in ("function_call", "tool_search_call"):
                    calls[item["call_id"]] = kind.replace("search_call", "search").removesuffix("_output") + "_output"
                if kind == "tool_search_call":
                    _demand(isinstance(item["arguments"], dict), "The arguments of a search are an object.")
                if not messages or messages[-1]["role"] != "assistant":
                    messages.append({"role": "assistant"})
        _demand(not calls, f"No tool output found for {list(calls)}.")
        return messages

    def _claude(self) -> list[Body]:
        _demand(isinstance(self.body.get("max_tokens"), int), "max_tokens: Field required")
        tools = {tool["name"]: tool for tool in self.body["tools"]}
        _demand(any(not each.get("defer_loading") for each in tools.values()), "All tools have defer_loading set.")
        self.loaded = {name: tool for name, tool in tools.items() if not tool.get("defer_loading")}
        messages: list[Body] = []
        open_calls: set[str] = set()
        for message in self.body["messages"]:
            blocks = message["content"]
            results = [block for block in blocks if block["type"] == "tool_result"]
            _demand(open_calls == {each["tool_use_id"] for each in results}, "tool_use ids need their tool_result.")
            open_calls = {block["id"] for block in blocks if block["type"] == "tool_use"}
            for result in results:
                for block in result["content"] if isinstance(result["content"], list) else ():
                    name = block.get("tool_name")
                    _demand(name in tools, f"Tool reference {name!r} has no corresponding tool definition")
                    self.loaded[name] = tools[name]
            said = "".join(block.get("text", "") for block in blocks)
            messages.append({"role": "tool"} if results else {"role": message["role"], "content": said})
        return messages

    # What goes -----------------------------------------------------------------------------------

    def whole(self, answer: Answer) -> Body:
        usage = answer.usage()
        if self.is_claude:
            head = {"id": answer.id, "type": "message", "role": "assistant", "model": self.body["model"]}
            end = {"stop_reason": "tool_use" if answer.calls else "end_turn", "stop_sequence": None}
            tokens = {"input_tokens": usage["prompt_tokens"], "output_tokens": usage["completion_tokens"]}
            return {**head, "content": _blocks(answer), **end, "usage": tokens}
        return self._response(answer, _items(answer), "completed")

    def events(self, answer: Answer) -> Iterator[Body]:
        yield from self._claude_events(answer) if self.is_claude else self._openai_events(answer)

    def _response(self, answer: Answer, output: list[Body], status: str) -> Body:
        usage = answer.usage()
        tokens = {
            "input_tokens": usage["prompt_tokens"],
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": usage["completion_tokens"],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": usage["total_tokens"],
        }
        return {
            "id": answer.id,
            "object": "response",
            "created_at": answer.created,
            "status": status,
            "model": self.body["model"],
            "output": output,
            "parallel_tool_calls": True,
            "tool_choice": "auto",
            "tools": self.body["tools"],
            "error": None,
            "incomplete_details": None,
            "usage": tokens if status == "completed" else None,
        }

    def _openai_events(self, answer: Answer) -> Iterator[Body]:
        items, number = _items(answer), itertools.count()
        begun = self._response(answer, [], "in_progress")
        yield {"type": "response.created", "sequence_number": next(number), "response": begun}
        for at, item in enumerate(items):
            place = {"output_index": at}
            yield {"type": "response.output_item.added", "sequence_number": next(number), **place, "item": item}
            if item["type"] == "message":
                for piece in _pieces(answer.text):
                    delta = {"item_id": item["id"], **place, "content_index": 0, "delta": piece, "logprobs": []}
                    yield {"type": "response.output_text.delta", "sequence_number": next(number), **delta}
            yield {"type": "response.output_item.done", "sequence_number": next(number), **place, "item": item}
        done = self._response(answer, items, "completed")
        yield {"type": "response.completed", "sequence_number": next(number), "response": done}

    def _claude_events(self, answer: Answer) -> Iterator[Body]:
        whole = self.whole(answer)
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        yield {"type": "message_start", "message": begun}
        yield {"type": "ping"}
        for at, block in enumerate(whole["content"]):
            empty = {"tool_use": {"input": {}}, "text": {"text": ""}, "thinking": {"thinking": "", "signature": ""}}
            yield {"type": "content_block_start", "index": at, "content_block": {**block, **empty[block["type"]]}}
            deltas: list[Body] = []
            if block["type"] == "text":
                deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
            elif block["type"] == "tool_use":
                parts = _pieces(json.dumps(block["input"]))
                deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in parts]
            else:
                deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
                deltas.append({"type": "signature_delta", "signature": block["signature"]})
            for delta in deltas:
                yield {"type": "content_block_delta", "index": at, "delta": delta}
            yield {"type": "content_block_stop", "index": at}
        end = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
        tokens = {"output_tokens": whole["usage"]["output_tokens"]}
        yield {"type": "message_delta", "delta": end, "usage": tokens}
        yield {"type": "message_stop"}


def refusal(request_path: str, why: str) -> Body:
    if request_path.endswith("/messages"):
        return {"type": "error", "error": {"type": "invalid_request_error", "message": why}}
    return {"error": {"message": why, "type": "invalid_request_error", "param": None, "code": "unknown_parameter"}}


def _items(answer: Answer) -> list[Body]:
    items: list[Body] = []
    if "think" in answer.step:
        summary = [{"type": "summary_text", "text": answer.step["think"]}]
        items.append({"type": "reasoning", "id": f"rs_{next(_ids)}", "summary": summary, "encrypted_content": "sealed"})
    if answer.text:
        part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
        head = {"type": "message", "id": f"msg_{next(_ids)}", "role": "assistant", "status": "completed"}
        items.append({**head, "content": [part]})
    for call in answer.calls:
        name, arguments = call["function"]["name"], call["function"]["arguments"]
        made = {"call_id": call["id"], "status": "completed"}
        if name == "search_tools":
            made |= {"type": "tool_search_call", "id": f"tsc_{next(_ids)}", "execution": "client"}
            items.append({**made, "arguments": json.loads(arguments)})
        else:
            items.append(
                {**made, "type": "function_call", "id": f"fc_{next(_ids)}", "name": name, "arguments": arguments}
            )
    return items


def _blocks(answer: Answer) -> list[Body]:
    blocks: list[Body] = []
    if "think" in answer.step:
        blocks.append({"type": "thinking", "thinking": answer.step["think"], "signature": "sealed"})
    if answer.text:
        blocks.append({"type": "text", "text": answer.text})
    for call in answer.calls:
        made = {"name": call["function"]["name"], "input": json.loads(call["function"]["arguments"])}
        blocks.append({"type": "tool_use", "id": call["id"], **made})
    return blocks


def _demand(holds: bool, why: str) -> None:
    if not holds:
        raise Refused(why)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _pieces(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]
