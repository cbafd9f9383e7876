"""One turn of a scenario, through one of the judges, and everything that was wrong with it."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from tests.features.chat import wire
from tests.features.chat.conftest import KEYS
from tests.features.chat.nodes import NodeClient, NodeError
from tests.features.chat.running import ScriptedProvider
from tests.features.chat.scenarios import MCP, OWN, Scenario
from tests.features.chat.script import script

CLASSES = {
    400: "BadRequestError",
    401: "AuthenticationError",
    403: "PermissionDeniedError",
    404: "NotFoundError",
    409: "ConflictError",
    429: "RateLimitError",
    502: "InternalServerError",
    503: "InternalServerError",
    504: "InternalServerError",
}
"""What both official clients raise for a status."""


@dataclass(slots=True)
class Heard:
    """What a judge made of the answer."""

    text: str | None = None
    finish: str | None = None
    usage: dict[str, int] | None = None
    calls: int = 0
    error: str | None = None
    """The class of what the client raised."""
    status: int | None = None
    code: str | None = None
    request_id: str | None = None
    should_retry: str | None = None
    violations: tuple[str, ...] = ()


@dataclass(slots=True)
class Player:
    raw: httpx2.Client
    python: openai.OpenAI
    node: NodeClient | None
    providers: dict[str, ScriptedProvider]
    chat_key: str

    def play(
        self, scenario: Scenario, judge: str, provider: str, stream: bool, model: str = "scripted-large"
    ) -> list[str]:
        """Ask once; give what is wrong, empty where nothing is."""
        mark = uuid.uuid4().hex
        body: dict[str, Any] = {
            "model": f"{provider}/{model}",
            "messages": [{"role": "user", "content": script(*scenario.steps, prompt=f"[{mark}] ")}],
            **scenario.more,
        }
        tools = [*(MCP if scenario.tools else ()), *([OWN] if scenario.own else ())]
        if tools:
            body["tools"] = tools
        if stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        heard: Heard = getattr(self, f"_ask_{judge}")(body)
        wrong = [*heard.violations, *_answered(scenario, heard, judge, stream)]
        return wrong + self._asked(scenario, heard, provider, mark)

    def _asked(self, scenario: Scenario, heard: Heard, provider: str, mark: str) -> list[str]:
        """Judge what the provider was asked: one conversation, its calls paired, and nobody's key but its own."""
        wrong = []
        last = {each["text"]: each for each in self.providers[provider].about(mark)}
        for request in last.values():
            if request["headers"].get("authorization") != f"Bearer {KEYS[provider]}":
                wrong.append("the provider is sent its own key")
            if self.chat_key in str(request):
                wrong.append("the client's key stays here")
            wrong += unpaired(request["body"]["messages"])
        if scenario.status == 200:
            if len(last) != len(scenario.steps):
                wrong.append(f"{len(scenario.steps)} rounds, not {len(last)}")
            called = [
                call["function"]["name"]
                for message in list(last.values())[-1]["body"]["messages"]
                for call in message.get("tool_calls") or ()
            ]
            if called != list(scenario.tools) and not scenario.own:
                wrong.append(f"the calls are {scenario.tools}, not {called}")
            prompt = sum(10 * len(request["body"]["messages"]) for request in last.values())
            if scenario.usage and heard.usage is not None and heard.usage["prompt_tokens"] != prompt:
                wrong.append(f"usage is summed over the rounds: {prompt}, not {heard.usage}")
        return wrong

    # The judges ----------------------------------------------------------------------------------

    def _ask_raw(self, body: dict[str, Any]) -> Heard:
        reading = wire.read(self.raw, body)
        heard = Heard(violations=tuple(reading.violations))
        if reading.status != 200 or reading.error is not None:
            error = reading.error or (reading.body_json or {}).get("error") or {}
            heard.status = reading.status if reading.error is None else None
            heard.error, heard.code = "", error.get("code")
            heard.should_retry = reading.headers.get("x-should-retry")
            heard.request_id = reading.headers.get("x-request-id")
        else:
            heard.text, heard.finish, heard.usage = reading.text, reading.finish, reading.usage
            if reading.chunks:
                heard.calls = len(wire.joined(reading.chunks))
            else:
                heard.calls = len(reading.body_json["choices"][0]["message"].get("tool_calls") or ())
        return heard

    def _ask_python(self, body: dict[str, Any]) -> Heard:
        try:
            if not body.get("stream"):
                return _completion(self.python.chat.completions.create(**body).model_dump())
            chunks = [chunk.model_dump() for chunk in self.python.chat.completions.create(**body)]
            return _chunks(chunks)
        except openai.APIError as error:
            return _raised(error)

    def _ask_helper(self, body: dict[str, Any]) -> Heard:
        """The helper puts chunks together by itself, and fails where they do not fit."""
        rest = {name: value for name, value in body.items() if name not in ("stream", "tools")}
        try:
            with self.python.chat.completions.stream(**rest, extra_body={"tools": body.get("tools", [])}) as events:
                return _completion(events.get_final_completion().model_dump())
        except openai.APIError as error:
            return _raised(error)

    def _ask_node(self, body: dict[str, Any]) -> Heard:
        assert self.node is not None
        try:
            if body.get("stream"):
                return _chunks(self.node.ask("stream", body))
            return _completion(self.node.ask("chat", body))
        except NodeError as error:
            told = error.told
            return Heard(
                error=told["name"], status=told.get("status"), code=told.get("code"), request_id=told.get("requestID")
            )


