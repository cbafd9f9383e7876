"""A step of a script as the bodies that an OpenAI-compatible provider sends: one object, or chunks."""

from __future__ import annotations

import itertools
import json
import re
import time
from collections.abc import Iterator
from typing import Any

from tests.features.chat.script import SWELLS, Step

_ids = itertools.count(1)


class Answer:
    """One answer to one request."""

    def __init__(self, step: Step, request: dict[str, Any]) -> None:
        self.step = step
        self.request = request
        self.wants_usage = bool((request.get("stream_options") or {}).get("include_usage"))
        self.id = f"chatcmpl-scripted-{next(_ids)}"
        self.created = int(time.time())
        self.text = str(step.get("say", ""))
        self.calls = [self._call(each) for each in step.get("calls", [])]
        if (request.get("response_format") or {}).get("type") == "json_schema":
            # Without native tools the model answers in the JSON that it is forced to.
            function = self.calls[0]["function"] if self.calls else None
            self.text, self.calls = _constrained(function, self.text, request), []
        self.finish = step.get("finish", "tool_calls" if self.calls else "stop")

    def whole(self) -> dict[str, Any]:
        """The answer as one `chat.completion`."""
        message: dict[str, Any] = {"role": "assistant", "content": self.text or None}
        if "think" in self.step:
            message["reasoning_content"] = self.step["think"]
        if self.calls:
            message["tool_calls"] = self.calls
        choice = {"index": 0, "message": message, "finish_reason": self.finish, "logprobs": None}
        body = self._envelope("chat.completion", [] if self.step.get("choices") == "empty" else [choice])
        usage = self.step.get("usage")
        if usage != "missing":
            body["usage"] = None if usage == "null" else self.usage()
        return body

    def chunks(self) -> Iterator[dict[str, Any]]:
        """The answer as `chat.completion.chunk` objects, without the closing `[DONE]`."""
        if self.step.get("choices") != "empty":
            yield self._chunk({"role": "assistant", "content": ""})
            for delta in self._deltas():
                yield self._chunk(delta)
            yield self._chunk({}, self.finish)
        else:
            yield self._envelope("chat.completion.chunk", [])
        usage = self.step.get("usage")
        if self.wants_usage and usage != "missing":
            body = self._envelope("chat.completion.chunk", [])
            if usage == "choices_null":
                body["choices"] = None
            body["usage"] = None if usage == "null" else self.usage()
            yield body

    def usage(self) -> dict[str, int]:
        """Tokens in a count that a test can do too: ten for each message in, one for each word out."""
        given = self.step.get("usage")
        prompt, completion = (
            given if isinstance(given, list) else (10 * len(self.request["messages"]), len(self.text.split()) or 1)
        )
        return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}

    def _deltas(self) -> Iterator[dict[str, Any]]:
        size = self.step.get("pieces", 7)
        for piece in _cut(str(self.step.get("think", "")), size):
            yield {"reasoning_content": piece}
        for piece in _cut(self.text, size):
            yield {"content": piece}
        quirk = self.step.get("quirk")
        if quirk == "whole_calls":
            yield {"tool_calls": [{**call, "index": at} for at, call in enumerate(self.calls)]}
            return
        calls = [list(self._call_deltas(at, call, size)) for at, call in enumerate(self.calls)]
        if quirk == "interleaved":
            for row in itertools.zip_longest(*calls):
                yield {"tool_calls": [delta for delta in row if delta is not None]}
        else:
            for delta in itertools.chain(*calls):
                yield {"tool_calls": [delta]}

    def _call_deltas(self, at: int, call: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
        index = {} if self.step.get("quirk") == "no_index" else {"index": at}
        function = call["function"]
        yield {**index, **call, "function": {"name": function["name"], "arguments": ""}}
        for piece in _cut(function["arguments"], size):
            yield {**index, "function": {"arguments": piece}}

    def _call(self, wanted: list[Any]) -> dict[str, Any]:
        name, arguments, *more = wanted
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
        text = text.replace(SWELLS, "x" * self.step.get("swell", 0))
        given = more[0] if more else f"call_{next(_ids)}"
        signed = {"extra_content": signature(self.step["sign"])} if "sign" in self.step else {}
        return {"id": given, "type": "function", "function": {"name": self._offered(name), "arguments": text}, **signed}

    def _offered(self, name: str) -> str:
        """Return the offered function that a tool's name means: functions are named in a narrower alphabet."""
        offered = [tool["function"]["name"] for tool in self.request.get("tools") or [] if "function" in tool]
        plain = re.sub(r"[^a-zA-Z0-9_-]", "_", name)
        near = [each for each in offered if each == name] or [each for each in offered if each.startswith(plain)]
        return min(near, key=len) if near else name

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        quirk = self.step.get("quirk")
        if quirk == "role_everywhere":
            delta = {"role": "assistant", **delta}
        if quirk == "empty_finish" and finish is None:
            finish = ""
        body = self._envelope("chat.completion.chunk", [{"index": 0, "delta": delta, "finish_reason": finish}])
        if self.wants_usage:
            body["usage"] = None
        return body

    def _envelope(self, kind: str, choices: list[Any]) -> dict[str, Any]:
        model = self.request.get("model")
        return {"id": self.id, "object": kind, "created": self.created, "model": model, "choices": choices}


def signature(sign: str) -> dict[str, Any]:
    """Return what a signed call carries beside OpenAI's members."""
    return {"google": {"thought_signature": sign}}


def _cut(text: str, size: int) -> Iterator[str]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


def _constrained(function: dict[str, str] | None, text: str, request: dict[str, Any]) -> str:
    """Return the JSON that a model would write whom `response_format` holds to a schema: a call, or its words."""
    schema = request["response_format"]["json_schema"]["schema"]
    forms = [form.get("properties", {}) for form in schema.get("anyOf", [schema])]
    if function is None:
        return _text({"answer": text}) if any("answer" in form for form in forms) else text
    plain = re.sub(r"[^a-zA-Z0-9_-]", "_", function["name"])
    names = [form["name"]["const"] for form in forms if "name" in form]
    name = next((each for each in names if each.startswith(plain)), function["name"])
    return _text({"name": name, "arguments": json.loads(function["arguments"])})


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
