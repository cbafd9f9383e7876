"""The parts of a response in the terms of OpenAI's Responses: items, the response around them, and the streaming
events. Pure: takes the engine's events, gives JSON objects.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Mapping

from mcphub.features.chat.engine.events import ApprovalNeeded, ClientToolCalls, ToolFinished, ToolStarted, TurnFinished
from mcphub.features.chat.errors import ChatError
from mcphub.features.chat.providers.completions import TokenUsage
from sessions_app.protocol.json import Json

_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_ERROR_CODES = {
    "RATE_LIMITED": "rate_limit_exceeded",
    "QUOTA_EXCEEDED": "rate_limit_exceeded",
    "QUOTA_REACHED": "rate_limit_exceeded",
    "INVALID_QUERY": "invalid_prompt",
    "CONTENT_FILTER": "invalid_prompt",
}
"""Ours -> one of the few codes that a response's error may have; else server_error."""


def new_id(prefix: str) -> str:
    return f"{prefix}_{uuid.uuid4().hex}"


class ResponseBuilder:
    """Builds one response. Each method returns the events to stream, numbered; `response` is the current state."""

    def __init__(
        self,
        response_id: str,
        model: str,
        labels: Mapping[str, str],
        echo: dict[str, Json],
        namespaces: Mapping[str, tuple[str, str]],
    ) -> None:
        self._labels = labels
        """Tool's name -> the client's label of the server that it belongs to."""
        self._namespaces = namespaces
        """Function's name -> the client's namespace, and the name in it."""
        self._number = 0
        self._open: dict[str, tuple[int, dict[str, Json]]] = {}
        """Calls under way, by the model's id of the call."""
        self._message: tuple[int, dict[str, Json]] | None = None
        self.approved: dict[str, str] = {}
        """The model's id of a call -> the approval that it runs under."""
        self.output: list[dict[str, Json]] = []
        self.response: dict[str, Json] = {
            "id": response_id,
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "model": model,
            "output": self.output,
            "usage": None,
            **echo,
        }

    def begin(self) -> list[dict[str, Json]]:
        return [
            self._event("response.created", response=self._snapshot()),
            self._event("response.in_progress", response=self._snapshot()),
        ]

    def listed(self, label: str, tools: list[dict[str, Json]]) -> list[dict[str, Json]]:
        """A server's tools, in MCP's words."""
        shown = [
            {
                "name": tool["name"],
                "description": tool.get("description"),
                "input_schema": tool["inputSchema"],
                "annotations": tool.get("annotations"),
            }
            for tool in tools
        ]
        item: dict[str, Json] = {"id": new_id("mcpl"), "type": "mcp_list_tools", "server_label": label, "tools": []}
        at = self._add(item)
        events = [self._added(at), self._item_event("response.mcp_list_tools.in_progress", at)]
        item["tools"] = shown
        return [*events, self._item_event("response.mcp_list_tools.completed", at), self._done(at)]

    def text(self, delta: str) -> list[dict[str, Json]]:
        events = []
        if self._message is None:
            item: dict[str, Json] = {
                "id": new_id("msg"),
                "type": "message",
                "role": "assistant",
                "status": "in_progress",
                "content": [],
            }
            at = self._add(item)
            events.append(self._added(at))
            part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
            item["content"] = [part]
            events.append(self._item_event("response.content_part.added", at, content_index=0, part=dict(part)))
            self._message = (at, item)
        at, item = self._message
        item["content"][0]["text"] += delta
        events.append(self._item_event("response.output_text.delta", at, content_index=0, delta=delta, logprobs=[]))
        return events

    def tool_started(self, event: ToolStarted) -> list[dict[str, Json]]:
        events = self._end_message()
        item: dict[str, Json] = {
            "id": new_id("mcp"),
            "type": "mcp_call",
            "status": "in_progress",
            "name": event.name,
            "server_label": self._label(event.name),
            "arguments": "",
            "output": None,
            "error": None,
            "approval_request_id": self.approved.get(event.call_id),
        }
        at = self._add(item)
        self._open[event.call_id] = (at, item)
        events += [self._added(at), self._item_event("response.mcp_call.in_progress", at)]
        item["arguments"] = event.arguments
        return [
            *events,
            self._item_event("response.mcp_call_arguments.delta", at, delta=event.arguments),
            self._item_event("response.mcp_call_arguments.done", at, arguments=event.arguments),
        ]

    def tool_finished(self, event: ToolFinished) -> list[dict[str, Json]]:
        events = []
        if event.call_id not in self._open:  # refused before it began
            events = self.tool_started(
                ToolStarted(call_id=event.call_id, name=event.name, arguments=event.arguments, round=event.round)
            )
        at, item = self._open.pop(event.call_id)
        if event.is_error:
            content = [{"type": "text", "text": event.content}]
            item |= {"status": "failed", "error": {"type": "mcp_tool_execution_error", "content": content}}
        else:
            item |= {"status": "completed", "output": event.content}
        told = {"invocation_id": event.invocation_id, "error_code": event.error_code}
        if extension := {name: value for name, value in told.items() if value}:
            item["x_mcp"] = extension
        state = "failed" if event.is_error else "completed"
        return [*events, self._item_event(f"response.mcp_call.{state}", at), self._done(at)]

    def client_calls(self, event: ClientToolCalls) -> list[dict[str, Json]]:
        events = self._end_message()
        for call in event.calls:
            function = call["function"]
            namespace, name = self._namespaces.get(function["name"], ("", function["name"]))
            item: dict[str, Json] = {
                "id": new_id("fc"),
                "type": "function_call",
                "status": "in_progress",
                "call_id": call["id"],
                "name": name,
                "arguments": "",
            }
            if namespace:
                item["namespace"] = namespace
            at = self._add(item)
            events.append(self._added(at))
            item |= {"arguments": function["arguments"], "status": "completed"}
            about = {"name": name, "arguments": function["arguments"]}
            events.append(self._item_event("response.function_call_arguments.delta", at, delta=function["arguments"]))
            events.append(self._item_event("response.function_call_arguments.done", at, **about))
            events.append(self._done(at))
        return events

    def approval_needed(self, event: ApprovalNeeded) -> list[dict[str, Json]]:
        events = self._end_message()
        item = {
            "id": event.approval_id,
            "type": "mcp_approval_request",
            "name": event.name,
            "server_label": self._label(event.name),
            "arguments": event.arguments,
        }
        at = self._add(item)
        return [*events, self._added(at), self._done(at)]

    def finish(self, event: TurnFinished, extension: dict[str, Json]) -> list[dict[str, Json]]:
        events = self._end_message()
        reason = _INCOMPLETE.get(event.reason)
        status = "incomplete" if reason else "completed"
        self.response |= {
            "status": status,
            "usage": _usage(event.usage),
            "completed_at": int(time.time()),
            "incomplete_details": {"reason": reason} if reason else None,
            "x_mcp": extension,
        }
        return [*events, self._event(f"response.{status}", response=self._snapshot())]

    def fail(self, error: ChatError) -> list[dict[str, Json]]:
        """The last event of a stream that had begun."""
        code = _ERROR_CODES.get(error.code, "server_error")
        failure = {"code": code, "message": error.message}
        self.response |= {"status": "failed", "error": failure, "x_mcp": error.body()["x_mcp"]}
        return [self._event("response.failed", response=self._snapshot())]

    # The pieces ----------------------------------------------------------------------------------

    def _end_message(self) -> list[dict[str, Json]]:
        if self._message is None:
            return []
        at, item = self._message
        self._message = None
        item["status"] = "completed"
        text = item["content"][0]["text"]
        return [
            self._item_event("response.output_text.done", at, content_index=0, text=text, logprobs=[]),
            self._item_event("response.content_part.done", at, content_index=0, part=dict(item["content"][0])),
            self._done(at),
        ]

    def _add(self, item: dict[str, Json]) -> int:
        self.output.append(item)
        return len(self.output) - 1

    def _added(self, at: int) -> dict[str, Json]:
        return self._event("response.output_item.added", output_index=at, item=dict(self.output[at]))

    def _done(self, at: int) -> dict[str, Json]:
        return self._event("response.output_item.done", output_index=at, item=dict(self.output[at]))

    def _item_event(self, kind: str, at: int, **members: Json) -> dict[str, Json]:
        return self._event(kind, item_id=self.output[at]["id"], output_index=at, **members)

    def _event(self, kind: str, **members: Json) -> dict[str, Json]:
        number = self._number
        self._number += 1
        return {"type": kind, "sequence_number": number, **members}

    def _snapshot(self) -> dict[str, Json]:
        return {**self.response, "output": [dict(item) for item in self.output]}

    def _label(self, tool: str) -> str:
        return self._labels.get(tool) or next(iter(self._labels.values()), "hub")


def _usage(usage: TokenUsage | None) -> dict[str, Json] | None:
    if usage is None:
        return None
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {"cached_tokens": usage.cached_tokens, "cache_write_tokens": 0},
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": usage.total_tokens,
    }