def can_judge(judge: str, scenario: Scenario, stream: bool) -> bool:
    """Return whether the judge has a way to ask so. Python's helper always streams, and raises for answers cut
    short.
    """
    return stream in scenario.only and (judge != "helper" or (stream and scenario.finish in ("stop", "tool_calls")))


def unpaired(messages: list[dict[str, Any]]) -> list[str]:
    """Say where a call has no result, or a result no call: no provider takes that."""
    wrong = []
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] in waiting:
                waiting.remove(message["tool_call_id"])
            else:
                wrong.append("a result follows its call")
            continue
        if waiting:
            wrong.append("every call has a result")
        waiting = [call["id"] for call in message.get("tool_calls") or ()]
        if len(set(waiting)) < len(waiting):
            wrong.append("ids of calls differ")
    return wrong + (["every call has a result"] if waiting else [])


def _answered(scenario: Scenario, heard: Heard, judge: str, stream: bool) -> list[str]:
    expected: dict[str, Any]
    found = {name: getattr(heard, name) for name in ("text", "finish", "calls", "error", "status", "code")}
    if scenario.status == 200:
        own = sum(len(step.get("calls", ())) for step in scenario.steps[-1:]) if scenario.own else 0
        expected = {
            "text": scenario.text,
            "finish": scenario.finish,
            "calls": own,
            "error": None,
            "status": None,
            "code": None,
        }
        found["text"] = found["text"] or ""
        wrong = [] if (heard.usage is not None) == scenario.usage else [f"usage is {heard.usage}"]
    else:
        in_stream = stream and scenario.breaks_off
        name = "APIError" if in_stream else CLASSES[scenario.status]
        expected = {
            "text": None,
            "finish": None,
            "calls": 0,
            "error": "" if judge == "raw" else name,
            "status": None if in_stream else scenario.status,
            "code": scenario.code,
        }
        wrong = [] if heard.request_id or in_stream else ["an error has a request id"]
        if judge == "raw" and not in_stream and heard.should_retry != ("true" if scenario.retries else "false"):
            wrong.append(f"x-should-retry is {heard.should_retry}")
    return wrong + [
        f"{name} is {expected[name]!r}, not {found[name]!r}" for name in expected if expected[name] != found[name]
    ]


def _completion(body: dict[str, Any]) -> Heard:
    choice = body["choices"][0]
    message = choice["message"]
    calls = len(message.get("tool_calls") or ())
    return Heard(text=message["content"], finish=choice["finish_reason"], usage=body.get("usage"), calls=calls)


def _chunks(chunks: list[dict[str, Any]]) -> Heard:
    choices = [choice for chunk in chunks for choice in chunk["choices"]]
    text = "".join(choice["delta"].get("content") or "" for choice in choices)
    reasons = [choice["finish_reason"] for choice in choices if choice.get("finish_reason")]
    wrong = () if len(reasons) == 1 else (f"one finish_reason, not {reasons}",)
    return Heard(
        text=text,
        finish=reasons[0] if reasons else None,
        usage=chunks[-1].get("usage"),
        calls=len(wire.joined(chunks)),
        violations=wrong,
    )


def _raised(error: openai.APIError) -> Heard:
    return Heard(
        error=type(error).__name__,
        status=getattr(error, "status_code", None),
        code=error.code,
        request_id=getattr(error, "request_id", None),
    )
