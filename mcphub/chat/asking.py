"""The body of one request to a provider: what the turn says, what the model can do, what the budget still allows."""

from __future__ import annotations

from typing import Any

from mcphub.chat.errors import ChatError
from mcphub.chat.providers.pieces import Answer, ToolCall
from mcphub.chat.providers.snapshot import Model
from mcphub.chat.tools import constrained
from mcphub.chat.tools.functions import Functions
from mcphub.chat.turn import Turn

_NOT_FOR_ALL = frozenset({"safety_identifier", "prompt_cache_key", "service_tier", "verbosity", "store", "metadata"})
"""What only OpenAI itself knows; others may refuse a request for it."""


class Asking:
    """One request. `understand` reads the answer of a model that was held to a schema."""

    def __init__(
        self,
        turn: Turn,
        model: Model,
        functions: Functions,
        messages: list[dict[str, Any]],
        *,
        is_first: bool,
        without_tools: bool,
    ) -> None:
        self._turn = turn
        self._model = model
        self._functions = functions
        self.is_constrained = bool(functions) and not model.tools and not without_tools
        if self.is_constrained and not model.json_schema:
            raise ChatError(
                "INVALID_QUERY",
                f"The model {model.id} can neither call functions nor be held to a schema, so it cannot use tools. "
                "Ask without tools, or another model.",
                param="tools",
            )
        self.stream = turn.stream and model.streams and not self.is_constrained
        self.body = self._body(messages, is_first=is_first, without_tools=without_tools)

    def understand(self, answer: Answer) -> None:
        """Turn the JSON of a constrained answer into a call, or into the words that it holds."""
        read = constrained.understand(answer.text)
        answer.say(read if isinstance(read, str) else "")
        if not isinstance(read, str):
            answer.calls = [ToolCall("", *read)]

    def _body(self, messages: list[dict[str, Any]], *, is_first: bool, without_tools: bool) -> dict[str, Any]:
        turn, model, functions = self._turn, self._model, self._functions
        body: dict[str, Any] = {"model": model.name, **self._parameters()}
        choice = self._tool_choice(is_first=is_first)
        plain = messages
        if functions and not model.tools:
            plain = constrained.said_plainly(messages)
        if self.is_constrained:
            may_answer = choice != "required" and not isinstance(choice, dict)
            chosen = functions if not isinstance(choice, dict) else functions.only(choice["function"]["name"])
            told = constrained.instructions(chosen, may_answer=may_answer)
            plain = [{"role": "system", "content": told}, *plain]
            body["response_format"] = constrained.response_format(chosen, may_answer=may_answer)
        elif functions and model.tools:
            body["tools"] = functions.wire(strict=model.provider.kind == "openai")
            if without_tools:
                body["tool_choice"] = "none"
            elif choice != "auto":
                body["tool_choice"] = choice
            parallel = turn.parameters.get("parallel_tool_calls")
            is_mixed = bool(functions.tools) and bool(functions.client_tools) and not turn.may_mix
            if not model.parallel_tools or is_mixed:
                parallel = False
            if parallel is not None:
                body["parallel_tool_calls"] = parallel
        body["messages"] = self._said(plain)
        if self.stream:
            body["stream"] = True
            if model.usage_in_stream:
                body["stream_options"] = {"include_usage": True}
        return body

    def _parameters(self) -> dict[str, Any]:
        given = {
            name: value
            for name, value in self._turn.parameters.items()
            if name not in ("tool_choice", "parallel_tool_calls")
        }
        if self._model.provider.kind != "openai":
            given = {name: value for name, value in given.items() if name not in _NOT_FOR_ALL}
            if "max_completion_tokens" in given:
                given.setdefault("max_tokens", given.pop("max_completion_tokens"))
        return given

    def _said(self, messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
        if self._model.provider.kind == "openai":
            return messages
        return [
            {**message, "role": "system"} if message.get("role") == "developer" else message for message in messages
        ]

    def _tool_choice(self, *, is_first: bool) -> Any:
        """Give what the client wants called. A call that it demands is made once: else the turn would never end."""
        choice = self._turn.parameters.get("tool_choice", "auto")
        if isinstance(choice, dict):
            name = self._functions.named(str((choice.get("function") or {}).get("name", "")))
            if name is None:
                raise ChatError(
                    "INVALID_QUERY", "tool_choice names a function that is not among the tools.", param="tool_choice"
                )
            choice = {"type": "function", "function": {"name": name}}
        elif choice == "required" and not self._functions:
            raise ChatError("INVALID_QUERY", "tool_choice is required, and there are no tools.", param="tool_choice")
        return choice if is_first or choice == "none" else "auto"


def functions_of(turn: Turn) -> Functions:
    """Give what the model may call in a turn; raise ChatError for names that clash."""
    return Functions(turn.tools, turn.client_tools)
